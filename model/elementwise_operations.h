// model/elementwise_operations.h
//
// Operations that compute each element from the elements at its place.
//
// See model/operation.h for what all of these share.

#ifndef SLUICE_MODEL_ELEMENTWISE_OPERATIONS_H_
#define SLUICE_MODEL_ELEMENTWISE_OPERATIONS_H_

#include <cstdint>
#include <string_view>
#include <vector>

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
    kSin,
    kCos,
    kTan,
    kAsin,
    kAcos,
    kAtan,
    kSinh,
    kCosh,
    kAsinh,
    kAcosh,
    kAtanh,
    kRound,            // To the nearest integer, halves to the even one.
    kSign,             // -1, 0 or 1.
    kNot,              // Of booleans; every bit of integers.
    kThresholdedRelu,  // x > alpha ? x : 0
    kShrink,           // x < -alpha ? x + beta : x > alpha ? x - beta : 0
    kGelu,             // x / 2 * (1 + erf(x / sqrt(2)))
    kGeluTanh,         // x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)))
  };
  Kind kind = Kind::kRelu;
  float alpha = 0;
  float beta = 0;
  friend bool operator==(const Unary&, const Unary&) = default;
};
std::string_view Name(Unary::Kind kind);

// y = f(a, b) for each element, with the broadcasting of numpy. Inputs: a, b, of the output's type,
// except that the exponent of kPower may have any numeric type.
struct Binary {
  enum class Kind : std::uint8_t {
    kAdd,
    kSubtract,
    kMultiply,
    kDivide,
    kPower,
    kMaximum,
    kMinimum,
    kModulo,     // a - floor(a / b) * b: the sign of b.
    kRemainder,  // a - trunc(a / b) * b: the sign of a.
    kAnd,        // Of booleans; bit by bit of integers, as the next two.
    kOr,
    kXor,
    kShiftLeft,  // Of unsigned integers; 0 when b is as wide as the type, as the next.
    kShiftRight,
  };
  Kind kind = Kind::kAdd;
};
std::string_view Name(Binary::Kind kind);

// y = a ? b for each element, with broadcasting; y is kBool. Inputs: a, b, of one type.
struct Compare {
  enum class Kind : std::uint8_t { kEqual, kLess, kLessOrEqual };
  Kind kind = Kind::kEqual;
};
std::string_view Name(Compare::Kind kind);

// Whether x is of a class of floating point numbers, for each element; y is kBool.
struct Classify {
  bool nan = false, positive_infinity = false, negative_infinity = false;
};

// y = condition ? a : b for each element, with broadcasting. Inputs: condition (kBool), a, b.
struct Select {};

// Converts to the output's type.
struct Cast {};

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

// y = x * scale + shift for each channel (dimension 1): a batch normalisation that met no
// convolution to fold into. Inputs: x, c: scale [C], c: shift [C].
struct ChannelAffine {
  std::vector<Epilogue> epilogues;
};

}  // namespace sluice

#endif  // SLUICE_MODEL_ELEMENTWISE_OPERATIONS_H_
