#include "client/infer_inputs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/npy.h"
#include "client/tensor_set.h"
#include "client/test_folder.h"

namespace sluice {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

const std::vector<TensorInfo> kOne = {{"x", "FP32", {1, 3, 2, 2}}};
const std::vector<TensorInfo> kTwo = {{"ids", "INT64", {1, 4}}, {"mask", "BOOL", {4}}};

template <typename T>
std::string TextOf(const absl::StatusOr<T>& result) {
  EXPECT_FALSE(result.ok());
  return std::string(result.status().message());
}

TEST(InferInputsTest, SplitsNameAndFileAtTheFirstEqualsSign) {
  EXPECT_EQ(ParseNamedFile("x=a.npy")->name, "x");
  EXPECT_EQ(ParseNamedFile("x=a=b.npy")->file, "a=b.npy");
  EXPECT_EQ(ParseNamedFile("a.npy")->name, "");
  EXPECT_EQ(ParseNamedFile("a.npy")->file, "a.npy");
  for (const char* text : {"", "=", "x=", "=a.npy"}) {
    EXPECT_THAT(TextOf(ParseNamedFile(text)), HasSubstr("NAME=FILE")) << text;
  }
}

TEST(InferInputsTest, ReadsNumbersAndFractions) {
  EXPECT_EQ(*ParseNumber("0.5"), 0.5);
  EXPECT_EQ(*ParseNumber("1/255"), 1.0 / 255);
  EXPECT_EQ(*ParseNumber("-3"), -3);
  for (const char* text : {"", "x", "1/0", "1/", "/2", "1/2/3", "inf", "nan", "1e999"}) {
    EXPECT_FALSE(ParseNumber(text).ok()) << text;
  }
  EXPECT_THAT(*ParseThreeNumbers("1,2,1/4"), ElementsAre(1, 2, 0.25));
  EXPECT_THAT(*ParseThreeNumbers("2"), ElementsAre(2, 2, 2));
  for (const char* text : {"", ",", "1,2", "1,2,3,4", "1,,3", "1,2,"}) {
    EXPECT_FALSE(ParseThreeNumbers(text).ok()) << text;
  }
}

TEST(InferInputsTest, TakesRawValuesInTheModelsShape) {
  const TestFolder folder;
  const std::string file = folder.Write("a.bin", std::string(48, '\0'));
  const auto loaded = LoadInputs(kOne, {.files = {{"", file}}});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->tensors[0].name, "x");
  EXPECT_EQ(loaded->tensors[0].shape, kOne[0].shape);
  const std::string short_file = folder.Write("b.bin", "1234");
  EXPECT_THAT(TextOf(LoadInputs(kOne, {.files = {{"x", short_file}}})),
              HasSubstr("b.bin: got 4 bytes, want 48 for input \"x\" FP32 [1, 3, 2, 2]"));
}

TEST(InferInputsTest, SendsArraysWithTheirOwnTypeAndShape) {
  const TestFolder folder;
  const std::string file = folder.Write(
      "a.npy",
      *FormatNpy({.name = "", .datatype = "FP64", .shape = {1}, .data = std::string(8, '\0')}));
  const auto loaded = LoadInputs(kOne, {.files = {{"x", file}}});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->tensors[0].datatype, "FP64");
}

TEST(InferInputsTest, TellsAFileWithoutAnEndingByItsFirstBytes) {
  const TestFolder folder;
  const std::string picture = folder.Write("picture", "P6 1 1 255 abc");
  const auto loaded = LoadInputs(kOne, {.files = {{"", picture}}});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->picture->width, 1u);
  EXPECT_EQ(loaded->tensors[0].data.size(), 48u);
  const std::string text = folder.Write("notes", "hello");
  EXPECT_THAT(TextOf(LoadInputs(kOne, {.files = {{"", text}}})), HasSubstr("unknown kind"));
}

TEST(InferInputsTest, NamesTheInputsWhenANameIsMissingOrWrong) {
  const TestFolder folder;
  const std::string file = folder.Write("a.bin", "1234");
  EXPECT_THAT(TextOf(LoadInputs(kTwo, {.files = {{"", file}}})),
              HasSubstr("ids INT64 [1, 4]; mask BOOL [4]"));
  EXPECT_THAT(TextOf(LoadInputs(kTwo, {.files = {{"y", file}}})),
              HasSubstr("got input \"y\", want one of the model's: ids"));
  EXPECT_THAT(TextOf(LoadInputs(kTwo, {})), HasSubstr("--zeros"));
}

TEST(InferInputsTest, FillsOnlyWhatNothingElseGives) {
  const TestFolder folder;
  const std::string file = folder.Write("a.bin", "\1\1\1\1");
  const auto loaded = LoadInputs(kTwo, {.files = {{"mask", file}}, .folder = {}, .zeros = true});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  ASSERT_EQ(loaded->tensors.size(), 2u);
  EXPECT_THAT(*Values(loaded->tensors[0]), Each(1));
  EXPECT_THAT(*Values(loaded->tensors[1]), Each(0));
}

TEST(InferInputsTest, MakesTheSameRandomValuesFromTheSameSeed) {
  const auto one = LoadInputs(kOne, {.seed = 1});
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_EQ(one->tensors[0].data, LoadInputs(kOne, {.seed = 1})->tensors[0].data);
  EXPECT_NE(one->tensors[0].data, LoadInputs(kOne, {.seed = 2})->tensors[0].data);
  EXPECT_THAT(*Values(one->tensors[0]), Each(testing::AllOf(testing::Ge(0), testing::Lt(1))));
  const auto ids = LoadInputs(kTwo, {.seed = 1});
  EXPECT_THAT(*Values(ids->tensors[0]), Each(testing::AllOf(testing::Ge(0), testing::Lt(10))));
  EXPECT_THAT(*Values(ids->tensors[1]), Each(testing::Le(1)));
}

TEST(InferInputsTest, RefusesToMakeUpOpenShapesAndStrings) {
  EXPECT_FALSE(LoadInputs(std::vector<TensorInfo>{{"x", "FP32", {-1, 3}}}, {.zeros = true}).ok());
  EXPECT_FALSE(LoadInputs(std::vector<TensorInfo>{{"x", "BYTES", {1}}}, {.zeros = true}).ok());
  EXPECT_FALSE(LoadInputs(std::vector<TensorInfo>{{"x", "FP32", {1 << 30}}}, {.zeros = true}).ok());
  EXPECT_FALSE(LoadInputs(std::vector<TensorInfo>{{"x", "BYTES", {1}}}, {.seed = 1}).ok());
}

TEST(InferInputsTest, TakesATensorSet) {
  const TestFolder folder;
  ASSERT_TRUE(WriteTensorSet(folder.path(),
                             {{.name = "x", .datatype = "FP32", .shape = {1}, .data = "1234"}})
                  .ok());
  const auto loaded = LoadInputs(kOne, {.files = {}, .folder = folder.path().string()});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->tensors[0].data, "1234");
}

}  // namespace
}  // namespace sluice
