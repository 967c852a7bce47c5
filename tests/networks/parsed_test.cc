// The generated files as libonnx reads them: an ONNX library that is not ours finds in them what
// was meant.

#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "onnx/onnx_pb.h"
#include "tests/networks/networks.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;

onnx::ModelProto Parsed(std::string_view name, const NetworkOptions& options) {
  const std::filesystem::path path =
      std::filesystem::path(testing::TempDir()) / ("parsed_" + std::to_string(getpid()) + ".onnx");
  onnx::ModelProto model;
  EXPECT_EQ(WriteNetwork(name, options, path), absl::OkStatus());
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(model.ParseFromIstream(&file));
  std::filesystem::remove(path);
  return model;
}

std::map<std::string, int> CountOps(const onnx::ModelProto& model) {
  std::map<std::string, int> counts;
  for (const onnx::NodeProto& node : model.graph().node()) ++counts[node.op_type()];
  return counts;
}

std::vector<std::int64_t> Dims(const onnx::ValueInfoProto& value) {
  std::vector<std::int64_t> dims;
  for (const auto& dim : value.type().tensor_type().shape().dim()) dims.push_back(dim.dim_value());
  return dims;
}

TEST(ParsedNetworkTest, MobileNetHasItsNodes) {
  const onnx::ModelProto model = Parsed("mobilenet_v2", {});
  EXPECT_EQ(model.ir_version(), 8);
  ASSERT_EQ(model.opset_import_size(), 1);
  EXPECT_EQ(model.opset_import(0).version(), 13);
  const std::map<std::string, int> expected = {{"Conv", 52},
                                               {"BatchNormalization", 52},
                                               {"Clip", 35},
                                               {"Add", 10},
                                               {"GlobalAveragePool", 1},
                                               {"Flatten", 1},
                                               {"Gemm", 1},
                                               {"Softmax", 1}};
  EXPECT_EQ(CountOps(model), expected);
  std::int64_t weights = 0;
  for (const onnx::TensorProto& tensor : model.graph().initializer()) {
    std::int64_t count = 1;
    for (const std::int64_t dim : tensor.dims()) count *= dim;
    EXPECT_EQ(tensor.raw_data().size(), static_cast<std::size_t>(count) * sizeof(float))
        << tensor.name();
    weights += count;
  }
  EXPECT_EQ(weights, 3538986);
}

TEST(ParsedNetworkTest, EveryInputIsMadeBeforeItIsUsed) {
  for (const char* name : {"mobilenet_v2", "densenet201", "inception_v3"}) {
    SCOPED_TRACE(name);
    const onnx::ModelProto model = Parsed(name, {});
    std::set<std::string> known;
    for (const auto& input : model.graph().input()) known.insert(input.name());
    for (const auto& tensor : model.graph().initializer()) {
      EXPECT_TRUE(known.insert(tensor.name()).second) << tensor.name();
    }
    for (const onnx::NodeProto& node : model.graph().node()) {
      for (const std::string& input : node.input()) {
        EXPECT_TRUE(known.contains(input)) << node.name() << " reads " << input;
      }
      for (const std::string& output : node.output()) {
        EXPECT_TRUE(known.insert(output).second) << node.name() << " writes " << output;
      }
    }
    for (const auto& output : model.graph().output()) EXPECT_TRUE(known.contains(output.name()));
  }
}

TEST(ParsedNetworkTest, TheBatchIsTheFirstDimension) {
  const onnx::ModelProto model = Parsed("mobilenet_v2", {.batch = 5});
  EXPECT_THAT(Dims(model.graph().input(0)), ElementsAre(5, 3, 224, 224));
  EXPECT_THAT(Dims(model.graph().output(0)), ElementsAre(5, 1000));
}

TEST(ParsedNetworkTest, ADynamicBatchHasAName) {
  const onnx::ModelProto model = Parsed("mobilenet_v2", {.dynamic_batch = true});
  EXPECT_EQ(model.graph().input(0).type().tensor_type().shape().dim(0).dim_param(), "batch");
  EXPECT_EQ(model.graph().output(0).type().tensor_type().shape().dim(0).dim_param(), "batch");
}

}  // namespace
}  // namespace sluice
