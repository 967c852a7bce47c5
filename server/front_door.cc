#include "server/front_door.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <string>
#include <system_error>
#include <thread>
#include <unordered_map>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "base/mutex.h"
#include "base/thread_name.h"
#include "server/relayed_connection.h"

namespace sluice {
namespace {

constexpr std::size_t kPiece = 32 * 1024;
constexpr int kEventsAtOnce = 64;
constexpr int kAcceptsAtOnce = 32;
constexpr Duration kSweep = std::chrono::seconds(1);
constexpr Duration kBusyTick = std::chrono::milliseconds(100);

// What an event of epoll is about: a number and one of these.
enum class About : std::uint64_t { kWake, kListener, kClient, kServer };
std::uint64_t Label(std::uint64_t number, About about) {
  return number << 2 | static_cast<std::uint64_t>(about);
}

constexpr std::string_view kOverTcp = ".tcp", kOverUnix = ".unix";

// In the abstract name space, where nothing is left behind.
bool NameEnd(const OwnedFd& end, std::uint64_t number, bool tcp) {
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  const std::string text =
      absl::StrFormat("sluice.%d.%d%s", getpid(), number, tcp ? kOverTcp : kOverUnix);
  text.copy(name.sun_path + 1, sizeof(name.sun_path) - 1);
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  return bind(end.get(), reinterpret_cast<const sockaddr*>(&name), size) == 0;
}

}  // namespace

bool CameOverUnixSocket(std::string_view grpc_peer) { return grpc_peer.ends_with(kOverUnix); }

std::optional<std::uint64_t> ConnectionNumber(std::string_view grpc_peer) {
  if (!grpc_peer.ends_with(kOverUnix) && !grpc_peer.ends_with(kOverTcp)) return std::nullopt;
  const std::size_t transport = grpc_peer.rfind('.');
  const std::size_t dot = grpc_peer.substr(0, transport).rfind('.');
  if (dot == std::string_view::npos) return std::nullopt;
  const std::string_view digits = grpc_peer.substr(dot + 1, transport - dot - 1);
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(digits.begin(), digits.end(), number);
  if (error != std::errc() || end != digits.end()) return std::nullopt;
  return number;
}

class FrontDoor::Impl {
 public:
  Impl(Limits limits, std::vector<Listener> listeners, std::function<bool()> tick, Counts& counts)
      : limits_(std::move(limits)),
        tick_(std::move(tick)),
        counts_(counts),
        epoll_(epoll_create1(EPOLL_CLOEXEC)),
        wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        listeners_(std::move(listeners)) {}

  ~Impl() {
    stop_.store(true, std::memory_order_relaxed);
    Wake();
    if (thread_.joinable()) thread_.join();
    counts_.open.fetch_sub(static_cast<std::int64_t>(connections_.size()),
                           std::memory_order_relaxed);
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  absl::Status Begin() {
    if (epoll_.get() < 0 || wake_.get() < 0 || !Watch(wake_.get(), EPOLLIN, 0, About::kWake) ||
        !WatchListeners(EPOLLIN)) {
      return absl::UnavailableError(
          absl::StrFormat("cannot wait for connections: %s", std::strerror(errno)));
    }
    thread_ = std::thread([this] { Run(); });
    return absl::OkStatus();
  }

  void StopAccepting() {
    stop_accepting_.store(true, std::memory_order_relaxed);
    Wake();
  }

  void Drain(Instant until) {
    MutexLock lock(mutex_);
    while (busy_connections_ > 0) {
      if (!changed_.WaitUntil(mutex_, until)) return;
    }
  }

 private:
  void Wake() const {
    const std::uint64_t one = 1;
    // It cannot fail but when the counter is full, and then the thread wakes anyway.
    (void)!write(wake_.get(), &one, sizeof(one));
  }

  bool Watch(int fd, std::uint32_t events, std::uint64_t number, About about) {
    epoll_event event{};
    event.events = events;
    event.data.u64 = Label(number, about);
    return epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
  }

  bool WatchListeners(std::uint32_t events) {
    std::uint64_t number = 0;
    for (const Listener& listener : listeners_) {
      for (const OwnedFd& socket : listener.sockets) {
        epoll_event event{};
        event.events = events;
        event.data.u64 = Label(number, About::kListener);
        if (epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, socket.get(), &event) != 0 &&
            epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, socket.get(), &event) != 0) {
          return false;
        }
      }
      ++number;
    }
    return true;
  }

