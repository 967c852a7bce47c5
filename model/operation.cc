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
  std::string operator()(const Compare& op) const { return std::string(Name(op.kind)); }
  std::string operator()(const Classify&) const { return "classify"; }
  std::string operator()(const Select&) const { return "select"; }
  std::string operator()(const PoolIndices&) const { return "max pool indices"; }
  std::string operator()(const GridSample&) const { return "grid sample"; }
  std::string operator()(const RoiAlign&) const { return "roi align"; }
  std::string operator()(const MaxRoiPool&) const { return "max roi pool"; }
  std::string operator()(const Determinant&) const { return "determinant"; }
  std::string operator()(const GatherElements&) const { return "gather elements"; }
  std::string operator()(const GatherNd&) const { return "gather nd"; }
  std::string operator()(const ScatterElements&) const { return "scatter elements"; }
  std::string operator()(const ScatterNd&) const { return "scatter nd"; }
  std::string operator()(const ReverseSequence&) const { return "reverse sequence"; }
  std::string operator()(const Triangle&) const { return "triangle"; }
  std::string operator()(const OneHot&) const { return "one hot"; }
  std::string operator()(const ArgReduce& op) const {
    return op.kind == ArgReduce::Kind::kMax ? "arg max" : "arg min";
  }
  std::string operator()(const Hardmax&) const { return "hardmax"; }
  std::string operator()(const CumulativeSum&) const { return "cumulative sum"; }
  std::string operator()(const Normalize&) const { return "normalize"; }
  std::string operator()(const TopK& op) const { return op.indices ? "top k indices" : "top k"; }
  std::string operator()(const NonZero&) const { return "non-zero"; }
  std::string operator()(const Compress&) const { return "compress"; }
  std::string operator()(const Unique&) const { return "unique"; }
  std::string operator()(const NonMaxSuppression&) const { return "non-max suppression"; }
  std::string operator()(const Recurrent& op) const {
    switch (op.kind) {
      case Recurrent::Kind::kRnn:
        return "rnn";
      case Recurrent::Kind::kGru:
        return "gru";
      case Recurrent::Kind::kLstm:
        return "lstm";
    }
    return "recurrent";
  }
  std::string operator()(const Quantize&) const { return "quantize"; }
  std::string operator()(const Dequantize&) const { return "dequantize"; }
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
    case Unary::Kind::kSin:
      return "sin";
    case Unary::Kind::kCos:
      return "cos";
    case Unary::Kind::kTan:
      return "tan";
    case Unary::Kind::kAsin:
      return "asin";
    case Unary::Kind::kAcos:
      return "acos";
    case Unary::Kind::kAtan:
      return "atan";
    case Unary::Kind::kSinh:
      return "sinh";
    case Unary::Kind::kCosh:
      return "cosh";
    case Unary::Kind::kAsinh:
      return "asinh";
    case Unary::Kind::kAcosh:
      return "acosh";
    case Unary::Kind::kAtanh:
      return "atanh";
    case Unary::Kind::kRound:
      return "round";
    case Unary::Kind::kSign:
      return "sign";
    case Unary::Kind::kNot:
      return "not";
    case Unary::Kind::kThresholdedRelu:
      return "thresholded relu";
    case Unary::Kind::kShrink:
      return "shrink";
    case Unary::Kind::kGelu:
      return "gelu";
    case Unary::Kind::kGeluTanh:
      return "gelu tanh";
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
    case Binary::Kind::kModulo:
      return "modulo";
    case Binary::Kind::kRemainder:
      return "remainder";
    case Binary::Kind::kAnd:
      return "and";
    case Binary::Kind::kOr:
      return "or";
    case Binary::Kind::kXor:
      return "xor";
    case Binary::Kind::kShiftLeft:
      return "shift left";
    case Binary::Kind::kShiftRight:
      return "shift right";
  }
  SLUICE_CHECK(false);
  return {};
}

std::string_view Name(Compare::Kind kind) {
  switch (kind) {
    case Compare::Kind::kEqual:
      return "equal";
    case Compare::Kind::kLess:
      return "less";
    case Compare::Kind::kLessOrEqual:
      return "less or equal";
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
    case Reduce::Kind::kL1:
      return "l1";
  }
  SLUICE_CHECK(false);
  return {};
}

std::string Name(const Operation& operation) { return std::visit(NameOf{}, operation); }

}  // namespace sluice
