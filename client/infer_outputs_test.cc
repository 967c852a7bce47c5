#include "client/infer_outputs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "client/npy.h"
#include "client/test_folder.h"

namespace sluice {
namespace {

using testing::ElementsAre;

Tensor Floats(const std::string& name, std::vector<std::int64_t> shape,
              const std::vector<float>& values) {
  Tensor tensor{.name = name,
                .datatype = "FP32",
                .shape = std::move(shape),
                .data = std::string(values.size() * sizeof(float), '\0')};
  if (!values.empty()) std::memcpy(tensor.data.data(), values.data(), tensor.data.size());
  return tensor;
}

std::vector<std::size_t> Indexes(const std::vector<RankedClass>& row) {
  std::vector<std::size_t> indexes;
  indexes.reserve(row.size());
  for (const RankedClass& one : row) indexes.push_back(one.index);
  return indexes;
}

TEST(InferOutputsTest, SumsUpFiniteValuesAndCountsTheOthers) {
  const auto summary = Summarise(Floats("y", {5}, {1, NAN, -3, INFINITY, 5}));
  ASSERT_TRUE(summary.ok());
  EXPECT_EQ(summary->min, -3);
  EXPECT_EQ(summary->max, 5);
  EXPECT_EQ(summary->mean, 1);
  EXPECT_EQ(summary->not_finite, 2u);
  EXPECT_EQ(Summarise(Floats("y", {0}, {}))->max, 0);
}

TEST(InferOutputsTest, RanksClassesOfEachPlaceOfTheBatch) {
  const auto ranked = RankClasses(Floats("y", {2, 4}, {1, 9, 9, NAN, 4, 3, 2, 1}), 3);
  ASSERT_TRUE(ranked.ok());
  ASSERT_EQ(ranked->size(), 2u);
  EXPECT_THAT(Indexes((*ranked)[0]), ElementsAre(1, 2, 0));
  EXPECT_THAT(Indexes((*ranked)[1]), ElementsAre(0, 1, 2));
  EXPECT_EQ((*RankClasses(Floats("y", {2}, {NAN, 1}), 9))[0].size(), 2u);
  EXPECT_TRUE(RankClasses(Floats("y", {0, 3}, {}), 3)->empty());
}

TEST(InferOutputsTest, ReadsLabelsOfEitherLineEnding) {
  const TestFolder folder;
  EXPECT_THAT(*ReadLabels(folder.Write("labels.txt", "cat\r\n\ndog")),
              ElementsAre("cat", "", "dog"));
}

TEST(InferOutputsTest, WritesEachOutputUnderAFileNameOfItsOwn) {
  const TestFolder folder;
  const auto files =
      WriteNpyFiles(folder.path(), {Floats("../a b", {1}, {1}), Floats("../a/b", {1}, {2}),
                                    Floats("", {1}, {3}), Floats(std::string(300, 'n'), {1}, {4})});
  ASSERT_TRUE(files.ok()) << files.status();
  ASSERT_EQ(files->size(), 4u);
  EXPECT_EQ((*files)[0], folder.path() / "_.._a_b.npy");
  EXPECT_EQ((*files)[1], folder.path() / "_.._a_b_2.npy");
  EXPECT_EQ(*Values(*ReadNpy((*files)[1])), std::vector<double>{2});
}

TEST(InferOutputsTest, TakesNearestRanksOfLatencies) {
  std::vector<double> seconds;
  for (int i = 200; i >= 1; --i) seconds.push_back(i);
  const LatencySummary summary = SummariseLatencies(seconds);
  EXPECT_EQ(summary.min, 1);
  EXPECT_EQ(summary.median, 100);
  EXPECT_EQ(summary.p99, 198);
  EXPECT_EQ(summary.max, 200);
  EXPECT_EQ(SummariseLatencies({7}).p99, 7);
}

}  // namespace
}  // namespace sluice
