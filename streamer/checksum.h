// streamer/checksum.h
//
// XXH3-64 with the default secret and seed 0: what packages are checked with. It finds damage, not
// malice.

#ifndef SLUICE_STREAMER_CHECKSUM_H_
#define SLUICE_STREAMER_CHECKSUM_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace sluice {

std::uint64_t Checksum(std::span<const std::byte> bytes);

// The same, of bytes that arrive piece by piece. Allocates when constructed only.
class RunningChecksum {
 public:
  RunningChecksum();
  ~RunningChecksum();
  RunningChecksum(const RunningChecksum&) = delete;
  RunningChecksum& operator=(const RunningChecksum&) = delete;
  void Reset();
  void Add(std::span<const std::byte> piece);
  std::uint64_t value() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sluice

#endif  // SLUICE_STREAMER_CHECKSUM_H_
