#include <algorithm>
#include <utility>

#include "base/check.h"
#include "streamer/executor.h"

namespace sluice {

StreamedModel::StreamedModel(std::unique_ptr<Program> program,
                             std::shared_ptr<const Package> package, OffsetPlan activations)
    : program_(std::move(program)),
      package_(std::move(package)),
      activations_(std::move(activations)),
      last_step_(program_->extents().size()),
      residents_(program_->extents().size()) {
  SLUICE_CHECK(package_->extents().size() == program_->extents().size());
  SLUICE_CHECK(activations_.offsets.size() == program_->buffers().size());
  for (const ExtentInfo& extent : program_->extents()) {
    SLUICE_CHECK(package_->extents()[extent_bytes_.size()].size == extent.size);
    extent_bytes_.push_back(AlignUp(extent.size, kPageSize));
  }
  std::size_t newest = 0;
  for (std::size_t step = 0; step < program_->steps().size(); ++step) {
    const std::optional<ExtentIndex> extent = program_->steps()[step].extent;
    if (!extent) continue;
    // The ring gives room back in the order of extents: others would wait for ever.
    SLUICE_CHECK(Index(*extent) >= newest && Index(*extent) < extent_bytes_.size());
    newest = Index(*extent);
    last_step_[newest] = At<StepIndex>(step);
  }
}

StreamedModel::~StreamedModel() = default;

Bytes StreamedModel::weight_bytes() const {
  Bytes sum;
  for (const Bytes bytes : extent_bytes_) sum += bytes;
  return sum;
}

Bytes StreamedModel::resident_bytes() const {
  return Bytes::Of(resident_bytes_.load(std::memory_order_relaxed));
}

const std::byte* StreamedModel::resident(ExtentIndex extent) const {
  return residents_[Index(extent)].span().data();
}

Bytes MinimumArena(const StreamedModel& model) {
  Bytes largest;
  for (const Bytes bytes : model.extent_bytes()) largest = std::max(largest, bytes);
  return AlignUp(model.activations().height, kPageSize) + largest;
}

}  // namespace sluice
