// server/receiving_connections.h
//
// Which connections may have a message under way that is larger than a window: that of the call
// which has its turn at the message gate, and that of the call before it, whose last bytes may
// still be on their way. gRPC takes messages of other methods whole before anybody is asked; who
// sends large ones there is not served.

#ifndef SLUICE_SERVER_RECEIVING_CONNECTIONS_H_
#define SLUICE_SERVER_RECEIVING_CONNECTIONS_H_

#include <atomic>
#include <cstdint>
#include <limits>

namespace sluice {

// Threads: callable from several at once.
class ReceivingConnections {
 public:
  // To be called before the call's message is asked for.
  void TakeTurn(std::uint64_t connection) {
    before_.store(now_.exchange(connection), std::memory_order_relaxed);
  }
  bool MayReceive(std::uint64_t connection) const {
    return now_.load() == connection || before_.load(std::memory_order_relaxed) == connection;
  }

 private:
  static constexpr std::uint64_t kNone = std::numeric_limits<std::uint64_t>::max();
  std::atomic<std::uint64_t> now_{kNone}, before_{kNone};
};

}  // namespace sluice

#endif  // SLUICE_SERVER_RECEIVING_CONNECTIONS_H_
