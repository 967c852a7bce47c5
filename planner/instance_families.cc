#include "planner/instance_families.h"

#include <algorithm>
#include <utility>

#include "planner/draw.h"

namespace sluice {
namespace {

constexpr std::uint64_t kUnit = 64;  // Of sizes, in bytes.

class Numbers {
 public:
  explicit Numbers(std::uint64_t seed) : draw_(seed) {}

  std::uint64_t Below(std::uint64_t n) { return draw_.Below(n); }
  // In [from, to). Requires: from < to.
  std::uint64_t Between(std::uint64_t from, std::uint64_t to) { return from + Below(to - from); }
  bool Percent(std::uint64_t percent) { return Below(100) < percent; }
  template <std::size_t n>
  std::uint64_t OneOf(const std::uint64_t (&values)[n]) {
    return values[Below(n)];
  }

 private:
  Draw draw_;
};

class Instance {
 public:
  void Add(std::uint64_t begin, std::uint64_t end, std::uint64_t units) {
    records_.push_back({.size = Bytes::Of(units * kUnit),
                        .live = {At<StepIndex>(begin), At<StepIndex>(end)},
                        .alignment = Bytes::Of(1)});
  }
  std::size_t size() const { return records_.size(); }
  // In an order that says nothing, `count` of them at most.
  std::vector<UsageRecord> Shuffled(std::size_t count, Numbers& numbers) {
    for (std::size_t i = records_.size(); i > 1; --i) {
      std::swap(records_[i - 1], records_[numbers.Below(i)]);
    }
    if (records_.size() > count) records_.resize(count);
    return std::move(records_);
  }

