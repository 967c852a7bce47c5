#include "streamer/checksum.h"

#include <xxhash.h>

#include "base/check.h"

namespace sluice {

std::uint64_t Checksum(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

struct RunningChecksum::State {
  State() : xxh(XXH3_createState()) { SLUICE_CHECK(xxh != nullptr); }
  ~State() { XXH3_freeState(xxh); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  XXH3_state_t* const xxh;
};

RunningChecksum::RunningChecksum() : state_(std::make_unique<State>()) { Reset(); }

RunningChecksum::~RunningChecksum() = default;

void RunningChecksum::Reset() { SLUICE_CHECK(XXH3_64bits_reset(state_->xxh) == XXH_OK); }

void RunningChecksum::Add(std::span<const std::byte> piece) {
  SLUICE_CHECK(XXH3_64bits_update(state_->xxh, piece.data(), piece.size()) == XXH_OK);
}

std::uint64_t RunningChecksum::value() const { return XXH3_64bits_digest(state_->xxh); }

}  // namespace sluice
