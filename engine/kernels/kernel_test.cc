// What random shapes do not reach: NaN and infinities, declined cases, and the team.

#include "engine/kernels/kernel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <memory>

#include "engine/compute_team.h"
#include "engine/kernels/kernel_case.h"

namespace sluice::kernels {
namespace {

using testing::HasSubstr;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
const float kNan = std::numeric_limits<float>::quiet_NaN();

// NaN and infinities among ordinary numbers, at places that vectors and their rests meet.
std::vector<float> Special(std::size_t n) {
  const float values[] = {1, kNan, -2, kInfinity, 0.0f, -kInfinity, -0.0f};
  std::vector<float> elements;
  for (std::size_t i = 0; i < n; ++i) elements.push_back(values[i * i % 7]);
  return elements;
}

class KernelTest : public testing::TestWithParam<const Loops*> {
 protected:
  void ExpectAgrees(KernelCase node, Tolerance tolerance = {}) {
    const absl::Status status = node.Check(*GetParam(), tolerance);
    EXPECT_TRUE(status.ok()) << status;
  }
};

TEST_P(KernelTest, BinaryPassesNanAndInfinitiesOn) {
  for (std::size_t kind = 0; kind < kBinaryKinds; ++kind) {
    const Binary binary{static_cast<Binary::Kind>(kind)};
    for (const std::int64_t n : {1, 7, 17, 67}) {
      const auto count = static_cast<std::size_t>(n);
      Draw draw(3);
      ExpectAgrees(std::move(KernelCase(binary).Floats({n}, Special(count)).Input(draw, {n})),
                   {.ulp = 1});
      ExpectAgrees(std::move(KernelCase(binary).Input(draw, {n}).Floats({n}, Special(count))),
                   {.ulp = 1});
      ExpectAgrees(std::move(KernelCase(binary).Floats({n}, Special(count)).Floats({}, {kNan})));
    }
  }
}

TEST_P(KernelTest, ReductionsPassNanOnWhereverItLies) {
  for (std::size_t kind = 0; kind < kReduceKinds; ++kind) {
    for (std::size_t at = 0; at < 70; at += 3) {
      std::vector<float> x(70, 1.0f);
      x[at] = kNan;
      const Reduce inner{.kind = static_cast<Reduce::Kind>(kind), .axes = {1}};
      ExpectAgrees(std::move(KernelCase(inner).Floats({2, 35}, x).Output({2})), {.ulp = 4});
      const Reduce outer{.kind = static_cast<Reduce::Kind>(kind), .axes = {0}};
      ExpectAgrees(std::move(KernelCase(outer).Floats({2, 35}, x).Output({35})), {.ulp = 4});
    }
  }
}

TEST_P(KernelTest, PoolsTreatSpecialValuesAsDefined) {
  for (const Pool::Kind kind : {Pool::Kind::kMax, Pool::Kind::kAverage}) {
    for (const std::int64_t kernel : {1, 3, 40}) {
      Pool pool;
      pool.kind = kind;
      pool.kernel = {kernel};
      pool.strides = {1};
      pool.dilations = {1};
      pool.pads_begin = {2};
      pool.pads_end = {2};
      ExpectAgrees(std::move(KernelCase(pool).Floats({1, 1, 40}, Special(40))), {.ulp = 4});
    }
  }
}

TEST_P(KernelTest, SoftmaxOfInfinitiesIsAsDefined) {
  for (const bool log : {false, true}) {
    for (const std::int64_t axis : {0, 1}) {
      std::vector<float> x(40, -kInfinity);
      x[3] = 2, x[17] = kInfinity, x[29] = kNan;
      ExpectAgrees(std::move(KernelCase(Softmax{.axis = axis, .log = log}).Floats({4, 10}, x)),
                   {.ulp = 4});
    }
  }
}

TEST_P(KernelTest, NearestResizePassesSpecialValuesOn) {
  Resize resize;
  resize.scales = {1, 1, 2.5f};
  ExpectAgrees(std::move(KernelCase(resize).Floats({1, 1, 20}, Special(20)).Output({1, 1, 50})));
}

TEST_P(KernelTest, SquaresByAProductWhenTheExponentIsTwo) {
  KernelCase node(Binary{Binary::Kind::kPower});
  node.Floats({9}, Special(9)).Floats({1}, {2}).Constant();
  const absl::StatusOr<Kernel> kernel = KernelCase(node).Make(*GetParam());
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  EXPECT_THAT(kernel->name, HasSubstr("square"));
  ExpectAgrees(std::move(node));
}

TEST_P(KernelTest, PadsWithMinusInfinity) {
  const Pad pad{.mode = Pad::Mode::kConstant, .begin = {1, 2}, .end = {0, 1}, .value = -kInfinity};
  Draw draw(5);
  ExpectAgrees(std::move(KernelCase(pad).Input(draw, {3, 5})));
}

TEST_P(KernelTest, CastRoundsOnceToShortFloats) {
  // Just above and below the middle of two halves, and of two bfloat16; subnormal and out of range.
  const std::vector<double> x = {1 + 0x1p-11 + 0x1p-40,
                                 1 + 3 * 0x1p-11 - 0x1p-40,
                                 1 + 0x1p-11,
                                 1 + 0x1p-8 + 0x1p-45,
                                 -1 - 3 * 0x1p-8 + 0x1p-45,
                                 0x1p-25 + 0x1p-60,
                                 0x1p-25,
                                 65519.999999999,
                                 65520,
                                 -0x1p-14 + 0x1p-50,
                                 0x1p-149,
                                 1e300};
  for (const DataType type : {DataType::kFloat16, DataType::kBfloat16}) {
    KernelCase node((Cast()));
    node.Doubles({12}, x).Output({12}, type);
    ExpectAgrees(std::move(node));
  }
}

TEST_P(KernelTest, CastClampsAtTheEndsOfIntegers) {
  const std::vector<float> x = {kNan,     kInfinity,     -kInfinity,    9.3e18f,
                                -9.3e18f, 2147483648.0f, 2147483520.0f, -2147483648.0f,
                                127.9f,   -128.9f,       255.5f,        -0.5f};
  for (const DataType type :
       {DataType::kInt8, DataType::kUint8, DataType::kInt32, DataType::kUint32, DataType::kInt64,
        DataType::kUint64, DataType::kBool}) {
    KernelCase node((Cast()));
    node.Floats({12}, x).Output({12}, type);
    ExpectAgrees(std::move(node));
  }
}

TEST_P(KernelTest, DividesIntegersWithoutTrapping) {
  constexpr auto kLow = std::numeric_limits<std::int64_t>::min();
  KernelCase node(Binary{Binary::Kind::kDivide});
  node.Integers({5}, {7, kLow, kLow, -9, 0}).Integers({5}, {0, -1, 0, 2, 0});
  ExpectAgrees(std::move(node));
}

TEST_P(KernelTest, SameBitsWhateverTheTeam) {
  const auto run = [&](int threads, const auto& make) {
    std::vector<std::byte> result;
    ComputeTeam team(threads);
    team.Run([&] { result = make().Run(*GetParam()); });
    return result;
  };
  const auto cases = {
      +[] {
        Draw draw(7);
        return std::move(KernelCase(Unary{.kind = Unary::Kind::kTanh}).Input(draw, {123457}));
      },
      +[] {
        Draw draw(7);
        return std::move(KernelCase(Softmax{.axis = 1}).Input(draw, {3, 301, 77}));
      },
      +[] {
        Draw draw(7);
        return std::move(KernelCase(MatMul{}).Input(draw, {201, 300}).Input(draw, {300, 77}));
      },
      +[] {
        Draw draw(7);
        Resize resize;
        resize.mode = Resize::Mode::kLinear;
        resize.scales = {1, 1, 2.1f, 1.7f};
        return std::move(KernelCase(resize).Input(draw, {1, 8, 50, 70}).Output({1, 8, 105, 119}));
      },
      +[] {
        Draw draw(7);
        const Reduce reduce{.kind = Reduce::Kind::kMean, .axes = {0, 2}};
        return std::move(KernelCase(reduce).Input(draw, {20, 31, 90}).Output({31}));
      },
  };
  for (const auto& make : cases) {
    const std::vector<std::byte> alone = run(1, make);
    EXPECT_EQ(run(2, make), alone);
    EXPECT_EQ(run(3, make), alone);
  }
}

TEST_P(KernelTest, SaysWhyItDeclines) {
  Draw draw(1);
  KernelCase tanh(Unary{.kind = Unary::Kind::kTanh});
  const absl::Status type = tanh.Input(draw, {3}, DataType::kInt64).Make(*GetParam()).status();
  EXPECT_EQ(type.code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(type.message(), "tanh: no kernel for element type INT64");
  KernelCase shift(Binary{Binary::Kind::kShiftLeft});
  shift.Input(draw, {3}, DataType::kInt32).Input(draw, {3}, DataType::kInt32);
  EXPECT_EQ(shift.Make(*GetParam()).status().message(),
            "shift left: no kernel for element type INT32");
}

INSTANTIATE_TEST_SUITE_P(Isa, KernelTest, testing::ValuesIn(AvailableLoops()),
                         [](const auto& info) { return std::string(info.param->isa); });

TEST(LoopsTest, TablesFollowTheOrderOfTheKinds) {
  for (const Loops* loops : AvailableLoops()) {
    for (std::size_t kind = 0; kind < kBinaryKinds; ++kind) {
      const std::string_view name = Name(static_cast<Binary::Kind>(kind));
      EXPECT_EQ(name, loops->binary[kind].name);
      EXPECT_EQ(name, loops->binary_int32[kind].name);
      EXPECT_EQ(name, loops->binary_int64[kind].name);
    }
    for (std::size_t kind = 0; kind < kReduceKinds; ++kind) {
      EXPECT_EQ(Name(static_cast<Reduce::Kind>(kind)), loops->reduce[kind].name);
    }
  }
}

TEST(LoopsTest, ChoosesTheWidestInstructionSet) {
  EXPECT_EQ(&BestLoops(), AvailableLoops().back());
  EXPECT_EQ(KernelIsa(), BestLoops().isa);
}

}  // namespace
}  // namespace sluice::kernels
