#include "engine/program.h"

#include "base/check.h"

namespace sluice {

// A program without scaled runs is never asked.
absl::Status Program::ReadScale(ExtentIndex extent, std::size_t run, std::span<float> into) {
  SLUICE_CHECK(run < extents_[Index(extent)].runs.size() && into.empty());
  return absl::OkStatus();
}

}  // namespace sluice
