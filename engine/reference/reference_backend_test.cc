#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "engine/backend.h"
#include "engine/testing/graph_builder.h"
#include "engine/testing/program_runner.h"

namespace sluice {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TensorContents Bytes4(const std::vector<float>& elements) {
  TensorContents contents(elements.size() * sizeof(float));
  if (!contents.empty()) std::memcpy(contents.data(), elements.data(), contents.size());
  return contents;
}

std::vector<float> AsFloats(const TensorContents& contents) {
  std::vector<float> elements(contents.size() / sizeof(float));
  if (!contents.empty()) std::memcpy(elements.data(), contents.data(), contents.size());
  return elements;
}

class ReferenceBackendTest : public testing::Test {
 protected:
  // Lowers, packs and runs under the strict runner.
  std::vector<std::vector<float>> Run(const Graph& graph,
                                      const std::vector<TensorContents>& inputs) {
    absl::StatusOr<std::unique_ptr<Program>> program = LowerOn(team_, *backend_, graph);
    if (!program.ok()) {
      ADD_FAILURE() << program.status();
      return {};
    }
    program_ = *std::move(program);
    ProgramRunner runner(team_, *program_);
    EXPECT_TRUE(runner.Pack().ok());
    const absl::StatusOr<std::vector<TensorContents>> outputs = runner.Run(inputs);
    if (!outputs.ok()) {
      ADD_FAILURE() << outputs.status();
      return {};
    }
    std::vector<std::vector<float>> elements;
    for (const TensorContents& output : *outputs) elements.push_back(AsFloats(output));
    return elements;
  }

