#include "planner/step_order.h"

#include <algorithm>
#include <optional>
#include <set>
#include <vector>

#include "gtest/gtest.h"
#include "planner/draw.h"

namespace sluice {
namespace {

BufferIndex Buffer(std::size_t i) { return At<BufferIndex>(i); }
StepIndex Step(std::size_t i) { return At<StepIndex>(i); }

// Each step writes a buffer of its own and reads those of the steps before it.
OrderProblem Network(const std::vector<std::uint64_t>& sizes,
                     const std::vector<std::vector<std::size_t>>& reads) {
  OrderProblem problem;
  for (std::size_t s = 0; s < sizes.size(); ++s) {
    problem.buffers.push_back({.size = Bytes::Of(sizes[s])});
    OrderStep step;
    step.buffers.push_back(Buffer(s));
    for (const std::size_t read : reads[s]) {
      step.after.push_back(Step(read));
      step.buffers.push_back(Buffer(read));
    }
    problem.steps.push_back(step);
  }
  problem.buffers.back().to_end = true;
  return problem;
}

// Up to `most` steps that read up to three of the last ones; some share a buffer, some overwrite.
OrderProblem AnyNetwork(Draw& draw, std::size_t most) {
  OrderProblem problem;
  const std::size_t steps = 1 + draw.Below(most);
  for (std::size_t s = 0; s < steps; ++s) {
    OrderStep step;
    step.scratch = Bytes::Of(draw.Below(4) == 0 ? draw.Below(50) : 0);
    if (s > 0 && draw.Below(8) == 0) {
      step.buffers.push_back(Buffer(draw.Below(problem.buffers.size())));
    } else {
      problem.buffers.push_back({.size = Bytes::Of(draw.Below(100)),
                                 .from_start = draw.Below(10) == 0,
                                 .to_end = draw.Below(10) == 0});
      step.buffers.push_back(Buffer(problem.buffers.size() - 1));
    }
    std::set<std::size_t> reads;
    for (std::size_t i = 0; s > 0 && i < 1 + draw.Below(3); ++i) {
      reads.insert(s - 1 - draw.Below(std::min<std::size_t>(s, 6)));
    }
    for (const std::size_t read : reads) {
      step.after.push_back(Step(read));
      const BufferIndex buffer = problem.steps[read].buffers[0];
      if (std::ranges::find(step.buffers, buffer) == step.buffers.end()) {
        step.buffers.push_back(buffer);
      }
    }
    if (step.buffers.size() > 1 && draw.Below(3) == 0) step.overwrites = step.buffers[1];
    problem.steps.push_back(step);
  }
  return problem;
}

std::vector<StepIndex> Given(const OrderProblem& problem) {
  std::vector<StepIndex> order;
  for (std::size_t s = 0; s < problem.steps.size(); ++s) order.push_back(Step(s));
  return order;
}

bool Runs(const OrderProblem& problem, std::vector<StepIndex> order) {
  std::vector<std::size_t> place(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) place[Index(order[i])] = i;
  for (std::size_t s = 0; s < problem.steps.size(); ++s) {
    for (const StepIndex before : problem.steps[s].after) {
      if (place[Index(before)] >= place[s]) return false;
    }
  }
  std::ranges::sort(order);
  return order == Given(problem);
}

// From the definition: what lives during each step, summed.
Bytes PeakByDefinition(const OrderProblem& problem, const std::vector<StepIndex>& order) {
  struct Life {
    std::optional<std::size_t> first, last;
  };
  std::vector<Life> lives(problem.buffers.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    for (const BufferIndex buffer : problem.steps[Index(order[i])].buffers) {
      Life& life = lives[Index(buffer)];
      if (!life.first) life.first = i;
      life.last = i;
    }
  }
  Bytes peak;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const OrderStep& step = problem.steps[Index(order[i])];
    Bytes live = step.scratch, begun;
    for (std::size_t b = 0; b < lives.size(); ++b) {
      const OrderBuffer& buffer = problem.buffers[b];
      const bool started = buffer.from_start || (lives[b].first && *lives[b].first <= i);
      const bool needed = (lives[b].last && *lives[b].last >= i) || (buffer.to_end && started) ||
                          (buffer.from_start && !lives[b].last);
      if (started && needed) live += buffer.size;
      if (!buffer.from_start && lives[b].first == i) begun += buffer.size;
    }
    if (step.overwrites) {
      const std::size_t b = Index(*step.overwrites);
      if (lives[b].last == i && !problem.buffers[b].to_end) {
        live -= std::min(begun, problem.buffers[b].size);
      }
    }
    peak = std::max(peak, live);
  }
  return peak;
}

Bytes LowestOfAll(const OrderProblem& problem) {
  std::vector<StepIndex> order = Given(problem);
  Bytes lowest = Bytes::Max();
  do {
    if (Runs(problem, order)) lowest = std::min(lowest, PeakByDefinition(problem, order));
  } while (std::ranges::next_permutation(order).found);
  return lowest;
}

TEST(StepOrderTest, TakesThePathWithTheLargeMiddleFirst) {
  // a, then b1 b2 (large middle) and c (ends large), joined by d.
  const OrderProblem problem = Network({10, 40, 90, 5, 10}, {{}, {0}, {0}, {2}, {1, 3}});
  EXPECT_EQ(PeakOfOrder(problem, Given(problem)), Bytes::Of(140));
  const StepOrder order = OrderSteps(problem);
  EXPECT_EQ(order.order, (std::vector{Step(0), Step(2), Step(3), Step(1), Step(4)}));
  EXPECT_EQ(order.peak, Bytes::Of(105));
  EXPECT_TRUE(order.proven);
}

TEST(StepOrderTest, KeepsTheGivenOrderUnlessAnotherIsBetter) {
  const OrderProblem problem = Network({10, 5, 5, 10}, {{}, {0}, {0}, {1, 2}});
  const StepOrder order = OrderSteps(problem);
  EXPECT_EQ(order.order, Given(problem));
  EXPECT_TRUE(order.proven);
}

TEST(StepOrderTest, NothingAndOneStep) {
  EXPECT_EQ(OrderSteps({}).peak, Bytes());
  const StepOrder order = OrderSteps(Network({7}, {{}}));
  EXPECT_EQ(order.order, std::vector{Step(0)});
  EXPECT_EQ(order.peak, Bytes::Of(7));
}

TEST(StepOrderTest, IsTheLowestOfAllOnSmallNetworks) {
  Draw draw(7);
  int better = 0;
  for (int i = 0; i < 500; ++i) {
    const OrderProblem problem = AnyNetwork(draw, 7);
    SCOPED_TRACE(i);
    const StepOrder order = OrderSteps(problem);
    ASSERT_TRUE(Runs(problem, order.order));
    ASSERT_EQ(order.peak, PeakByDefinition(problem, order.order));
    ASSERT_EQ(order.peak, PeakOfOrder(problem, order.order));
    ASSERT_EQ(order.peak, LowestOfAll(problem));
    ASSERT_TRUE(order.proven);
    if (order.order != Given(problem)) ++better;
  }
  EXPECT_GT(better, 50);
}

TEST(StepOrderTest, IsNeverWorseThanGivenWhateverTheWork) {
  Draw draw(8);
  int proven = 0, lower_than_beam = 0;
  for (int i = 0; i < 60; ++i) {
    const OrderProblem problem = AnyNetwork(draw, 60);
    SCOPED_TRACE(i);
    const Bytes given = PeakByDefinition(problem, Given(problem));
    const StepOrder thorough = OrderSteps(problem, 2'000'000);
    const StepOrder hasty = OrderSteps(problem, 1'000);
    for (const StepOrder& order : {thorough, hasty}) {
      ASSERT_TRUE(Runs(problem, order.order));
      ASSERT_EQ(order.peak, PeakByDefinition(problem, order.order));
      ASSERT_LE(order.peak, given);
    }
    if (thorough.proven) {
      ASSERT_LE(thorough.peak, hasty.peak);
    }
    if (hasty.proven) {
      ASSERT_EQ(thorough.peak, hasty.peak);
    }
    proven += thorough.proven ? 1 : 0;
    lower_than_beam += thorough.peak < hasty.peak ? 1 : 0;
  }
  EXPECT_GT(proven, 30);
  EXPECT_GT(lower_than_beam, 0);
}

TEST(StepOrderTest, SameInputSameOrder) {
  Draw draw(9);
  const OrderProblem problem = AnyNetwork(draw, 200);
  EXPECT_EQ(OrderSteps(problem, 50'000).order, OrderSteps(problem, 50'000).order);
}

}  // namespace
}  // namespace sluice
