// planner/step_order.h
//
// Which of the orders that a network allows has the lowest peak of live bytes. Where paths part and
// join again, the one whose middle is large goes first, before the others' results exist:
//
//          +-- b: large, then small --+        a b c d: b's middle beside a alone
//       a -+                          +- d     a c b d: b's middle beside a and c's result
//          +-- c: ends large ---------+
//
// Complete search over the sets of steps that can have run, lowest peak first, as long as the work
// is enough; a beam of the best sets of each size beyond. A step that is ready, raises no peak and
// leaves no more bytes alive than before is taken at once: since buffers only begin with their
// first user and end with their last, no other step gets dearer by it.
//
// Sources: dynamic programming over such sets: B. H. Ahn et al., "Ordering Chaos: Memory-Aware
// Scheduling of Irregularly Wired Neural Networks for Edge Devices", MLSys 2020, arXiv 2003.02369;
// steps to take at once: J. Liu, "An Application of Generalized Tree Pebbling to Sparse Matrix
// Factorization", SIAM J. Algebraic Discrete Methods 8, 1987.
//
// Threads: pure functions, callable from anywhere. Same input, same order.

#ifndef SLUICE_PLANNER_STEP_ORDER_H_
#define SLUICE_PLANNER_STEP_ORDER_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/ids.h"

namespace sluice {

// Alive from its first user to its last.
struct OrderBuffer {
  Bytes size;
  bool from_start = false;  // Alive before the first step already.
  bool to_end = false;      // Alive after the last one still.
};

struct OrderStep {
  std::vector<StepIndex> after;  // Steps that must have run; they come before it in the problem.
  std::vector<BufferIndex> buffers = {};  // That it reads or writes, each once.
  Bytes scratch = {};                     // Alive during this step alone.
  // One of `buffers` whose bytes it takes for what it begins, when it is the last user.
  std::optional<BufferIndex> overwrites = {};
};

struct OrderProblem {
  std::vector<OrderBuffer> buffers;
  std::vector<OrderStep> steps;  // In an order that runs.
};

struct StepOrder {
  std::vector<StepIndex> order;  // A permutation of the steps.
  Bytes peak;                    // Most bytes alive during one step.
  bool proven = false;           // No order has a lower peak.
};

// Requires: sizes sum up to less than 2^63. `order` is one that runs.
Bytes PeakOfOrder(const OrderProblem& problem, std::span<const StepIndex> order);

// Never worse than the given order, which is kept unless another one is better.
// Requires: as above; `work` bounds the steps and buffers looked at.
// Cost:     O(work) time; a few bytes of memory for each eight of the work.
StepOrder OrderSteps(const OrderProblem& problem, std::uint64_t work = 10'000'000);

}  // namespace sluice

#endif  // SLUICE_PLANNER_STEP_ORDER_H_
