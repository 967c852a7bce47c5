#include "server/budget_need.h"

#include <algorithm>
#include <functional>

namespace sluice {
namespace {

// Beside the tensors: names, parameters, the allocator's own bytes.
constexpr Bytes kRequestOverhead = 128_KiB;
constexpr Bytes kLeastRequest = 256_KiB;

Bytes Sum(std::span<const Bytes> amounts) {
  Bytes sum;
  for (const Bytes amount : amounts) sum += amount;
  return sum;
}

// The least budget that covers what is asked of it, which may grow with the budget, but slower.
Bytes LeastCovering(const std::function<Bytes(Bytes)>& asked) {
  std::uint64_t low = 0, high = Bytes::Max().count() / kPageSize.count();
  while (low < high) {
    const std::uint64_t pages = low + (high - low) / 2;
    if (asked(kPageSize * pages) <= kPageSize * pages) {
      high = pages;
    } else {
      low = pages + 1;
    }
  }
  return kPageSize * low;
}

Bytes Asked(const Config& config, const ModelNeed& need, Bytes shared, Bytes budget) {
  const Bytes serving = need.kernels + RequestsRoom(need.request, budget) + shared;
  return ReceiveLimitsOf(config, budget).memory() +
         std::max(need.start, need.base + std::max(need.loading, serving));
}

}  // namespace

Bytes RequestMemory(std::span<const Bytes> inputs, std::span<const Bytes> outputs) {
  return std::max(kLeastRequest, Sum(inputs) * 3 + Sum(outputs) * 2 + kRequestOverhead);
}

ModelDemand DemandOf(const ModelConfig& model, std::span<const StepCost> steps,
                     std::span<const Bytes> extents, Bytes activations,
                     std::span<const Bytes> reads) {
  return {.steps = steps,
          .extents = extents,
          .reads = reads,
          .activations = activations,
          .weight = 1.0 / model.priority,
          .all_resident = model.pipeline == ModelConfig::Pipeline::kResident,
          .most_resident = model.max_resident.value_or(Bytes::Max())};
}

Bytes RequestsRoom(Bytes largest_request, Bytes budget) {
  const Bytes one = std::max(largest_request, kLeastRequest);
  return std::max(one, std::min(one * 4, Bytes::Of(budget.count() / 16)));
}

Bytes SmallestBudget(const Config& config, const ModelNeed& need) {
  const Bytes shared = LeastMemory({&need.demand, 1});
  return LeastCovering([&](Bytes budget) { return Asked(config, need, shared, budget); });
}

Bytes LargestUsefulBudget(const Config& config, const ModelNeed& need) {
  const Bytes shared = UsefulMemory({&need.demand, 1});
  return LeastCovering([&](Bytes budget) { return Asked(config, need, shared, budget); });
}

}  // namespace sluice
