// Every functor of one element, at every instruction set of this machine, against its definition in
// double precision. The tolerance is the table's.

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "engine/kernels/kernel_case.h"
#include "engine/reference/definitions.h"

namespace sluice::kernels {
namespace {

struct Param {
  const Loops* loops;
  std::size_t kind;
};

std::vector<Param> AllEntries() {
  std::vector<Param> entries;
  for (const Loops* loops : AvailableLoops()) {
    for (std::size_t kind = 0; kind < kUnaryKinds; ++kind) {
      if (loops->unary[kind].loop != nullptr) entries.push_back({loops, kind});
    }
  }
  return entries;
}

std::string NameOfEntry(const testing::TestParamInfo<Param>& info) {
  std::string name = info.param.loops->unary[info.param.kind].name;
  name = name + "_" + info.param.loops->isa;
  std::ranges::replace_if(
      name, [](unsigned char c) { return !std::isalnum(c); }, '_');
  return name;
}

Unary OperationOf(std::size_t kind) {
  Unary unary{.kind = static_cast<Unary::Kind>(kind), .alpha = 0.2f, .beta = 0.5f};
  if (unary.kind == Unary::Kind::kClip) unary.alpha = -1.5f, unary.beta = 6.0f;
  if (unary.kind == Unary::Kind::kHardSwish) unary.alpha = 1.0f / 6;
  if (unary.kind == Unary::Kind::kElu) unary.alpha = 1.25f;
  if (unary.kind == Unary::Kind::kLinear) unary.alpha = 1.7f, unary.beta = -0.3f;
  return unary;
}

// All magnitudes, denser where functions bend, and what floats have beside numbers.
std::vector<float> Inputs() {
  using Limits = std::numeric_limits<float>;
  std::vector<float> inputs = {0.0f,
                               -0.0f,
                               1.0f,
                               -1.0f,
                               Limits::max(),
                               -Limits::max(),
                               Limits::min(),
                               -Limits::min(),
                               Limits::denorm_min(),
                               -Limits::denorm_min(),
                               Limits::infinity(),
                               -Limits::infinity(),
                               Limits::quiet_NaN(),
                               0.99999994f,
                               88.72283f,
                               88.72284f,
                               -87.33654f,
                               -87.33655f,
                               -103.97207f,
                               -103.9721f};
  Draw draw(1);
  for (int i = 0; i < 40000; ++i) inputs.push_back(draw.Float(-10, 10));
  for (int i = 0; i < 20000; ++i) inputs.push_back(draw.Float(-120, 100));
  for (int i = 0; i < 20000; ++i) inputs.push_back(draw.Float(-1.1f, 1.1f));
  for (int i = 0; i < 20000; ++i) {
    inputs.push_back(std::ldexp(draw.Float(1, 2), static_cast<int>(draw.Between(-148, 126))) *
                     (draw.Coin() ? 1.0f : -1.0f));
  }
  return inputs;
}

class UnaryLoopTest : public testing::TestWithParam<Param> {};

TEST_P(UnaryLoopTest, StaysWithinItsTolerance) {
  const UnaryEntry& entry = GetParam().loops->unary[GetParam().kind];
  const Unary unary = OperationOf(GetParam().kind);
  ASSERT_EQ(Name(unary.kind), entry.name);
  const std::vector<float> x = Inputs();
  std::vector<float> y(x.size());
  entry.loop(x.data(), y.data(), x.size(), unary.alpha, unary.beta);
  double worst = 0;
  int shown = 0;
  for (std::size_t i = 0; i < x.size() && shown < 5; ++i) {
    const auto want = static_cast<float>(reference::Apply(unary, x[i]));
    const double ulp = UlpDistance(y[i], want);
    if (std::fabs(double{y[i]} - double{want}) <= double{entry.max_absolute}) continue;
    worst = std::max(worst, ulp);
    if (ulp <= double{entry.max_ulp}) continue;
    ++shown;
    ADD_FAILURE() << "f(" << x[i] << ") = " << y[i] << ", want " << want << ": " << ulp << " ulp";
  }
  RecordProperty("worst_ulp", std::to_string(worst));
}

TEST_P(UnaryLoopTest, GivesTheSameBitsAtEveryLengthPlaceAndInPlace) {
  const UnaryEntry& entry = GetParam().loops->unary[GetParam().kind];
  const Unary unary = OperationOf(GetParam().kind);
  Draw draw(2);
  for (const std::size_t n :
       {0u, 1u, 2u, 3u, 7u, 8u, 9u, 15u, 16u, 17u, 31u, 33u, 63u, 65u, 257u}) {
    std::vector<float> x(n + 1), whole(n + 1), y(n + 1, -7.0f);
    for (float& element : x) element = draw.Float(-20, 20);
    entry.loop(x.data() + 1, y.data(), n, unary.alpha, unary.beta);
    EXPECT_EQ(y[n], -7.0f) << "wrote beyond " << n;
    for (std::size_t i = 0; i < n; ++i) {
      entry.loop(&x[i + 1], &whole[i], 1, unary.alpha, unary.beta);
      EXPECT_EQ(UlpDistance(y[i], whole[i]), 0) << "element " << i << " of " << n;
    }
    entry.loop(x.data() + 1, x.data() + 1, n, unary.alpha, unary.beta);
    for (std::size_t i = 0; i < n; ++i) EXPECT_EQ(UlpDistance(x[i + 1], y[i]), 0) << "in place";
  }
}

INSTANTIATE_TEST_SUITE_P(All, UnaryLoopTest, testing::ValuesIn(AllEntries()), NameOfEntry);

}  // namespace
}  // namespace sluice::kernels
