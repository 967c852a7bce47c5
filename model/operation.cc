#include "model/operation.h"

#include "base/check.h"

namespace sluice {
namespace {

struct NameOf {
  std::string operator()(const Unary& op) const { return std::string(Name(op.kind)); }
  std::string operator()(const Binary& op) const { return std::string(Name(op.kind)); }
  std::string operator()(const Convolution& op) const {
    return op.transposed ? "transposed convolution" : "convolution";
  }
  std::string operator()(const FullyConnected&) const { return "fully connected"; }
  std::string operator()(const MatMul&) const { return "matmul"; }
  std::string operator()(const Pool& op) const {
    return op.kind == Pool::Kind::kMax ? "max pool" : "average pool";
  }
  std::string operator()(const ChannelAffine&) const { return "channel affine"; }
  std::string operator()(const Softmax& op) const { return op.log ? "log softmax" : "softmax"; }
  std::string operator()(const Concat&) const { return "concat"; }
  std::string operator()(const Transpose&) const { return "transpose"; }
  std::string operator()(const Reshape&) const { return "reshape"; }
  std::string operator()(const Slice&) const { return "slice"; }
  std::string operator()(const Pad&) const { return "pad"; }
  std::string operator()(const Resize&) const { return "resize"; }
  std::string operator()(const Gather&) const { return "gather"; }
  std::string operator()(const Reduce& op) const { return "reduce " + std::string(Name(op.kind)); }
  std::string operator()(const Cast&) const { return "cast"; }
  std::string operator()(const Expand&) const { return "expand"; }
  std::string operator()(const Lrn&) const { return "local response normalisation"; }
};

}  // namespace

std::string_view Name(Unary::Kind kind) {
  switch (kind) {
    case Unary::Kind::kRelu:
      return "relu";
    case Unary::Kind::kLeakyRelu:
      return "leaky relu";
    case Unary::Kind::kClip:
      return "clip";
    case Unary::Kind::kSigmoid:
      return "sigmoid";
    case Unary::Kind::kHardSigmoid:
      return "hard sigmoid";
    case Unary::Kind::kHardSwish:
      return "hard swish";
    case Unary::Kind::kSilu:
      return "silu";
    case Unary::Kind::kMish:
      return "mish";
    case Unary::Kind::kTanh:
      return "tanh";
    case Unary::Kind::kExp:
      return "exp";
    case Unary::Kind::kLog:
      return "log";
    case Unary::Kind::kSqrt:
      return "sqrt";
    case Unary::Kind::kAbs:
      return "abs";
    case Unary::Kind::kNegate:
      return "negate";
    case Unary::Kind::kErf:
      return "erf";
    case Unary::Kind::kSoftplus:
      return "softplus";
    case Unary::Kind::kElu:
      return "elu";
    case Unary::Kind::kReciprocal:
      return "reciprocal";
    case Unary::Kind::kFloor:
      return "floor";
    case Unary::Kind::kCeil:
      return "ceil";
    case Unary::Kind::kLinear:
      return "linear";
  }
  SLUICE_CHECK(false);
  return {};
}

std::string_view Name(Binary::Kind kind) {
  switch (kind) {
    case Binary::Kind::kAdd:
      return "add";
    case Binary::Kind::kSubtract:
      return "subtract";
    case Binary::Kind::kMultiply:
      return "multiply";
    case Binary::Kind::kDivide:
      return "divide";
    case Binary::Kind::kPower:
      return "power";
    case Binary::Kind::kMaximum:
      return "maximum";
    case Binary::Kind::kMinimum:
      return "minimum";
  }
  SLUICE_CHECK(false);
  return {};
}

std::string_view Name(Reduce::Kind kind) {
  switch (kind) {
    case Reduce::Kind::kSum:
      return "sum";
    case Reduce::Kind::kMean:
      return "mean";
    case Reduce::Kind::kMax:
      return "max";
    case Reduce::Kind::kMin:
      return "min";
    case Reduce::Kind::kProduct:
      return "product";
    case Reduce::Kind::kL2:
      return "l2";
  }
  SLUICE_CHECK(false);
  return {};
}

std::string Name(const Operation& operation) { return std::visit(NameOf{}, operation); }

}  // namespace sluice