 private:
  std::vector<UsageRecord> records_;
};

struct Piece {
  std::uint64_t begin, end;   // Time.
  std::uint64_t bottom, top;  // Units.
  std::uint64_t area() const { return (end - begin) * (top - bottom); }
};

// The rectangle in `count` pieces; large ones are cut first, more or less.
std::vector<Piece> Cut(std::size_t count, Numbers& numbers) {
  constexpr std::uint64_t kTime = 1 << 20, kLeast = 4, kLeastOfPinwheel = 12;
  std::vector<Piece> pieces = {{0, kTime, 0, kCutHeight.count() / kUnit}};
  while (pieces.size() < count) {
    std::size_t chosen = numbers.Below(pieces.size());
    for (int tries = 0; tries < 3; ++tries) {
      const std::size_t other = numbers.Below(pieces.size());
      if (pieces[other].area() > pieces[chosen].area()) chosen = other;
    }
    const auto [begin, end, bottom, top] = pieces[chosen];
    const std::uint64_t width = end - begin, height = top - bottom;
    if (std::min(width, height) >= kLeastOfPinwheel && numbers.Percent(18) &&
        pieces.size() + 4 <= count) {
      // Five pieces that no sequence of straight cuts can make.
      const std::uint64_t x1 = numbers.Between(begin + 1, end - 1),
                          x2 = numbers.Between(x1 + 1, end);
      const std::uint64_t y1 = numbers.Between(bottom + 1, top - 1),
                          y2 = numbers.Between(y1 + 1, top);
      pieces[chosen] = {begin, x2, bottom, y1};
      pieces.insert(
          pieces.end(),
          {{x2, end, bottom, y2}, {x1, end, y2, top}, {begin, x1, y1, top}, {x1, x2, y1, y2}});
      continue;
    }
    if (std::max(width, height) < kLeast) continue;
    const bool across_time = height < kLeast || (width >= kLeast && numbers.Percent(50));
    const std::uint64_t length = across_time ? width : height;
    const std::uint64_t cut = std::max<std::uint64_t>(1, length * numbers.Between(15, 85) / 100);
    pieces.push_back(pieces[chosen]);
    if (across_time) {
      pieces[chosen].end = pieces.back().begin = begin + cut;
    } else {
      pieces[chosen].top = pieces.back().bottom = bottom + cut;
    }
  }
  return pieces;
}

void Perfect(std::size_t count, Numbers& numbers, Instance& instance) {
  for (const Piece& piece : Cut(count, numbers)) {
    instance.Add(piece.begin, piece.end, piece.top - piece.bottom);
  }
}

void Loose(std::size_t count, Numbers& numbers, Instance& instance) {
  for (Piece piece : Cut(count * 100 / 97, numbers)) {
    if (numbers.Percent(3)) continue;
    if (piece.end - piece.begin > 8 && numbers.Percent(10)) {
      const std::uint64_t shorter = (piece.end - piece.begin) * numbers.Between(5, 40) / 100;
      (numbers.Percent(50) ? piece.begin += shorter : piece.end -= shorter);
    }
    instance.Add(piece.begin, piece.end, piece.top - piece.bottom);
  }
}

// A tensor's size where most have `base` units.
std::uint64_t Activation(std::uint64_t base, Numbers& numbers) {
  constexpr std::uint64_t kQuarters[] = {4, 4, 4, 4, 8, 12, 16, 2, 1};
  return std::max<std::uint64_t>(1, base * numbers.OneOf(kQuarters) / 4);
}

void Training(std::size_t count, Numbers& numbers, Instance& instance) {
  struct Layer {
    std::uint64_t step, base, units;
  };
  std::vector<Layer> layers(std::max<std::size_t>(2, count / 4));
  std::uint64_t step = 0, base = 1 << 14;
  for (Layer& layer : layers) {
    if (numbers.Below(layers.size()) < 12) {
      base = std::max<std::uint64_t>(64, base * numbers.OneOf({2, 2, 3, 6}) / 4);
    }
    layer = {step, base, Activation(base, numbers)};
    if (numbers.Percent(60)) {  // Workspace.
      instance.Add(step, step + 1 + numbers.Below(2), Activation(base, numbers));
    }
    step += numbers.OneOf({1, 1, 2});
  }
  for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer) {
    const std::uint64_t span = numbers.OneOf({1, 1, 2});
    instance.Add(layer->step, step + span, layer->units);  // Saved for the backward pass,
    instance.Add(step, step + span + 1, layer->units);     // and its gradient.
    if (numbers.Percent(70)) instance.Add(step, step + 1, Activation(layer->base, numbers));
    if (numbers.Percent(30)) {
      instance.Add(step, step + numbers.OneOf({2, 3, 8}), Activation(layer->base, numbers));
    }
    step += span;
  }
}

void Skip(std::size_t count, Numbers& numbers, Instance& instance) {
  const std::size_t depth = std::clamp<std::size_t>(count / 24, 3, 2000);
  const std::size_t steps = std::max<std::size_t>(2, count / (3 * depth));
  const std::size_t halvings = std::max<std::size_t>(1, depth / 6);
  struct Held {
    std::uint64_t step, units;
  };
  std::vector<Held> held;
  std::uint64_t step = 0, base = 1 << 14;
  for (std::size_t level = 0; level < depth; ++level) {
    for (std::size_t i = 0; i < steps; ++i, ++step) {
      instance.Add(step, step + 2, Activation(base, numbers));
      if (numbers.Percent(30)) {
        instance.Add(step, step + numbers.Between(2, 7), 1 + Activation(base, numbers) / 4);
      }
    }
    held.push_back({step, Activation(base, numbers)});
    if (level % halvings == 0) base = std::max<std::uint64_t>(32, base / 2);
  }
  for (std::size_t level = 0; level < depth; ++level) {
    if (level % halvings == 0) base *= 2;
    instance.Add(held.back().step, step + 2, held.back().units);
    held.pop_back();
    for (std::size_t i = 0; i < steps; ++i, ++step) {
      instance.Add(step, step + 2, Activation(base, numbers));
      for (std::uint64_t branches = numbers.OneOf({1, 1, 2, 4}); branches > 1; --branches) {
        instance.Add(step, step + numbers.Between(2, 6), 1 + Activation(base, numbers) / 2);
      }
    }
  }
}

void Decoder(std::size_t count, Numbers& numbers, Instance& instance) {
  const std::uint64_t tokens = numbers.OneOf({1, 17, 128, 512});
  const std::uint64_t stream = numbers.OneOf({2048, 3072, 4096}) * 4 * tokens / kUnit;
  const std::uint64_t scores = std::max<std::uint64_t>(1, 32 * tokens * tokens * 4 / kUnit);
  for (std::uint64_t step = 0; instance.size() < count; step += 8) {
    instance.Add(step, step + 9, stream);      // The residual stream,
    instance.Add(step, step + 2, stream);      // its norm,
    instance.Add(step + 1, step + 5, stream);  // query, key and value,
    instance.Add(step + 2, step + 5, stream / 4);
    instance.Add(step + 3, step + 5, stream / 4);
    instance.Add(step + 4, step + 6, scores);
    instance.Add(step + 5, step + 7, stream);
    instance.Add(step + 6, step + 8, stream * 4);  // and the wide middle of the layer.
    if (numbers.Percent(50)) instance.Add(step + 6, step + 8, stream * 4);
    instance.Add(step + numbers.Between(1, 8), step + 8, numbers.OneOf({64, 1024, 16384}));
  }
}

}  // namespace

std::string_view Name(InstanceFamily family) {
  switch (family) {
    case InstanceFamily::kPerfect:
      return "perfect";
    case InstanceFamily::kLoose:
      return "loose";
    case InstanceFamily::kTraining:
      return "training";
    case InstanceFamily::kSkip:
      return "skip";
    case InstanceFamily::kDecoder:
      return "decoder";
  }
  return "unknown";
}

std::optional<InstanceFamily> FindInstanceFamily(std::string_view name) {
  for (const InstanceFamily family : kInstanceFamilies) {
    if (Name(family) == name) return family;
  }
  return std::nullopt;
}

std::vector<UsageRecord> MakeInstance(InstanceFamily family, std::size_t count,
                                      std::uint64_t seed) {
  Numbers numbers(seed);
  Instance instance;
  switch (family) {
    case InstanceFamily::kPerfect:
      Perfect(count, numbers, instance);
      break;
    case InstanceFamily::kLoose:
      Loose(count, numbers, instance);
      break;
    case InstanceFamily::kTraining:
      Training(count, numbers, instance);
      break;
    case InstanceFamily::kSkip:
      Skip(count, numbers, instance);
      break;
    case InstanceFamily::kDecoder:
      Decoder(count, numbers, instance);
      break;
  }
  return instance.Shuffled(count, numbers);
}

}  // namespace sluice
