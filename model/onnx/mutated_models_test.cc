// Models that were right, with other operators, edges, attributes, shapes and types in them.

#include <gtest/gtest.h>

#include <vector>

#include "model/onnx/model_builder.h"
#include "model/onnx/onnx_mutator.h"
#include "model/rewrite.h"

namespace sluice {
namespace {

// A bit of everything that importers trip over: windows, shapes that are computed, several outputs.
void AddSeed(ModelBuilder& b) {
  b.Input("x", {1, 4, 8, 8});
  b.Counting("w", {6, 4, 3, 3});
  b.Counting("m", {6, 5});
  b.Ints("target", {1, -1, 6});
  b.Node("Conv", {"x", "w"}, {"c"}).Ints("kernel_shape", {3, 3}).Ints("pads", {1, 1, 1, 1});
  b.Node("Relu", {"c"}, {"r"});
  b.Node("MaxPool", {"r"}, {"p"}).Ints("kernel_shape", {2, 2}).Ints("strides", {2, 2});
  b.Node("Transpose", {"p"}, {"t"}).Ints("perm", {0, 2, 3, 1});
  b.Node("Reshape", {"t", "target"}, {"f"});
  b.Node("MatMul", {"f", "m"}, {"y"});
  b.Node("Softmax", {"y"}, {"z"}).Int("axis", -1);
  b.Output("z");
}

class MutatedModelTest : public testing::TestWithParam<std::uint64_t> {};

TEST_P(MutatedModelTest, IsRefusedOrValid) {
  SCOPED_TRACE(testing::Message() << "replay with seed " << GetParam());
  OnnxMutator mutator(GetParam());
  const ImportOptions options = {
      .max_structure = Bytes::Of(1 << 20), .max_tensor = Bytes::Of(1 << 24), .max_nodes = 1000};
  ModelBuilder seed(6 + static_cast<std::int64_t>(GetParam() % 16));
  AddSeed(seed);
  for (int round = 0; round < 20; ++round) {
    mutator.Mutate(seed.model);
    absl::StatusOr<ImportedModel> imported = seed.Import(options);
    if (!imported.ok()) continue;
    ASSERT_TRUE(Validate(imported->graph).ok());
    const absl::Status simplified = Simplify(imported->graph);
    ASSERT_TRUE(simplified.ok()) << simplified;
    ASSERT_TRUE(Validate(imported->graph).ok());
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, MutatedModelTest, testing::Range<std::uint64_t>(0, 100));

}  // namespace
}  // namespace sluice
