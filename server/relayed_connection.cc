#include "server/relayed_connection.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

namespace sluice {
namespace {

// So that one connection does not keep the others waiting.
constexpr int kMostPieces = 8;
constexpr Duration kQuiet = std::chrono::seconds(30);

}  // namespace

RelayedConnection::RelayedConnection(OwnedFd client, OwnedFd server,
                                     std::optional<Http2Guard::Limits> http2, Instant now)
    : client_(std::move(client)), server_(std::move(server)), begin_(now), last_bytes_(now) {
  if (http2) guard_.emplace(*http2);
}

RelayedConnection::State RelayedConnection::Relay(std::span<std::uint8_t> buffer, Instant now,
                                                  std::size_t most_calls) {
  if (guard_) guard_->Allow(most_calls);
  Step up = Step::kAgain, down = Step::kAgain;
  for (int piece = 0; piece < kMostPieces; ++piece) {
    if (down == Step::kAgain) down = Move(server_.get(), client_.get(), to_client_, buffer);
    if (up == Step::kAgain && !closing()) {
      up = Move(client_.get(), server_.get(), to_server_, buffer);
    }
    if (up == Step::kAgain || down == Step::kAgain) last_bytes_ = now;
    if (up == Step::kNotHttp2) return State::kNotHttp2;
    // A client that has closed its side waits for nothing: HTTP/2 has no half-open connections.
    if (up == Step::kBroken || down == Step::kBroken || to_server_.ended) return State::kEnded;
    if (closing()) return to_client_.blocked() ? State::kOpen : State::kEnded;
    if (!TellRefusals()) return State::kEnded;
    if (up == Step::kWait && down == Step::kWait) break;
  }
  return State::kOpen;
}

RelayedConnection::Step RelayedConnection::Move(int from, int to, Lane& lane,
                                                std::span<std::uint8_t> buffer) {
  if (lane.blocked()) {
    const std::vector<std::uint8_t> rest = std::exchange(lane.rest, {});
    if (!Send(to, rest, lane)) return Step::kBroken;
    if (lane.blocked()) return Step::kWait;
  }
  if (lane.ended) return Step::kWait;
  const bool down = &lane == &to_client_;
  const std::size_t most = guard_ && down ? guard_->ServerPiece(buffer.size()) : buffer.size();
  const ssize_t got = recv(from, buffer.data(), most, 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return Step::kWait;
  if (got < 0) return Step::kBroken;
  if (got == 0) {
    lane.ended = true;
    return Step::kWait;
  }
  const std::span<std::uint8_t> bytes = buffer.first(static_cast<std::size_t>(got));
  if (guard_) {
    const bool follows = down ? guard_->FromServer(bytes) : guard_->FromClient(bytes);
    if (!follows) return Step::kNotHttp2;
  }
  if (!Send(to, bytes, lane)) return Step::kBroken;
  return lane.blocked() ? Step::kWait : Step::kAgain;
}

bool RelayedConnection::TellRefusals() {
  if (!guard_ || to_client_.blocked()) return true;
  const std::vector<std::uint8_t> frames = guard_->TakeRefusals();
  return Send(client_.get(), frames, to_client_);
}

bool RelayedConnection::Send(int to, std::span<const std::uint8_t> bytes, Lane& lane) {
  while (!bytes.empty()) {
    const ssize_t sent = send(to, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno != EAGAIN) return false;
    if (sent < 0) {
      lane.rest.assign(bytes.begin(), bytes.end());
      return true;
    }
    bytes = bytes.subspan(static_cast<std::size_t>(sent));
  }
  return true;
}

std::uint32_t RelayedConnection::client_events() const {
  return (!closing() && !to_server_.blocked() ? static_cast<std::uint32_t>(EPOLLIN) : 0) |
         (to_client_.blocked() ? static_cast<std::uint32_t>(EPOLLOUT) : 0);
}

std::uint32_t RelayedConnection::server_events() const {
  if (closing()) return 0;
  return (!to_client_.blocked() ? static_cast<std::uint32_t>(EPOLLIN) : 0) |
         (to_server_.blocked() ? static_cast<std::uint32_t>(EPOLLOUT) : 0);
}

bool RelayedConnection::idle(Instant now) const {
  return guard_ ? guard_->idle() : now - last_bytes_ > kQuiet;
}

}  // namespace sluice