  ComputeTeam team_{1};
  std::unique_ptr<Backend> backend_ = ReferenceBackend();
  std::unique_ptr<Program> program_;
};

TEST_F(ReferenceBackendTest, RunsOneStepANodeWithItsConstantsInOneExtent) {
  GraphBuilder builder;
  const ValueId x = builder.Input({1, 1, 2});
  const ValueId sum = builder.Add(Binary{Binary::Kind::kAdd}, {x, builder.Floats({2}, {1, 2})});
  const ValueId relu = builder.Add(Unary{.kind = Unary::Kind::kRelu}, {sum});
  const ValueId y =
      builder.Add(ChannelAffine{}, {relu, builder.Floats({1}, {3}), builder.Floats({1}, {0.5f})});
  EXPECT_THAT(Run(builder.Finish({y}), {Bytes4({-4, 5})}), ElementsAre(ElementsAre(0.5f, 21.5f)));
  ASSERT_EQ(program_->steps().size(), 3u);
  EXPECT_EQ(program_->steps()[0].extent, At<ExtentIndex>(0));
  EXPECT_EQ(program_->steps()[1].extent, std::nullopt);
  EXPECT_EQ(program_->steps()[2].extent, At<ExtentIndex>(1));
  ASSERT_EQ(program_->extents().size(), 2u);
  EXPECT_EQ(program_->extents()[1].used, (StepRange{At<StepIndex>(2), At<StepIndex>(3)}));
  EXPECT_EQ(program_->extents()[1].size, Bytes::Of(64 + 4));  // Each constant on its cache line.
}

TEST_F(ReferenceBackendTest, KeepsABufferUntilItsLastReader) {
  GraphBuilder builder;
  const ValueId x = builder.Input({2});
  const ValueId a = builder.Add(Unary{.kind = Unary::Kind::kNegate}, {x});
  const ValueId b = builder.Add(Unary{.kind = Unary::Kind::kAbs}, {a});
  const ValueId y = builder.Add(Binary{Binary::Kind::kAdd}, {a, b});
  EXPECT_THAT(Run(builder.Finish({y}), {Bytes4({1, -2})}), ElementsAre(ElementsAre(0, 4)));
  const std::span<const BufferInfo> buffers = program_->buffers();
  ASSERT_EQ(buffers.size(), 4u);
  EXPECT_EQ(buffers[0].live, (StepRange{At<StepIndex>(0), At<StepIndex>(1)}));
  EXPECT_EQ(buffers[1].live, (StepRange{At<StepIndex>(0), At<StepIndex>(3)}));
  EXPECT_EQ(buffers[2].live, (StepRange{At<StepIndex>(1), At<StepIndex>(3)}));
  EXPECT_EQ(buffers[3].live, (StepRange{At<StepIndex>(2), At<StepIndex>(3)}));
}

TEST_F(ReferenceBackendTest, CopiesOutputsThatAreInputsConstantsOrNamedTwice) {
  GraphBuilder builder;
  const ValueId x = builder.Input({2});
  const ValueId c = builder.Floats({1}, {7});
  const ValueId y = builder.Add(Unary{.kind = Unary::Kind::kNegate}, {x});
  EXPECT_THAT(Run(builder.Finish({x, y, c, y, c}), {Bytes4({1, 2})}),
              ElementsAre(ElementsAre(1, 2), ElementsAre(-1, -2), ElementsAre(7),
                          ElementsAre(-1, -2), ElementsAre(7)));
  EXPECT_EQ(program_->steps().size(), 5u);
}

TEST_F(ReferenceBackendTest, ReadsAnOutputThatOtherNodesUse) {
  GraphBuilder builder;
  const ValueId x = builder.Input({2});
  const ValueId a = builder.Add(Unary{.kind = Unary::Kind::kNegate}, {x});
  const ValueId b = builder.Add(Unary{.kind = Unary::Kind::kAbs}, {a});
  EXPECT_THAT(Run(builder.Finish({a, b}), {Bytes4({1, -2})}),
              ElementsAre(ElementsAre(-1, 2), ElementsAre(1, 2)));
}

TEST_F(ReferenceBackendTest, SkipsAbsentInputsAndRunsEmptyTensors) {
  GraphBuilder builder;
  const ValueId x = builder.Input({1, 2});
  const ValueId none = builder.Input({0, 2});
  const ValueId w = builder.Floats({2, 1}, {1, 10});
  const ValueId scale = builder.Floats({1}, {2});
  const ValueId y = builder.Add(FullyConnected{}, {x, w, std::nullopt, scale});
  const ValueId z = builder.Add(FullyConnected{}, {none, w});
  EXPECT_THAT(Run(builder.Finish({y, z}), {Bytes4({3, 4}), {}}),
              ElementsAre(ElementsAre(86), ElementsAre()));
}

TEST_F(ReferenceBackendTest, ListsEveryNodeThatItCannotRun) {
  GraphBuilder builder;
  const ValueId x = builder.Input({2}, DataType::kInt64);
  const ValueId a = builder.Add(Unary{.kind = Unary::Kind::kTanh}, {x});
  const ValueId b = builder.Add(Softmax{.axis = 0}, {a});
  const absl::StatusOr<std::unique_ptr<Program>> program =
      LowerOn(team_, *backend_, builder.Finish({b}));
  EXPECT_EQ(program.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(program.status().message(), HasSubstr("no kernel for 2 of 2 nodes"));
  EXPECT_THAT(program.status().message(), HasSubstr("tanh"));
  EXPECT_THAT(program.status().message(), HasSubstr("softmax"));
  EXPECT_THAT(program.status().message(), HasSubstr("got element type INT64, want FP32"));
}

// Contents that can no longer be read.
class LostConstant : public Constant {
 public:
  Bytes size() const override { return Bytes::Of(8); }
  absl::Status Read(Bytes, std::span<std::byte>) const override {
    return absl::DataLossError("the file has become shorter");
  }
};

TEST_F(ReferenceBackendTest, PassesOnThatAConstantCannotBeRead) {
  GraphBuilder builder;
  const ValueId x = builder.Input({2});
  const ValueId c = builder.Floats({2}, {1, 2});
  Graph graph = builder.Finish({builder.Add(Binary{}, {x, c})});
  graph.value(c).constant = std::make_shared<LostConstant>();
  const absl::StatusOr<std::unique_ptr<Program>> program = LowerOn(team_, *backend_, graph);
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_EQ(ProgramRunner(team_, **program).Pack().code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace sluice
