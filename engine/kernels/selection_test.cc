// Moves by index and choices by contents, on cases small enough to read.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "engine/kernels/kernel_case.h"

namespace sluice::kernels {
namespace {

using testing::ElementsAre;

const float kNan = std::numeric_limits<float>::quiet_NaN();

template <typename T>
std::vector<T> Result(KernelCase& node) {
  const std::vector<std::byte> bytes = node.Run(BestLoops());
  std::vector<T> elements(bytes.size() / sizeof(T));
  if (!bytes.empty()) std::memcpy(elements.data(), bytes.data(), bytes.size());
  return elements;
}
std::vector<float> Floats(KernelCase& node) { return Result<float>(node); }
std::vector<std::int64_t> Integers(KernelCase& node) { return Result<std::int64_t>(node); }

TEST(GatherElementsTest, IndicesOutOfRangeReadNothing) {
  KernelCase node(GatherElements{.axis = 1});
  node.Floats({2, 2}, {1, 2, 3, 4}).Integers({2, 3}, {-1, 0, 5, 1, -3, -2});
  EXPECT_THAT(Floats(node), ElementsAre(2, 1, 0, 4, 0, 3));
}

TEST(GatherNdTest, BatchesHavePositionsOfTheirOwn) {
  KernelCase node(GatherNd{.batch_dims = 1});
  node.Floats({2, 3}, {1, 2, 3, 4, 5, 6}).Integers({2, 2, 1}, {2, 0, -1, 9});
  EXPECT_THAT(Floats(node), ElementsAre(3, 1, 6, 0));
}

TEST(ScatterElementsTest, LastOfTwoUpdatesRemains) {
  KernelCase node(ScatterElements{.axis = 0});
  node.Floats({3}, {1, 2, 3}).Integers({4}, {1, 1, -1, 7}).Floats({4}, {5, 6, 7, 8});
  EXPECT_THAT(Floats(node), ElementsAre(1, 6, 7));
}

TEST(ScatterElementsTest, ReductionsCombineWithWhatIsThere) {
  const auto reduced = [](ScatterReduction reduction) {
    KernelCase node(ScatterElements{.axis = 0, .reduction = reduction});
    node.Floats({2}, {3, 5}).Integers({3}, {0, 0, 1}).Floats({3}, {2, 4, 1});
    return Floats(node);
  };
  EXPECT_THAT(reduced(ScatterReduction::kAdd), ElementsAre(9, 6));
  EXPECT_THAT(reduced(ScatterReduction::kMultiply), ElementsAre(24, 5));
  EXPECT_THAT(reduced(ScatterReduction::kMaximum), ElementsAre(4, 5));
  EXPECT_THAT(reduced(ScatterReduction::kMinimum), ElementsAre(2, 1));
}

TEST(ScatterNdTest, WholeSlicesAreWritten) {
  KernelCase node(ScatterNd{});
  node.Floats({3, 2}, {1, 2, 3, 4, 5, 6}).Integers({2, 1}, {2, 0}).Floats({2, 2}, {7, 8, 9, 10});
  EXPECT_THAT(Floats(node), ElementsAre(9, 10, 3, 4, 7, 8));
}

TEST(ReverseSequenceTest, LengthsBeyondTheTensorReverseAllOfIt) {
  KernelCase node(ReverseSequence{.batch_axis = 0, .time_axis = 1});
  node.Floats({3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9}).Integers({3}, {2, 100, -4});
  EXPECT_THAT(Floats(node), ElementsAre(2, 1, 3, 6, 5, 4, 7, 8, 9));
}

TEST(TriangleTest, DiagonalsFarOutsideKeepAllOrNothing) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  const auto kept = [](bool upper, std::int64_t k) {
    KernelCase node(Triangle{.upper = upper});
    node.Floats({2, 3}, {1, 2, 3, 4, 5, 6}).Integers({}, {k});
    return Floats(node);
  };
  EXPECT_THAT(kept(true, 1), ElementsAre(0, 2, 3, 0, 0, 6));
  EXPECT_THAT(kept(false, 0), ElementsAre(1, 0, 0, 4, 5, 0));
  EXPECT_THAT(kept(true, kMost), ElementsAre(0, 0, 0, 0, 0, 0));
  EXPECT_THAT(kept(false, -kMost), ElementsAre(0, 0, 0, 0, 0, 0));
  EXPECT_THAT(kept(true, -kMost), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST(OneHotTest, IndicesThatAreNoWholeNumberInRangeGiveOff) {
  KernelCase node(OneHot{.axis = 1});
  node.Floats({4}, {1, -1, 0.5f, kNan}).Floats({2}, {7, 9}).Output({4, 2});
  EXPECT_THAT(Floats(node), ElementsAre(7, 9, 7, 9, 7, 7, 7, 7));
}

TEST(TopKTest, NanIsLargestAndEqualOnesKeepTheirOrder) {
  const std::vector<float> x = {2, 5, kNan, 5, 1};
  KernelCase indices(TopK{.axis = 0, .largest = true, .indices = true});
  indices.Floats({5}, x).Output({4}, DataType::kInt64);
  EXPECT_THAT(Integers(indices), ElementsAre(2, 1, 3, 0));
  KernelCase smallest(TopK{.axis = 0, .largest = false});
  smallest.Floats({5}, x).Output({2});
  EXPECT_THAT(Floats(smallest), ElementsAre(1, 2));
}

TEST(TopKTest, RowsMayLieAcross) {
  KernelCase node(TopK{.axis = 0});
  node.Floats({3, 2}, {1, 6, 3, 4, 2, 5}).Output({2, 2});
  EXPECT_THAT(Floats(node), ElementsAre(3, 6, 2, 5));
  KernelCase none(TopK{.axis = 0});
  none.Floats({3, 2}, {1, 6, 3, 4, 2, 5}).Output({0, 2});
  EXPECT_TRUE(Floats(none).empty());
}

TEST(NonZeroTest, NegativeZeroIsZeroAndNanIsNot) {
  const std::vector<float> x = {0, kNan, -0.0f, 3};
  KernelCase places(NonZero{});
  places.Floats({2, 2}, x).Output({2, 4}, DataType::kInt64);
  EXPECT_THAT(Integers(places), ElementsAre(0, 1, 0, 0, 1, 1, 0, 0));
  KernelCase count(NonZero{.count = true});
  count.Floats({2, 2}, x).Output({}, DataType::kInt64);
  EXPECT_THAT(Integers(count), ElementsAre(2));
}

TEST(UniqueTest, OutputsDescribeTheSameGroups) {
  const auto of = [](Unique::Output output, bool sorted) {
    KernelCase node(Unique{.sorted = sorted, .output = output});
    node.Integers({6}, {2, 1, 1, 3, 4, 3});
    node.Output(output == Unique::Output::kCount ? Shape{} : Shape{6}, DataType::kInt64);
    return Integers(node);
  };
  EXPECT_THAT(of(Unique::Output::kValues, true), ElementsAre(1, 2, 3, 4, 0, 0));
  EXPECT_THAT(of(Unique::Output::kFirst, true), ElementsAre(1, 0, 3, 4, 0, 0));
  EXPECT_THAT(of(Unique::Output::kInverse, true), ElementsAre(1, 0, 0, 2, 3, 2));
  EXPECT_THAT(of(Unique::Output::kCounts, true), ElementsAre(2, 1, 2, 1, 0, 0));
  EXPECT_THAT(of(Unique::Output::kValues, false), ElementsAre(2, 1, 3, 4, 0, 0));
  EXPECT_THAT(of(Unique::Output::kInverse, false), ElementsAre(0, 1, 1, 2, 3, 2));
  EXPECT_THAT(of(Unique::Output::kCount, false), ElementsAre(4));
}

TEST(UniqueTest, SlicesAlongAnAxisAreComparedWhole) {
  KernelCase node(Unique{.axis = 1});
  node.Floats({2, 3}, {5, 1, 5, 2, 3, 2});
  EXPECT_THAT(Floats(node), ElementsAre(1, 5, 0, 3, 2, 0));
}

// Three boxes of which the first two overlap by 3/4 or so.
KernelCase Suppression(bool count, std::int64_t most, float overlap, float score) {
  KernelCase node(NonMaxSuppression{.count = count});
  node.Floats({1, 3, 4}, {0, 0, 1, 1, 0, 0.1f, 1, 1.1f, 0, 10, 1, 11});
  node.Floats({1, 1, 3}, {0.9f, 0.95f, 0.5f});
  node.Integers({1}, {most}).Floats({1}, {overlap}).Floats({1}, {score});
  node.Output(count ? Shape{} : Shape{3, 3}, DataType::kInt64);
  return node;
}

TEST(NonMaxSuppressionTest, OverlappingBoxesOfLowerScoreGo) {
  KernelCase node = Suppression(false, 3, 0.5f, 0);
  EXPECT_THAT(Integers(node), ElementsAre(0, 0, 1, 0, 0, 2, 0, 0, 0));
  KernelCase count = Suppression(true, 3, 0.5f, 0);
  EXPECT_THAT(Integers(count), ElementsAre(2));
}

TEST(NonMaxSuppressionTest, LimitsOfNumberAndScoreHold) {
  KernelCase few = Suppression(true, 1, 0.99f, 0);
  EXPECT_THAT(Integers(few), ElementsAre(1));
  KernelCase good = Suppression(true, 3, 0.99f, 0.6f);
  EXPECT_THAT(Integers(good), ElementsAre(2));
  KernelCase negative = Suppression(true, -5, 0.99f, 0);
  EXPECT_THAT(Integers(negative), ElementsAre(0));
}

TEST(PadTest, ConstantMayBeComputed) {
  KernelCase node(Pad{.mode = Pad::Mode::kConstant, .begin = {1}, .end = {1}});
  node.Integers({2}, {1, 2}).Integers({}, {std::int64_t{1} << 60});
  EXPECT_THAT(Integers(node), ElementsAre(std::int64_t{1} << 60, 1, 2, std::int64_t{1} << 60));
}

TEST(PadTest, WrapRepeatsTheOtherEndAsOftenAsItTakes) {
  KernelCase node(Pad{.mode = Pad::Mode::kWrap, .begin = {4}, .end = {3}});
  node.Floats({3}, {1, 2, 3});
  EXPECT_THAT(Floats(node), ElementsAre(3, 1, 2, 3, 1, 2, 3, 1, 2, 3));
}

TEST(PoolIndicesTest, CountsColumnsFirstWhereAsked) {
  const auto indices = [](bool column_major) {
    const Pool pool{.kind = Pool::Kind::kMax,
                    .kernel = {2, 2},
                    .strides = {2, 2},
                    .dilations = {1, 1},
                    .pads_begin = {0, 0},
                    .pads_end = {0, 0}};
    KernelCase node(PoolIndices{.pool = pool, .column_major = column_major});
    node.Floats({1, 2, 2, 3}, {0, 9, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0});
    node.Output({1, 2, 1, 1}, DataType::kInt64);
    return Integers(node);
  };
  EXPECT_THAT(indices(false), ElementsAre(1, 9));
  EXPECT_THAT(indices(true), ElementsAre(2, 7));
}

TEST(DeterminantTest, SingularMatrixHasNone) {
  KernelCase node(Determinant{});
  node.Floats({3, 2, 2}, {0, 1, 2, 3, 1, 2, 2, 4, 2, 0, 0, 3});
  EXPECT_THAT(Floats(node), ElementsAre(-2, 0, 6));
}

Resize ResizeOf(Resize::Mode mode, Resize::Coordinates coordinates, std::vector<float> scales) {
  Resize op;
  op.mode = mode;
  op.coordinates = coordinates;
  op.scales = std::move(scales);
  return op;
}

TEST(ResizeTest, AntialiasTakesInAllThatAnOutputStandsFor) {
  Resize op = ResizeOf(Resize::Mode::kLinear, Resize::Coordinates::kHalfPixel, {0.5f});
  op.antialias = true;
  KernelCase node(op);
  node.Floats({4}, {1, 2, 3, 4}).Output({2});
  // Weights 1/8, 3/8, 3/8, 1/8 around 0.5 and 2.5; the edge shows beyond it.
  EXPECT_THAT(Floats(node), ElementsAre(testing::FloatEq(1.625f), testing::FloatEq(3.375f)));
}

TEST(ResizeTest, IntegersLoseFractionsButNotForWantOfPrecision) {
  Resize op = ResizeOf(Resize::Mode::kLinear, Resize::Coordinates::kHalfPixel, {3});
  KernelCase node(op);
  node.Integers({2}, {7, 7}).Output({6});
  EXPECT_THAT(Integers(node), ElementsAre(7, 7, 7, 7, 7, 7));
}

TEST(ResizeTest, CropShowsTheConstantOutside) {
  Resize op = ResizeOf(Resize::Mode::kLinear, Resize::Coordinates::kTfCropAndResize, {1});
  op.crop_begin = {-0.5f};
  op.crop_end = {0.5f};
  op.extrapolation = 10;
  KernelCase node(op);
  node.Floats({3}, {1, 2, 3}).Output({3});
  EXPECT_THAT(Floats(node), ElementsAre(10, 1, 2));
}

TEST(ResizeTest, BatchAndChannelsMayBeResizedToo) {
  KernelCase node(ResizeOf(Resize::Mode::kNearest, Resize::Coordinates::kAsymmetric, {2, 1, 1}));
  node.Floats({1, 1, 2}, {1, 2}).Output({2, 1, 2});
  EXPECT_THAT(Floats(node), ElementsAre(1, 2, 1, 2));
}

TEST(RoiAlignTest, ImageThatIsNotThereGivesZeros) {
  KernelCase node(RoiAlign{.height = 1, .width = 1, .sampling_ratio = 1, .half_pixel = true});
  node.Floats({1, 1, 2, 2}, {1, 2, 3, 4}).Floats({2, 4}, {0, 0, 2, 2, 0, 0, 2, 2});
  node.Integers({2}, {0, 7});
  EXPECT_THAT(Floats(node), ElementsAre(2.5f, 0));
}

TEST(GridSampleTest, CoordinatesThatAreNoNumberShowNothing) {
  KernelCase node(GridSample{.mode = GridSample::Mode::kLinear, .align_corners = true});
  node.Floats({1, 1, 3}, {1, 2, 3}).Floats({1, 4, 1}, {-1, 0.5f, kNan, 1e30f});
  EXPECT_THAT(Floats(node), ElementsAre(1, 2.5f, 0, 0));
}

}  // namespace
}  // namespace sluice::kernels
