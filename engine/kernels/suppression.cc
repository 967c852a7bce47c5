// Non-max suppression: of the boxes of a class, best score first, those that overlap none chosen
// before.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "base/bytes.h"
#include "engine/kernels/makers.h"
#include "engine/kernels/parallel.h"

namespace sluice::kernels {
namespace {

struct Corners {
  float low_y, low_x, high_y, high_x;
  float area() const { return (high_y - low_y) * (high_x - low_x); }
};

struct SuppressionRun {
  bool centred, counts;
  std::size_t batches, classes, boxes;
  std::size_t room;  // Rows of the output, and of it for each class.
  std::size_t each;
  std::size_t team;

  Corners Box(const float* box) const {
    if (centred) {
      const float half_width = box[2] / 2, half_height = box[3] / 2;
      return {box[1] - half_height, box[0] - half_width, box[1] + half_height, box[0] + half_width};
    }
    return {std::min(box[0], box[2]), std::min(box[1], box[3]), std::max(box[0], box[2]),
            std::max(box[1], box[3])};
  }

  bool Overlap(const float* one, const float* other, float most) const {
    const Corners a = Box(one), b = Box(other);
    const float height = std::min(a.high_y, b.high_y) - std::max(a.low_y, b.low_y);
    const float width = std::min(a.high_x, b.high_x) - std::max(a.low_x, b.low_x);
    if (!(height > 0) || !(width > 0)) return false;
    const float common = height * width, all = a.area() + b.area() - common;
    return all > 0 && common / all > most;
  }

  struct Limits {
    std::size_t most = 0;  // Boxes of a class.
    float overlap = 0;
    bool has_score = false;
    float score = 0;
  };

  Limits Read(std::span<const std::byte* const> inputs) const {
    Limits limits;
    const auto given = [&](std::size_t i) { return i < inputs.size() && inputs[i] != nullptr; };
    if (given(2)) {
      std::int64_t most = 0;
      std::memcpy(&most, inputs[2], sizeof(most));
      limits.most = static_cast<std::size_t>(
          std::clamp<std::int64_t>(most, 0, static_cast<std::int64_t>(each)));
    }
    if (given(3)) std::memcpy(&limits.overlap, inputs[3], sizeof(float));
    limits.has_score = given(4);
    if (limits.has_score) std::memcpy(&limits.score, inputs[4], sizeof(float));
    return limits;
  }

  // Chooses among the boxes of one class of one batch; their numbers go to `chosen`.
  std::size_t Choose(const float* box, const float* scores, const Limits& limits,
                     std::int64_t* order, std::int64_t* chosen) const {
    std::size_t candidates = 0;
    for (std::size_t i = 0; i < boxes; ++i) {
      // A score that is no number is none.
      const bool enters = limits.has_score ? scores[i] > limits.score : !std::isnan(scores[i]);
      if (enters) order[candidates++] = static_cast<std::int64_t>(i);
    }
    std::sort(order, order + candidates, [&](std::int64_t a, std::int64_t b) {
      const float of_a = scores[a], of_b = scores[b];
      return of_a != of_b ? of_a > of_b : a < b;
    });
    std::size_t count = 0;
    for (std::size_t i = 0; i < candidates && count < limits.most; ++i) {
      const float* one = box + 4 * order[i];
      const bool free = std::none_of(chosen, chosen + count, [&](std::int64_t other) {
        return Overlap(one, box + 4 * other, limits.overlap);
      });
      if (free) chosen[count++] = order[i];
    }
    return count;
  }

  // Scratch: for each class a count and what was chosen, then an order for each worker.
  Bytes scratch() const {
    const std::size_t pairs = batches * classes;
    return Bytes::Of(sizeof(std::int64_t)) * (pairs * (each + 1) + team * boxes);
  }

  void operator()(std::span<const std::byte* const> inputs, std::byte* output,
                  std::byte* scratch) const {
    const Limits limits = Read(inputs);
    const std::size_t pairs = batches * classes;
    auto* counts_of = reinterpret_cast<std::int64_t*>(scratch);
    std::int64_t* chosen = counts_of + pairs;
    std::int64_t* orders = chosen + pairs * each;
    const auto part = [&](std::size_t begin, std::size_t end, std::size_t worker) {
      for (std::size_t pair = begin; pair < end; ++pair) {
        const float* box = Floats(inputs[0]) + pair / classes * boxes * 4;
        const float* scores = Floats(inputs[1]) + pair * boxes;
        counts_of[pair] = static_cast<std::int64_t>(
            Choose(box, scores, limits, orders + worker * boxes, chosen + pair * each));
      }
    };
    ParallelForWorkers(pairs, pairs * boxes * 8, team, part);
    Collect(counts_of, chosen, output);
  }

  void Collect(const std::int64_t* counts_of, const std::int64_t* chosen, std::byte* output) const {
    auto* rows = reinterpret_cast<std::int64_t*>(output);
    std::int64_t total = 0;
    for (std::size_t pair = 0; pair < batches * classes; ++pair) {
      for (std::int64_t i = 0; i < counts_of[pair]; ++i, ++total) {
        if (counts || total >= static_cast<std::int64_t>(room)) continue;
        rows[3 * total] = static_cast<std::int64_t>(pair / classes);
        rows[3 * total + 1] = static_cast<std::int64_t>(pair % classes);
        rows[3 * total + 2] = chosen[pair * each + static_cast<std::size_t>(i)];
      }
    }
    if (counts) {
      rows[0] = total;
    } else {
      std::fill(rows + 3 * std::min<std::int64_t>(total, static_cast<std::int64_t>(room)),
                rows + 3 * room, std::int64_t{0});
    }
  }
};

}  // namespace

absl::StatusOr<Kernel> Make(const NonMaxSuppression& operation, const Problem& problem) {
  const Shape &boxes = problem.input(0).shape, &scores = problem.input(1).shape;
  SuppressionRun run{.centred = operation.centred,
                     .counts = operation.count,
                     .batches = static_cast<std::size_t>(scores[0]),
                     .classes = static_cast<std::size_t>(scores[1]),
                     .boxes = static_cast<std::size_t>(boxes[1]),
                     .room = 0,
                     .each = static_cast<std::size_t>(boxes[1]),
                     .team = TeamSize()};
  const std::size_t pairs = run.batches * run.classes;
  if (!operation.count && pairs > 0) {
    run.room = static_cast<std::size_t>(problem.output().shape[0]);
    run.each = std::min(run.each, (run.room + pairs - 1) / pairs);
  }
  Kernel kernel;
  kernel.name = problem.KernelName(operation.count ? "count" : "");
  kernel.scratch = run.scratch();
  kernel.run = [run](std::span<const std::byte* const> inputs, std::byte* output,
                     std::byte* scratch) { run(inputs, output, scratch); };
  return kernel;
}

}  // namespace sluice::kernels
