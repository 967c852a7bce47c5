// model/operation.h
//
// What a node computes, independent of the file format that it came from and of the backend that
// will run it. Importers translate every version of every foreign operator into one of these, so
// that backends meet one meaning only. Shapes are known: an operation holds no symbolic dimension.
//
// Unless said otherwise the data input and the output have the same type, spatial attributes have
// one entry for each spatial dimension (tensors are [N, C, spatial...]), and inputs are listed in
// order; "c:" marks one that must be a constant.

#ifndef SLUICE_MODEL_OPERATION_H_
#define SLUICE_MODEL_OPERATION_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "model/data_type.h"

namespace sluice {

// y = f(x) for each element. alpha and beta as the kind says.
struct Unary {
  enum class Kind : std::uint8_t {
    kRelu,         // max(x, 0)
    kLeakyRelu,    // x < 0 ? alpha * x : x
    kClip,         // min(max(x, alpha), beta)
    kSigmoid,      // 1 / (1 + exp(-x))
    kHardSigmoid,  // min(max(alpha * x + beta, 0), 1)
    kHardSwish,    // x * min(max(alpha * x + beta, 0), 1)
    kSilu,         // x / (1 + exp(-x))
    kMish,         // x * tanh(log(1 + exp(x)))
    kTanh,
    kExp,
    kLog,
    kSqrt,
    kAbs,
    kNegate,
    kErf,
    kSoftplus,  // log(1 + exp(x))
    kElu,       // x < 0 ? alpha * (exp(x) - 1) : x
    kReciprocal,
    kFloor,
    kCeil,
    kLinear,  // alpha * x + beta
  };
  Kind kind = Kind::kRelu;
  float alpha = 0;
  float beta = 0;
  friend bool operator==(const Unary&, const Unary&) = default;
};
std::string_view Name(Unary::Kind kind);

// y = f(a, b) for each element, with the broadcasting of numpy. Inputs: a, b.
struct Binary {
  enum class Kind : std::uint8_t {
    kAdd,
    kSubtract,
    kMultiply,
    kDivide,
    kPower,
    kMaximum,
    kMinimum
  };
  Kind kind = Kind::kAdd;
};
std::string_view Name(Binary::Kind kind);

// A step of the tail that is applied to each element of a convolution's or matrix product's result
// while it is still in registers, in order.
struct Epilogue {
  enum class Kind : std::uint8_t {
    kUnary,  // `unary`
    kAdd,    // Adds the node's input number `input`, which has the output's shape.
  };
  Kind kind = Kind::kUnary;
  Unary unary;
  std::uint32_t input = 0;
};

// Inputs: x [N, C, spatial...], c: weights, c: bias [M] (may be absent), c: weight scale [M] (may
// be absent: what batch normalisation left, to be multiplied into the weights of output channel m
// while packing), then whatever epilogues name.
// Weights are [M, C / groups, kernel...]; of a transposed convolution [C, M / groups, kernel...].
struct Convolution {
  std::vector<std::int64_t> kernel, strides, dilations;
  std::vector<std::int64_t> pads_begin, pads_end;
  std::int64_t groups = 1;
  bool transposed = false;  // pads_end is chosen so that the output shape follows from it.
  std::vector<Epilogue> epilogues;
};

// Inputs: a [..., K] (leading dimensions are rows), c: b, c: bias [N] (may be absent), c: weight
// scale [N] (may be absent), then whatever epilogues name. b is [K, N], or [N, K] when
// transposed_b. The output is a's leading dimensions and N. Bias and scale already contain alpha
// and beta.
struct FullyConnected {
  bool transposed_b = false;
  std::vector<Epilogue> epilogues;
};

// Inputs: a [..., M, K], b [..., K, N], batch dimensions broadcast. 1-D operands were reshaped by
// the importer.
struct MatMul {
  bool transposed_a = false;
  bool transposed_b = false;
  float alpha = 1;
};

// Windows over the spatial dimensions. A global pool has a kernel as large as its input.
struct Pool {
  enum class Kind : std::uint8_t { kMax, kAverage };
  Kind kind = Kind::kMax;
  std::vector<std::int64_t> kernel, strides, dilations;
  std::vector<std::int64_t> pads_begin, pads_end;  // pads_end includes what ceil_mode adds.
  bool count_include_pad = false;
};

// y = x * scale + shift for each channel (dimension 1): a batch normalisation that met no
// convolution to fold into. Inputs: x, c: scale [C], c: shift [C].
struct ChannelAffine {
  std::vector<Epilogue> epilogues;
};

struct Softmax {
  std::int64_t axis = -1;  // In [0, rank) after import; over this dimension alone.
  bool log = false;
};

// Inputs: the parts, all of one type.
struct Concat {
  std::int64_t axis = 0;  // In [0, rank).
};

// Output dimension i is input dimension perm[i].
struct Transpose {
  std::vector<std::int64_t> perm;
};

// The same elements in the same row-major order with the output's shape: Reshape, Flatten, Squeeze,
// Unsqueeze, Identity, Dropout.
struct Reshape {};

// Output index i of dimension d reads starts[d] + i * steps[d]; one entry for each dimension, all
// in range for the output's shape. steps may be negative.
struct Slice {
  std::vector<std::int64_t> starts, steps;
};

// Adds `value` (or what the mode says) around x; one entry for each dimension, none negative.
struct Pad {
  enum class Mode : std::uint8_t { kConstant, kReflect, kEdge };
  Mode mode = Mode::kConstant;
  std::vector<std::int64_t> begin, end;
  float value = 0;
};

// Input: x [N, C, spatial...]; the output's shape gives the sizes. Input coordinates come from
// output ones by `coordinates`, with scale[d] = output / input size as the file stated it.
struct Resize {
  enum class Mode : std::uint8_t { kNearest, kLinear, kCubic };
  enum class Coordinates : std::uint8_t {
    kHalfPixel,
    kPytorchHalfPixel,
    kAlignCorners,
    kAsymmetric
  };
  enum class Rounding : std::uint8_t { kRoundPreferFloor, kRoundPreferCeil, kFloor, kCeil };
  Mode mode = Mode::kNearest;
  Coordinates coordinates = Coordinates::kHalfPixel;
  Rounding rounding = Rounding::kRoundPreferFloor;
  float cubic_coefficient = -0.75f;
  std::vector<float> scales;  // For every dimension of x, N and C included.
};

// Inputs: x, indices (kInt32 or kInt64, negative ones count from the end).
struct Gather {
  std::int64_t axis = 0;
};

struct Reduce {
  enum class Kind : std::uint8_t { kSum, kMean, kMax, kMin, kProduct, kL2 };
  Kind kind = Kind::kMean;
  std::vector<std::int64_t> axes;  // In [0, rank), ascending. The output's shape says keepdims.
};
std::string_view Name(Reduce::Kind kind);

// Converts to the output's type.
struct Cast {};

// Repeats dimensions of size 1 to the output's shape.
struct Expand {};

// Local response normalisation across channels.
struct Lrn {
  std::int64_t size = 1;
  float alpha = 1e-4f, beta = 0.75f, bias = 1;
};

using Operation =
    std::variant<Unary, Binary, Convolution, FullyConnected, MatMul, Pool, ChannelAffine, Softmax,
                 Concat, Transpose, Reshape, Slice, Pad, Resize, Gather, Reduce, Cast, Expand, Lrn>;

// "convolution", "relu", "add", "max pool": for logs, errors and metrics.
std::string Name(const Operation& operation);

}  // namespace sluice

#endif  // SLUICE_MODEL_OPERATION_H_
