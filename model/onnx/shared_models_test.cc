// The networks that have right answers load.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>

#include "model/host_tensor.h"
#include "model/onnx/onnx_importer.h"
#include "model/rewrite.h"

namespace sluice {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Key;

struct Network {
  const char* name;
  std::map<std::string, std::int64_t> dims;
  Shape output;
  // Convolutions and matrix products, and all nodes, once simplified; a drop is progress.
  std::size_t products, nodes;
};

std::filesystem::path ModelPath(const std::string& name) {
  const char* shared = std::getenv("SLUICE_SHARED");
  if (shared == nullptr) return {};
  const auto path = std::filesystem::path(shared) / "models" / name / "model.onnx";
  return std::filesystem::exists(path) ? path : std::filesystem::path();
}

void PrintTo(const Network& network, std::ostream* out) { *out << network.name; }

class NetworkTest : public testing::TestWithParam<Network> {};

INSTANTIATE_TEST_SUITE_P(
    Shared, NetworkTest,
    testing::Values(
        Network{"mnist_cnn", {}, {1, 10}, 3, 6},
        Network{"mobilenet_v2_050_128", {{"batch", 2}}, {2, 2}, 53, 56},
        Network{"ulfg_rfb320", {}, {1, 4420, 2}, 52, 90},
        Network{"ppocr_v4_det",
                {{"batch", 1}, {"height", 192}, {"width", 256}},
                {1, 1, 192, 256},
                64,
                102},
        Network{"light_resnet50", {}, {1, 1000}, 54, 58},
        Network{"light_bvlc_alexnet", {}, {1, 1000}, 8, 15},
        Network{"light_densenet121", {}, {1, 1000, 1, 1}, 121, 246},
        Network{"light_inception_v1", {}, {1, 1000}, 58, 85},
        Network{"light_inception_v2", {}, {1, 1000}, 70, 95},
        Network{"light_shufflenet", {}, {1, 1000}, 50, 111},
        Network{"light_squeezenet", {}, {1, 1000, 1, 1}, 26, 39},
        Network{"light_vgg19", {}, {1, 1000}, 19, 26},
        Network{"light_zfnet512", {}, {1, 1000}, 8, 15},
        Network{"fastestdet", {}, {1, 85, 22, 22}, 70, 186},
        Network{"yunet_n_dynamic",
                {{"batch", 1}, {"height", 320}, {"width", 320}},
                {1, 1600, 1},
                59,
                91},
        Network{"ppocr_v2_cls", {{"batch", 1}, {"height", 48}, {"width", 192}}, {1, 2}, 54, 76},
        Network{"dtln_1", {}, {1, 1, 257}, 3, 30}, Network{"dtln_2", {}, {1, 1, 512}, 7, 62}),
    [](const auto& info) { return std::string(info.param.name); });

TEST_P(NetworkTest, ImportsAndSimplifies) {
  const Network& want = GetParam();
  const std::filesystem::path path = ModelPath(want.name);
  if (path.empty()) GTEST_SKIP() << "no " << want.name << " below SLUICE_SHARED";
  ImportOptions options;
  options.dims = want.dims;
  absl::StatusOr<ImportedModel> model = ImportOnnx(path, options);
  ASSERT_TRUE(model.ok()) << model.status();
  Graph& graph = model->graph;
  ASSERT_TRUE(Simplify(graph).ok());
  ASSERT_TRUE(Validate(graph).ok()) << Validate(graph);
  EXPECT_EQ(graph.value(graph.outputs[0]).shape, want.output);
  std::size_t products = 0;
  for (const Node& node : graph.nodes) {
    products += std::holds_alternative<Convolution>(node.operation) ||
                        std::holds_alternative<FullyConnected>(node.operation)
                    ? 1
                    : 0;
  }
  EXPECT_EQ(products, want.products);
  EXPECT_EQ(graph.nodes.size(), want.nodes);
}

TEST(NetworkTest, BranchesOfTwoShapesAskForTheInputThatDecides) {
  const std::filesystem::path path = ModelPath("silero_vad_v5");
  if (path.empty()) GTEST_SKIP() << "no silero_vad_v5 below SLUICE_SHARED";
  ImportOptions options;
  options.dims = {{"input[0]", 1}, {"input[1]", 576}, {"state[1]", 1}};
  const absl::Status undecided = ImportOnnx(path, options).status();
  EXPECT_EQ(undecided.code(), absl::StatusCode::kInvalidArgument) << undecided;
  EXPECT_THAT(std::string(undecided.message()), HasSubstr("computed from \"sr\""));
  const std::array<std::int64_t, 1> rate = {16000};
  options.values["sr"] = PackIntegers(DataType::kInt64, rate);
  const absl::StatusOr<ImportedModel> decided = ImportOnnx(path, options);
  ASSERT_TRUE(decided.ok()) << decided.status();
  EXPECT_THAT(decided->specialised, ElementsAre(Key("sr")));
}

}  // namespace
}  // namespace sluice