  void Run() {
    NameThread("front door");
    epoll_event events[kEventsAtOnce];
    Instant next_sweep{}, next_tick{};
    bool busy = false;
    while (!stop_.load(std::memory_order_relaxed)) {
      const Instant until = busy ? std::min(next_tick, next_sweep) : next_sweep;
      const int count = epoll_wait(epoll_.get(), events, kEventsAtOnce, TimeoutUntil(until));
      const Instant now = SteadyClock().Now();
      for (int i = 0; i < count; ++i) Handle(events[i].data.u64, now);
      if (stop_accepting_.load(std::memory_order_relaxed)) listeners_.clear();
      if (now >= next_sweep) {
        Sweep(now);
        next_sweep = now + kSweep;
        next_tick = now;
      }
      if (now >= next_tick) {
        busy = tick_();
        next_tick = now + kBusyTick;
      }
      Publish();
    }
  }

  // In milliseconds; for ever while nobody is connected.
  int TimeoutUntil(Instant until) const {
    if (connections_.empty() && !paused_) return -1;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - SteadyClock().Now());
    return static_cast<int>(std::max<std::int64_t>(0, left.count()));
  }

  void Handle(std::uint64_t label, Instant now) {
    const std::uint64_t number = label >> 2;
    switch (static_cast<About>(label & 3)) {
      case About::kWake: {
        std::uint64_t times = 0;
        (void)!read(wake_.get(), &times, sizeof(times));
        return;
      }
      case About::kListener:
        if (number < listeners_.size()) Accept(listeners_[number], now);
        return;
      case About::kClient:
      case About::kServer: {
        const auto found = connections_.find(number);
        if (found != connections_.end()) Relay(found, now);
        return;
      }
    }
  }

  void Accept(const Listener& listener, Instant now) {
    for (const OwnedFd& socket : listener.sockets) {
      for (int i = 0; i < kAcceptsAtOnce; ++i) {
        OwnedFd client(accept4(socket.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
        if (client.get() >= 0) {
          Take(listener, std::move(client), now);
          continue;
        }
        if (errno == ECONNABORTED || errno == EINTR) continue;
        if (errno != EAGAIN) Pause();
        break;
      }
    }
  }

  // Without descriptors or memory nobody is accepted until the next sweep.
  void Pause() { paused_ = WatchListeners(0); }

  void Take(const Listener& listener, OwnedFd client, Instant now) {
    counts_.accepted.fetch_add(1, std::memory_order_relaxed);
    if (connections_.size() >= limits_.connections && !MakeRoom(now)) {
      counts_.refused.fetch_add(1, std::memory_order_relaxed);
      return;
    }
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) != 0) {
      counts_.refused.fetch_add(1, std::memory_order_relaxed);
      return Pause();
    }
    OwnedFd ours(pair[0]), theirs(pair[1]);
    const std::uint64_t number = next_number_++;
    if (!NameEnd(ours, number, listener.tcp) ||
        !Watch(client.get(), EPOLLIN, number, About::kClient) ||
        !Watch(ours.get(), EPOLLIN, number, About::kServer)) {
      return Pause();
    }
    connections_.try_emplace(
        number,
        Connection{RelayedConnection(
                       std::move(client), std::move(ours),
                       listener.encrypted ? std::nullopt : std::optional(limits_.http2), now),
                   EPOLLIN, EPOLLIN});
    counts_.open.fetch_add(1, std::memory_order_relaxed);
    Publish();  // Before gRPC has it and can write: Drain must know of it.
    listener.deliver(std::move(theirs));
  }

  // One that is idle goes, first of those that have never called, then the one that has been
  // silent longest. False: all are in use.
  bool MakeRoom(Instant now) {
    auto victim = connections_.end();
    for (auto each = connections_.begin(); each != connections_.end(); ++each) {
      const RelayedConnection& one = each->second.relay;
      if (!one.idle(now)) continue;
      if (victim == connections_.end() ||
          std::pair(one.called(), one.last_bytes()) <
              std::pair(victim->second.relay.called(), victim->second.relay.last_bytes())) {
        victim = each;
      }
    }
    if (victim == connections_.end()) return false;
    counts_.refused.fetch_add(1, std::memory_order_relaxed);
    Remove(victim);
    return true;
  }

  struct Connection {
    RelayedConnection relay;
    std::uint32_t client_events, server_events;  // As epoll has them.
  };
  using Connections = std::unordered_map<std::uint64_t, Connection>;

  void Relay(Connections::iterator found, Instant now) {
    Connection& connection = found->second;
    ForgetAbandoned(now);
    calls_ -= connection.relay.calls();
    const RelayedConnection::State state =
        connection.relay.Relay(buffer_, now, limits_.calls - std::min(held_calls(), limits_.calls));
    calls_ += connection.relay.calls();
    abandoned_ += connection.relay.TakeResets();
    const std::size_t large = connection.relay.large_messages();
    if (large > 1 || (large > 0 && !limits_.may_receive(found->first))) {
      counts_.refused.fetch_add(1, std::memory_order_relaxed);
      return Remove(found);
    }
    switch (state) {
      case RelayedConnection::State::kOpen:
        break;
      case RelayedConnection::State::kNotHttp2:
        counts_.refused.fetch_add(1, std::memory_order_relaxed);
        return Remove(found);
      case RelayedConnection::State::kEnded:
        return Remove(found);
    }
    Rewatch(connection.relay.client_fd(), found->first, About::kClient,
            connection.relay.client_events(), connection.client_events);
    Rewatch(connection.relay.server_fd(), found->first, About::kServer,
            connection.relay.server_events(), connection.server_events);
  }

  // Nothing to wait for takes the socket out: epoll tells of a hang-up whether asked or not.
  void Rewatch(int fd, std::uint64_t number, About about, std::uint32_t wanted,
               std::uint32_t& current) {
    if (wanted == current) return;
    epoll_event event{};
    event.events = wanted;
    event.data.u64 = Label(number, about);
    const int how = current == 0 ? EPOLL_CTL_ADD : wanted == 0 ? EPOLL_CTL_DEL : EPOLL_CTL_MOD;
    epoll_ctl(epoll_.get(), how, fd, &event);
    current = wanted;
  }

  // What gRPC may hold.
  std::size_t held_calls() const { return calls_ + abandoned_ + abandoned_before_; }

  void Remove(Connections::iterator found) {
    calls_ -= found->second.relay.calls();
    abandoned_ += found->second.relay.calls();
    connections_.erase(found);
    counts_.open.fetch_sub(1, std::memory_order_relaxed);
  }

  // Called before any calls are counted, so that nobody is refused for what is long over.
  void ForgetAbandoned(Instant now) {
    if (now - last_forgotten_ < limits_.giving_up) return;
    const bool long_ago = now - last_forgotten_ >= 2 * limits_.giving_up;
    abandoned_before_ = long_ago ? 0 : abandoned_;
    abandoned_ = 0;
    last_forgotten_ = now;
  }

  // Peers that are too slow to begin, or to take the last bytes.
  void Sweep(Instant now) {
    for (auto each = connections_.begin(); each != connections_.end();) {
      const auto one = each++;
      const RelayedConnection& relay = one->second.relay;
      const bool slow_to_begin = !relay.established() && now - relay.begin() > limits_.handshake;
      const bool slow_to_end = relay.closing() && now - relay.last_bytes() > limits_.handshake;
      if (!slow_to_begin && !slow_to_end) continue;
      counts_.refused.fetch_add(1, std::memory_order_relaxed);
      Remove(one);
    }
    if (std::exchange(paused_, false)) WatchListeners(EPOLLIN);
  }

  // For Drain.
  void Publish() {
    if (connections_.size() == published_) return;
    published_ = connections_.size();
    MutexLock lock(mutex_);
    busy_connections_ = published_;
    if (busy_connections_ == 0) changed_.NotifyAll();
  }

  const Limits limits_;
  const std::function<bool()> tick_;
  Counts& counts_;
  const OwnedFd epoll_, wake_;
  std::atomic<bool> stop_{false}, stop_accepting_{false};
  Mutex mutex_;
  CondVar changed_;
  std::size_t busy_connections_ ABSL_GUARDED_BY(mutex_) = 0;

  // The thread's own.
  std::vector<Listener> listeners_;
  Connections connections_;
  std::vector<std::uint8_t> buffer_ = std::vector<std::uint8_t>(kPiece);
  std::uint64_t next_number_ = 0;
  std::size_t calls_ = 0;  // Open on all connections.
  // Given up by clients in this interval and the one before: gRPC needs a while to end them, and a
  // peer that opens and resets calls without pause would fill its memory.
  std::size_t abandoned_ = 0, abandoned_before_ = 0;
  Instant last_forgotten_{};
  std::size_t published_ = 0;
  bool paused_ = false;
  std::thread thread_;
};

absl::StatusOr<std::unique_ptr<FrontDoor>> FrontDoor::Open(Limits limits,
                                                           std::vector<Listener> listeners,
                                                           std::function<bool()> tick,
                                                           Counts& counts) {
  auto impl =
      std::make_unique<Impl>(std::move(limits), std::move(listeners), std::move(tick), counts);
  if (const absl::Status begun = impl->Begin(); !begun.ok()) return begun;
  return std::unique_ptr<FrontDoor>(new FrontDoor(std::move(impl)));
}

FrontDoor::FrontDoor(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
FrontDoor::~FrontDoor() = default;
void FrontDoor::StopAccepting() { impl_->StopAccepting(); }
void FrontDoor::Drain(Instant until) { impl_->Drain(until); }

}  // namespace sluice
