// Convolutions and matrix products of bytes give the same bits in tiles as row by row.

#include "engine/kernels/byte_tiles.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "engine/kernels/kernel_case.h"

namespace sluice::kernels {
namespace {

DataType AnyByteType(Draw& draw) { return draw.Coin() ? DataType::kInt8 : DataType::kUint8; }

// A random convolution of bytes, with weights that tiles take.
KernelCase AnyConvolution(Draw& draw) {
  const std::int64_t spatial = draw.Between(1, 2);
  Convolution op;
  const bool depthwise = draw.Below(3) == 0;
  const std::int64_t sources = depthwise ? 1 : draw.Between(1, 40);
  const std::int64_t results = depthwise ? draw.Between(1, 2) : draw.Between(1, 20);
  op.groups = depthwise ? draw.Between(1, 12) : draw.Between(1, 2);
  Shape x = {draw.Between(1, 2), op.groups * sources}, y = {x[0], op.groups * results};
  Shape weights = {y[1], sources};
  const bool pointwise = draw.Below(3) == 0;
  for (std::int64_t d = 0; d < spatial; ++d) {
    op.kernel.push_back(pointwise ? 1 : draw.Between(1, 5));
    op.strides.push_back(pointwise ? 1 : draw.Between(1, 3));
    op.dilations.push_back(draw.Between(1, 2));
    op.pads_begin.push_back(pointwise ? 0 : draw.Below(4));
    op.pads_end.push_back(pointwise ? 0 : draw.Below(4));
    const std::int64_t reach = (op.kernel.back() - 1) * op.dilations.back() + 1;
    const std::int64_t pads = op.pads_begin.back() + op.pads_end.back();
    x.push_back(std::max<std::int64_t>(1, reach - pads) + draw.Below(spatial == 1 ? 300 : 30));
    y.push_back((x.back() + pads - reach) / op.strides.back() + 1);
    weights.push_back(op.kernel.back());
  }
  if (draw.Coin()) op.epilogues.push_back({.unary = {Unary::Kind::kClip, -40.0f, 60.0f}});
  const bool integers = op.epilogues.empty() && draw.Below(4) == 0;
  const DataType type = AnyByteType(draw), out = AnyByteType(draw);
  KernelCase node(op);
  node.Input(draw, x, type, -128, 255).Input(draw, weights, DataType::kInt8, -128, 127).Constant();
  if (draw.Coin()) {
    node.Input(draw, {y[1]}, DataType::kInt32, -9000, 9000).Constant();
  } else {
    node.Absent();
  }
  if (integers) return std::move(node.Output(y, DataType::kInt32));
  node.Input(draw, {y[1]}, DataType::kFloat32, 0.0001f, 0.02f).Constant();
  node.Input(draw, {1}, type, 0, 100).Absent();
  if (draw.Below(4) == 0) return std::move(node.Output(y, DataType::kFloat32));
  return std::move(node.Input(draw, {1}, out, 0, 100).Output(y, out));
}

// A random product of stacks of matrices of bytes, with operands that tiles take.
KernelCase AnyProduct(Draw& draw) {
  const std::int64_t m = draw.Between(1, 140), n = draw.Between(1, 140), k = draw.Between(1, 70);
  MatMul product{.transposed_b = draw.Coin()};
  product.transposed_a = product.transposed_b && draw.Coin();
  Shape a, b;
  for (std::int64_t d = draw.Below(3); d > 0; --d) {
    const std::int64_t size = draw.Between(1, 3);
    a.push_back(draw.Below(3) == 0 ? 1 : size);
    b.push_back(a.back() == 1 || draw.Coin() ? size : 1);
  }
  a.insert(a.end(), {product.transposed_a ? k : m, product.transposed_a ? m : k});
  b.insert(b.end(), {product.transposed_b ? n : k, product.transposed_b ? k : n});
  const DataType left = AnyByteType(draw), right = AnyByteType(draw);
  KernelCase node(product);
  node.Input(draw, a, left, -128, 255).Input(draw, b, right, -128, 255);
  const bool rows = draw.Coin();
  if (draw.Coin()) {
    node.Input(draw, {rows ? m : 1}, left, 0, 100);
  } else {
    node.Absent();
  }
  const bool columns = draw.Coin();
  if (draw.Coin()) node.Input(draw, {columns ? n : 1}, right, 0, 100);
  Shape y;
  for (std::size_t d = 0; d + 2 < a.size(); ++d) y.push_back(std::max(a[d], b[d]));
  y.insert(y.end(), {m, n});
  return std::move(node.Output(y, DataType::kInt32));
}

void CheckTiles(KernelCase (*any)(Draw&)) {
  const Loops* loops = LoopsFor(Isa::kAvx512);
  if (loops == nullptr || ByteTilesFor(*loops) == nullptr) {
    GTEST_SKIP() << "this machine has no instructions for tiles of bytes";
  }
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    Draw draw(seed), same(seed);
    KernelCase tiled = any(draw), rows = any(same);
    SCOPED_TRACE(testing::Message() << "replay with seed " << seed << ": " << tiled.Describe());
    const absl::StatusOr<Kernel> kernel = tiled.Make(*loops);
    ASSERT_TRUE(kernel.ok()) << kernel.status();
    ASSERT_NE(kernel->name.find("tiles"), std::string::npos) << kernel->name;
    ASSERT_EQ(tiled.Run(*loops), rows.Run(*LoopsFor(Isa::kGeneric)));
  }
}

TEST(ByteTilesTest, ConvolutionsGiveTheBitsOfRows) { CheckTiles(&AnyConvolution); }
TEST(ByteTilesTest, ProductsGiveTheBitsOfRows) { CheckTiles(&AnyProduct); }

}  // namespace
}  // namespace sluice::kernels
