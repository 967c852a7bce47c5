#include "planner/strip_climb.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "planner/offset_order.h"

namespace sluice {
namespace {

constexpr std::size_t kDrawnPackings = 256, kPackingsInVain = 120;
constexpr std::uint64_t kSeed = 1;
// Most changes bring one of the highest records to the front, by up to so much of its key; all move
// some others, up to this part of them, a little.
constexpr std::uint64_t kLiftsPercent = 70;
constexpr double kLift = 1.5, kNudge = 0.6, kMostNudged = 0.03;
// Records that end in this part of the height, from the top, are the highest.
constexpr std::uint64_t kHighest = 100;
// Work of a packing besides looking at lines and records, for each record.
constexpr std::uint64_t kWorkOfSorting = 8;

double Logarithm(Bytes bytes) { return std::log(static_cast<double>(bytes.count())); }

}  // namespace

StripClimb::StripClimb(std::span<const UsageRecord> records, const SectionMap& map)
    : records_(records), packing_(records, map), draw_(kSeed) {
  const std::vector<Bytes> breadths = Breadths(records, map);
  const std::vector<std::uint32_t> widest = WidestSections(breadths, map.spans);
  for (const std::size_t i : packing_.LongestFirst()) {
    sized_.push_back(i);
    lifetime_.push_back(std::log(static_cast<double>(map.spans[i].length())));
    size_.push_back(Logarithm(records[i].size));
    urgency_.push_back(Logarithm(breadths[widest[i]]));
  }
  keys_ = lifetime_;
  order_.resize(sized_.size());
  preference_.resize(sized_.size());
}

void StripClimb::Run(Bytes target, std::uint64_t until, const std::function<bool()>& stop) {
  do {
    const bool first = packings_ == 0;
    if (packings_ >= kDrawnPackings) {
      ChangeKeys();
    } else if (!first) {
      DrawKeys();  // The very first packing is the paper's.
    }
    OffsetPlan plan = Pack();
    ++packings_;
    if (packings_ > kDrawnPackings) ++in_vain_;
    if (first || plan.height < best_.height) best_ = plan;
    const bool lower = first || plan.height < kept_.height;
    const bool leave = in_vain_ == kPackingsInVain;  // The hill, for what may be another one.
    if (lower || leave) in_vain_ = 0;
    if (!lower && !leave && plan.height != kept_.height) continue;
    kept_ = std::move(plan);
    kept_keys_ = keys_;
  } while (best_.height > target && work() < until && !(stop && stop()));
}

// lifetime^a * size^b * urgency^c, blurred.
void StripClimb::DrawKeys() {
  const double a = 0.3 + 1.7 * Uniform(), b = 1.6 * Uniform();
  const double c = draw_.Below(3) == 0 ? 2 * Uniform() : 0;
  for (std::size_t k = 0; k < keys_.size(); ++k) {
    keys_[k] = a * lifetime_[k] + b * size_[k] + c * urgency_[k] + std::log(1 + 0.3 * Uniform());
  }
}

void StripClimb::ChangeKeys() {
  keys_ = kept_keys_;
  if (keys_.empty()) return;
  const Bytes low = kept_.height - Bytes::Of(kept_.height.count() / kHighest + 1);
  std::vector<std::size_t> highest;
  for (std::size_t k = 0; k < sized_.size(); ++k) {
    if (kept_.offsets[sized_[k]] + records_[sized_[k]].size > low) highest.push_back(k);
  }
  if (draw_.Below(100) < kLiftsPercent) {
    keys_[highest[draw_.Below(highest.size())]] += kLift * Uniform();
  }
  const double most = kMostNudged * static_cast<double>(keys_.size());
  for (auto left = 1 + static_cast<std::size_t>(most * Uniform() * Uniform()); left > 0; --left) {
    keys_[draw_.Below(keys_.size())] += kNudge * (Uniform() - 0.5);
  }
}

OffsetPlan StripClimb::Pack() {
  std::iota(order_.begin(), order_.end(), std::size_t{0});
  std::ranges::sort(order_, [this](std::size_t a, std::size_t b) {
    return keys_[a] != keys_[b] ? keys_[a] > keys_[b] : a < b;
  });
  for (std::size_t k = 0; k < order_.size(); ++k) preference_[k] = sized_[order_[k]];
  sorted_ += kWorkOfSorting * order_.size();
  return packing_.Pack(preference_);
}

}  // namespace sluice
