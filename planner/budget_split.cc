#include "planner/budget_split.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>

#include "base/check.h"

namespace sluice {
namespace {

// What a request could still use.
Bytes Wanted(const SplitRequest& request) { return request.useful - request.minimum; }

// Divides `rest` by weight among the requests named, exactly: rounding falls to later ones.
// Requires: none of them alone could use more than `rest`.
void ShareByWeight(std::span<const SplitRequest> requests, std::span<const std::size_t> among,
                   Bytes rest, std::vector<Bytes>& bytes) {
  double weight_left = 0;
  for (const std::size_t i : among) weight_left += requests[i].weight;
  for (const std::size_t i : among) {
    const double part = requests[i].weight / weight_left;
    Bytes share = rest;
    if (i != among.back() && part < 1) {
      const double shared = static_cast<double>(rest.count()) * part;
      share = std::min(rest, Bytes::Of(static_cast<std::uint64_t>(shared)));
    }
    bytes[i] += share;
    rest -= share;
    weight_left -= requests[i].weight;
  }
}

}  // namespace

std::optional<std::vector<Bytes>> SplitBudget(std::span<const SplitRequest> requests,
                                              Bytes budget) {
  std::vector<Bytes> bytes;
  Bytes minima;
  for (const SplitRequest& request : requests) {
    SLUICE_CHECK(request.weight > 0);
    bytes.push_back(request.minimum);
    minima += request.minimum;
  }
  if (minima > budget) return std::nullopt;
  Bytes rest = budget - minima;

  // Whole models first, those that cost least for their weight before others.
  std::vector<std::size_t> order(requests.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [requests](std::size_t i) {
    return static_cast<double>(Wanted(requests[i]).count()) / requests[i].weight;
  });
  std::vector<std::size_t> partly;
  for (const std::size_t i : order) {
    const Bytes wanted = Wanted(requests[i]);
    if (wanted > rest) {
      partly.push_back(i);
      continue;
    }
    bytes[i] += wanted;
    rest -= wanted;
  }
  // Each of these wants more than all that is left, so no share can be too large.
  if (!partly.empty()) ShareByWeight(requests, partly, rest, bytes);
  return bytes;
}

}  // namespace sluice
