// Outputs whose size the data decides, through lowering to what a caller reads.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "base/ids.h"
#include "engine/backend.h"
#include "engine/testing/graph_builder.h"
#include "engine/testing/program_runner.h"

namespace sluice {
namespace {

using testing::ElementsAre;

TensorContents BytesOf(const std::vector<float>& elements) {
  TensorContents bytes(elements.size() * sizeof(float));
  std::memcpy(bytes.data(), elements.data(), bytes.size());
  return bytes;
}

std::vector<std::int64_t> Integers(const TensorContents& bytes) {
  std::vector<std::int64_t> elements(bytes.size() / sizeof(std::int64_t));
  if (!bytes.empty()) std::memcpy(elements.data(), bytes.data(), bytes.size());
  return elements;
}

struct Answer {
  std::vector<std::vector<std::int64_t>> outputs;
  std::vector<Shape> shapes;
  bool count_lives = false;  // To the last step, like the output itself.
};

// Places of what is not zero in four numbers, as [1, n]; then a long tail of other steps.
Answer AnswerTo(const std::vector<float>& x, bool count_is_output) {
  GraphBuilder b;
  const ValueId input = b.Input({4});
  const ValueId places = b.Add(NonZero{}, {input}, std::nullopt, DataType::kInt64);
  const ValueId count = b.Add(NonZero{.count = true}, {input}, std::nullopt, DataType::kInt64);
  ValueId other = input;
  for (int i = 0; i < 4; ++i) other = b.Add(Unary{Unary::Kind::kAbs}, {other});
  std::vector<ValueId> outputs = {places};
  if (count_is_output) outputs.push_back(count);
  Graph graph = b.Finish(outputs);
  graph.value(places).dynamic = DynamicDim{1, count};
  EXPECT_TRUE(Validate(graph).ok());
  ComputeTeam team(2);
  const std::unique_ptr<Backend> backend = CpuBackend(2);
  const auto program = LowerOn(team, *backend, graph);
  EXPECT_TRUE(program.ok()) << program.status();
  if (!program.ok()) return {};
  ProgramRunner runner(team, **program);
  EXPECT_TRUE(runner.Pack().ok());
  const std::vector<TensorContents> inputs = {BytesOf(x)};
  const auto contents = runner.Run(inputs);
  EXPECT_TRUE(contents.ok()) << contents.status();
  Answer answer;
  for (const TensorContents& output : *contents) answer.outputs.push_back(Integers(output));
  answer.shapes = runner.output_shapes();
  const PortInfo& port = (*program)->outputs()[0];
  answer.count_lives =
      port.dynamic && Index((*program)->buffers()[Index(port.dynamic->count)].live.end) ==
                          (*program)->steps().size();
  return answer;
}

TEST(DynamicOutputsTest, OutputHasItsRealSize) {
  const Answer answer = AnswerTo({0, 3, 0, 4}, false);
  EXPECT_THAT(answer.outputs, ElementsAre(ElementsAre(1, 3)));
  EXPECT_THAT(answer.shapes, ElementsAre(Shape{1, 2}));
  EXPECT_TRUE(answer.count_lives);
}

TEST(DynamicOutputsTest, OutputMayBeEmptyOrFull) {
  EXPECT_THAT(AnswerTo({0, 0, 0, 0}, false).shapes, ElementsAre(Shape{1, 0}));
  EXPECT_THAT(AnswerTo({1, 2, 3, 4}, false).outputs, ElementsAre(ElementsAre(0, 1, 2, 3)));
}

TEST(DynamicOutputsTest, CountMayBeAnOutputItself) {
  const Answer answer = AnswerTo({5, 3, 0, 4}, true);
  EXPECT_THAT(answer.outputs, ElementsAre(ElementsAre(0, 1, 3), ElementsAre(3)));
}

}  // namespace
}  // namespace sluice
