#include "engine/cpu/node_order.h"

#include <gtest/gtest.h>

#include <vector>

#include "engine/cpu/against_reference.h"
#include "planner/offset_plan.h"

namespace sluice {
namespace {

ValueId Convolved(GraphBuilder& b, ValueId x, std::int64_t channels) {
  return b.Add(Conv(1), {x, b.Weights({channels, b.shape(x)[1], 1, 1}), b.Weights({channels})});
}

// Two paths of one result each, in the order that keeps a wide result while the other path runs.
Graph TwoPaths() {
  GraphBuilder b;
  const ValueId x = Convolved(b, b.Input({1, 3, 8, 8}), 16);
  const ValueId wide = Convolved(b, x, 96);
  const ValueId narrow = Convolved(b, Convolved(b, x, 192), 16);
  return b.Finish({Convolved(b, wide, 16), narrow});
}

Bytes Height(const Program& program) {
  std::vector<UsageRecord> records;
  for (const BufferInfo& buffer : program.buffers()) records.push_back({buffer.size, buffer.live});
  return PlanOffsets(records).height;
}

TEST(NodeOrderTest, AnotherOrderNeedsLessAndAnswersTheSame) {
  const Graph graph = TwoPaths();
  const std::optional<Graph> reordered = ReorderNodes(graph);
  ASSERT_TRUE(reordered.has_value());
  EXPECT_TRUE(Validate(*reordered).ok());
  EXPECT_FALSE(ReorderNodes(*reordered).has_value());
  ExpectMatchesReference(graph, {}, 1e-4);

  const auto backend = CpuBackend(2);
  const auto program = LowerOn(TestTeam(), *backend, graph);
  const auto ordered = LowerOn(TestTeam(), *backend, *reordered);
  ASSERT_TRUE(program.ok() && ordered.ok());
  EXPECT_EQ(Height(**program), Height(**ordered));
  // What the given order needs: the wide result beside the other path's middle.
  EXPECT_LT(Height(**program), Bytes::Of((96 + 192) * 64 * 4));
}

TEST(NodeOrderTest, AChainIsLeftAlone) {
  GraphBuilder b;
  const ValueId x = Convolved(b, b.Input({1, 3, 8, 8}), 64);
  EXPECT_FALSE(ReorderNodes(b.Finish({Convolved(b, Convolved(b, x, 16), 32)})).has_value());
}

}  // namespace
}  // namespace sluice
