// Shapes that follow from contents of inputs.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "model/onnx/model_builder.h"

namespace sluice {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Key;

std::vector<std::byte> Contents(const std::vector<std::int64_t>& elements) {
  std::vector<std::byte> bytes(elements.size() * sizeof(std::int64_t));
  std::memcpy(bytes.data(), elements.data(), bytes.size());
  return bytes;
}

// Reshapes x to two times what "half" says.
struct ReshapeByInput {
  ReshapeByInput() : builder(13) {
    builder.Input("x", {4, 6});
    builder.Input("half", {2}, onnx::TensorProto::INT64);
    builder.Ints("two", {2});
    builder.Node("Mul", {"half", "two"}, {"target"});
    builder.Node("Reshape", {"x", "target"}, {"y"});
    builder.Output("y");
  }
  ModelBuilder builder;
};

TEST(KnownValuesTest, ContentsOfAnInputDecideShapes) {
  const ReshapeByInput model;
  const absl::StatusOr<ImportedModel> imported =
      model.builder.Import({.values = {{"half", Contents({1, 6})}}});
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_EQ(OutputShape(imported->graph), (Shape{2, 12}));
  EXPECT_THAT(imported->specialised, ElementsAre(Key("half")));
}

TEST(KnownValuesTest, ContentsThatDecideNothingSpecialiseNothing) {
  ModelBuilder b(13);
  b.Input("x", {2});
  b.Node("Relu", {"x"}, {"y"});
  b.Output("y");
  const absl::StatusOr<ImportedModel> imported =
      b.Import({.values = {{"x", std::vector<std::byte>(8)}}});
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_THAT(imported->specialised, IsEmpty());
}

TEST(KnownValuesTest, WithoutContentsTheErrorNamesTheInput) {
  const absl::Status status = ReshapeByInput().builder.Import().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()), HasSubstr("computed from \"half\""));
}

TEST(KnownValuesTest, ContentsOfAnotherSizeAreRefused) {
  const absl::Status status =
      ReshapeByInput().builder.Import({.values = {{"half", Contents({1})}}}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("8 bytes, want 16"));
}

}  // namespace
}  // namespace sluice
