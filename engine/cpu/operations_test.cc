#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "engine/cpu/against_reference.h"

namespace sluice {
namespace {

using Kind = Unary::Kind;

// A value with `channels` channels that lies blocked, as a convolution leaves it.
ValueId Blocked(GraphBuilder& b, std::int64_t batch, std::int64_t channels, std::int64_t size) {
  const ValueId x = b.Input({batch, 5, size, size});
  return b.Add(Conv(1), {x, b.Weights({channels, 5, 1, 1}), b.Weights({channels})});
}

// Sizes around the block, one pixel and a few.
class ChannelsTest : public testing::TestWithParam<std::tuple<std::int64_t, std::int64_t>> {
 protected:
  std::int64_t channels() const { return std::get<0>(GetParam()); }
  std::int64_t size() const { return std::get<1>(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(OddSizes, ChannelsTest,
                         testing::Combine(testing::Values(1, 3, 15, 16, 17, 32, 33),
                                          testing::Values(1, 4, 5)));

TEST_P(ChannelsTest, UnaryOnBlockedValuesMatchesTheReference) {
  GraphBuilder b;
  const ValueId x = Blocked(b, 2, channels(), size());
  std::vector<ValueId> outputs;
  for (const Unary& unary :
       {Unary{Kind::kRelu}, Unary{Kind::kSigmoid}, Unary{Kind::kHardSigmoid, 0.2f, 0.5f},
        Unary{Kind::kHardSwish, 1.0f / 6, 0.5f}, Unary{Kind::kClip, 1, 2}, Unary{Kind::kExp},
        Unary{Kind::kErf}, Unary{Kind::kFloor}, Unary{Kind::kTanh}, Unary{Kind::kMish}}) {
    // Behind it a convolution, which would see what lies in the filling.
    const ValueId y = b.Add(unary, {x});
    outputs.push_back(b.Add(Conv(1), {y, b.Weights({4, channels(), 1, 1}), std::nullopt}));
  }
  ExpectMatchesReference(b.Finish(outputs), {}, 1e-4);
}

TEST_P(ChannelsTest, BinaryOnBlockedValuesMatchesTheReference) {
  for (const Binary::Kind kind :
       {Binary::Kind::kAdd, Binary::Kind::kSubtract, Binary::Kind::kMultiply, Binary::Kind::kDivide,
        Binary::Kind::kMaximum, Binary::Kind::kMinimum}) {
    GraphBuilder b;
    const std::int64_t c = channels();
    const ValueId x = Blocked(b, 2, c, size());
    const ValueId y = b.Add(Unary{Kind::kSigmoid}, {Blocked(b, 2, c, size())});
    std::vector<ValueId> outputs;
    const auto use = [&](ValueId l, ValueId r) {
      const ValueId z = b.Add(Binary{kind}, {l, r});
      outputs.push_back(b.Add(Conv(1), {z, b.Weights({4, c, 1, 1}), std::nullopt}));
    };
    use(x, y);
    use(x, b.Weights({c, 1, 1}, 1, 2));
    use(x, b.Weights({1, c, 1, 1}, 1, 2));
    use(x, b.Weights({2, c, size(), size()}, 1, 2));
    use(x, b.Floats({}, {3}));
    use(b.Floats({1}, {3}), y);
    use(x, b.Input({2, 1, 1, 1}));
    use(x, b.Add(Unary{Kind::kExp}, {b.Input({2, 1, size(), size()})}));
    const ValueId mean = b.Add(
        Pool{Pool::Kind::kAverage, {size(), size()}, {1, 1}, {1, 1}, {0, 0}, {0, 0}, false}, {y});
    use(x, mean);
    use(mean, y);
    use(x, x);
    ExpectMatchesReference(b.Finish(outputs), {}, 5e-4);
  }
}

TEST_P(ChannelsTest, ChannelAffineMatchesTheReference) {
  for (const bool reused : {false, true}) {
    for (const Kind tail : {Kind::kRelu, Kind::kSigmoid, Kind::kErf}) {
      GraphBuilder b;
      const ValueId x = Blocked(b, 2, channels(), size());
      ChannelAffine affine;
      affine.epilogues = {Then(tail)};
      const ValueId y = b.Add(affine, {x, b.Weights({channels()}), b.Weights({channels()})});
      const ValueId z = b.Add(Conv(1), {y, b.Weights({4, channels(), 1, 1}), std::nullopt});
      std::vector<ValueId> outputs = {z};
      if (reused) outputs.push_back(x);
      ExpectMatchesReference(b.Finish(outputs), {}, 1e-4);
    }
  }
}

TEST_P(ChannelsTest, PoolsMatchTheReference) {
  GraphBuilder b;
  const ValueId x = Blocked(b, 2, channels(), size());
  std::vector<ValueId> outputs;
  const std::int64_t k = std::min<std::int64_t>(size(), 3);
  for (const Pool::Kind kind : {Pool::Kind::kMax, Pool::Kind::kAverage}) {
    for (const bool include : {false, true}) {
      const std::int64_t pad = k / 2;
      for (const std::int64_t stride : {1, 2}) {
        const Pool pool{kind, {k, k}, {stride, stride}, {1, 1}, {pad, pad}, {pad, pad}, include};
        const ValueId y = b.Add(pool, {x});
        outputs.push_back(b.Add(Conv(1), {y, b.Weights({4, channels(), 1, 1}), std::nullopt}));
      }
    }
    outputs.push_back(
        b.Add(Pool{kind, {size(), size()}, {1, 1}, {1, 1}, {0, 0}, {0, 0}, false}, {x}));
  }
  ExpectMatchesReference(b.Finish(outputs), {}, 1e-4);
}

TEST_P(ChannelsTest, MovesMatchTheReference) {
  GraphBuilder b;
  const std::int64_t c = channels(), s = size();
  const ValueId x = Blocked(b, 2, c, s), y = Blocked(b, 2, 16, s);
  std::vector<ValueId> outputs;
  outputs.push_back(b.Add(Concat{1}, {x, y}));
  outputs.push_back(b.Add(Concat{1}, {y, x, y}));
  outputs.push_back(b.Add(Concat{2}, {x, x}));
  outputs.push_back(b.Add(Resize{.scales = {1, 1, 2, 2}}, {x}, Shape{2, c, 2 * s, 2 * s}));
  outputs.push_back(b.Add(Resize{.mode = Resize::Mode::kLinear, .scales = {1, 1, 2, 2}}, {x},
                          Shape{2, c, 2 * s, 2 * s}));
  outputs.push_back(b.Add(Slice{{0, 0, 0, 0}, {1, 1, 1, 1}}, {y}, Shape{2, 8, s, 1}));
  outputs.push_back(b.Add(Slice{{1, 0, 0, 0}, {1, 1, 1, 1}}, {y}, Shape{1, 16, s, 1}));
  outputs.push_back(b.Add(Pad{Pad::Mode::kConstant, {0, 0, 1, 2}, {0, 0, 0, 1}, 3.0f}, {x}));
  outputs.push_back(b.Add(Pad{Pad::Mode::kEdge, {0, 0, 1, 1}, {0, 0, 1, 1}, 0}, {y}));
  outputs.push_back(b.Add(Reduce{Reduce::Kind::kMean, {2, 3}}, {x}, Shape{2, c, 1, 1}));
  outputs.push_back(b.Add(Reduce{Reduce::Kind::kMax, {1}}, {x}, Shape{2, 1, s, s}));
  outputs.push_back(b.Add(Transpose{{0, 2, 3, 1}}, {x}));
  outputs.push_back(b.Add(Softmax{1, false}, {x}));
  outputs.push_back(b.Add(Reshape{}, {x}, Shape{2, c * s * s}));
  std::vector<ValueId> ends;
  ends.reserve(2 * outputs.size());
  for (const ValueId output : outputs) {
    // Read once more, so that nothing but the last is the port itself.
    ends.push_back(b.Add(Unary{Kind::kRelu}, {output}));
  }
  ends.insert(ends.end(), outputs.begin(), outputs.end());
  ExpectMatchesReference(b.Finish(ends), {}, 1e-4);
}

TEST(ConcatTest, JoinsFullBlocksWithoutLeavingTheLayout) {
  GraphBuilder b;
  const ValueId x = Blocked(b, 3, 32, 5), y = Blocked(b, 3, 16, 5);
  const ValueId z = b.Add(Concat{1}, {x, y, x});
  const ValueId r = b.Add(Unary{Kind::kRelu}, {z});
  const ValueId w = b.Add(Conv(1), {r, b.Weights({16, 80, 1, 1}), std::nullopt});
  const Outcome outcome = ExpectMatchesReference(b.Finish({w}), {}, 1e-4);
  EXPECT_EQ(Count(outcome, "join"), 1u);
  EXPECT_EQ(Count(outcome, "reorder"), 1u);  // Only the output, which is plain.
}

struct ProductShapes {
  std::int64_t rows, inputs, outputs;
};
class ProductTest : public testing::TestWithParam<ProductShapes> {};

TEST_P(ProductTest, FullyConnectedMatchesTheReferenceInSlicesToo) {
  const ProductShapes& s = GetParam();
  for (const bool transposed : {false, true}) {
    for (const std::vector<Epilogue>& tail :
         {std::vector<Epilogue>{}, {Then(Kind::kRelu)}, {ThenAdd(4), Then(Kind::kErf)}}) {
      GraphBuilder b;
      const ValueId x = b.Input({s.rows, s.inputs});
      const ValueId w =
          transposed ? b.Weights({s.outputs, s.inputs}) : b.Weights({s.inputs, s.outputs});
      std::vector<std::optional<ValueId>> inputs = {x, w, b.Weights({s.outputs}),
                                                    b.Weights({s.outputs}, 0.5f, 2)};
      if (tail.size() > 1) inputs.push_back(b.Input({s.rows, s.outputs}));
      const ValueId y = b.Add(FullyConnected{transposed, tail}, inputs);
      const Graph graph = b.Finish({y});
      const Outcome whole = ExpectMatchesReference(graph, {}, 1e-4);
      const LowerOptions small{.max_slice = 16_KiB, .min_extent = Bytes::Of(1)};
      const Outcome sliced = ExpectMatchesReference(graph, small, 1e-4);
      if (s.rows == 1) {
        EXPECT_EQ(sliced.outputs, whole.outputs);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, ProductTest,
                         testing::Values(ProductShapes{1, 1, 1}, ProductShapes{1, 17, 33},
                                         ProductShapes{1, 200, 1000}, ProductShapes{1, 513, 70},
                                         ProductShapes{2, 40, 130}, ProductShapes{7, 65, 200},
                                         ProductShapes{33, 96, 300}));

TEST(ProductTest, RowsMayBeSeveralDimensions) {
  GraphBuilder b;
  const ValueId x = b.Input({2, 3, 4, 20});
  const ValueId y = b.Add(FullyConnected{}, {x, b.Weights({20, 9}), std::nullopt, std::nullopt});
  ExpectMatchesReference(b.Finish({y}), {}, 1e-4);
}

TEST(MatMulTest, MatchesTheReference) {
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      GraphBuilder b;
      const ValueId x = b.Input(ta ? Shape{2, 1, 7, 5} : Shape{2, 1, 5, 7});
      const ValueId y = b.Input(tb ? Shape{3, 9, 7} : Shape{3, 7, 9});
      const ValueId c = b.Weights(tb ? Shape{9, 7} : Shape{7, 9});
      const ValueId z = b.Add(MatMul{ta, tb, 0.25f}, {x, y});
      const ValueId w = b.Add(MatMul{ta, tb, 1}, {x, c});
      ExpectMatchesReference(b.Finish({z, w}), {}, 1e-4);
    }
  }
}

TEST(PortsTest, OutputsMayBeInputsConstantsTwiceAndReshaped) {
  GraphBuilder b;
  const ValueId x = b.Input({2, 3}), unused = b.Input({4});
  const ValueId c = b.Weights({3, 5});
  const ValueId r = b.Add(Reshape{}, {x}, Shape{3, 2});
  const ValueId y = b.Add(Unary{Kind::kRelu}, {r});
  const ValueId again = b.Add(Reshape{}, {y}, Shape{6});
  ExpectMatchesReference(b.Finish({x, c, y, y, again, r, unused}));
}

TEST(PortsTest, AGraphWithoutNodesCopiesItsInput) {
  GraphBuilder b;
  const ValueId x = b.Input({2, 3});
  ExpectMatchesReference(b.Finish({x}));
}

TEST(PortsTest, OutputsThatLieBlockedArePlainForTheCaller) {
  GraphBuilder b;
  const ValueId x = Blocked(b, 2, 17, 3);
  const ValueId y = b.Add(Unary{Kind::kRelu}, {x});
  ExpectMatchesReference(b.Finish({x, y}), {}, 1e-4);
}

TEST(IntegerTest, IndicesGoThroughRowMajorKernels) {
  GraphBuilder b;
  const ValueId table = b.Weights({10, 3});
  const ValueId indices = b.Input({2, 2}, DataType::kInt64);
  const ValueId y = b.Add(Gather{0}, {table, indices});
  ExpectMatchesReference(b.Finish({y}));
}

TEST(UnsupportedTest, NamesEveryNodeWithoutAKernel) {
  GraphBuilder b;
  const ValueId x = b.Input({1, 3, 4, 4}, DataType::kFloat64);
  const ValueId y = b.Input({1, 3, 4, 4});
  const ValueId bad = b.Add(Lrn{}, {x});
  const ValueId also = b.Add(Lrn{}, {x});
  const ValueId good = b.Add(Unary{Kind::kRelu}, {y});
  const Graph graph = b.Finish({bad, also, good});
  const auto program = LowerOn(TestTeam(), *CpuBackend(2), graph);
  ASSERT_TRUE(absl::IsUnimplemented(program.status())) << program.status();
  const std::string message(program.status().message());
  EXPECT_TRUE(absl::StrContains(message, "2 nodes")) << message;
  for (const Node& node : {graph.nodes[0], graph.nodes[1]}) {
    EXPECT_TRUE(absl::StrContains(message, node.name)) << message;
  }
}

}  // namespace
}  // namespace sluice
