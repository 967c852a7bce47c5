#include "engine/cpu/post_ops.h"

#include <bit>
#include <cmath>

#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

PostOp Eltwise(dnnl::algorithm algorithm, float alpha = 0, float beta = 0) {
  return {.kind = PostOp::Kind::kEltwise, .algorithm = algorithm, .alpha = alpha, .beta = beta};
}

// oneDNN's hard swish has no parameters: x * min(max(x / 6 + 1 / 2, 0), 1).
bool IsCommonHardSwish(const Unary& unary) {
  return std::abs(unary.alpha - 1.0f / 6.0f) < 1e-6f && unary.beta == 0.5f;
}

}  // namespace

std::vector<PostOp> EltwiseChain(const Unary& unary) {
  using Kind = Unary::Kind;
  using Algorithm = dnnl::algorithm;
  switch (unary.kind) {
    case Kind::kRelu:
      return {Eltwise(Algorithm::eltwise_relu)};
    case Kind::kLeakyRelu:
      return {Eltwise(Algorithm::eltwise_relu, unary.alpha)};
    case Kind::kClip:
      return {Eltwise(Algorithm::eltwise_clip, unary.alpha, unary.beta)};
    case Kind::kSigmoid:
      return {Eltwise(Algorithm::eltwise_logistic)};
    case Kind::kHardSigmoid:
      return {Eltwise(Algorithm::eltwise_linear, unary.alpha, unary.beta),
              Eltwise(Algorithm::eltwise_clip, 0, 1)};
    case Kind::kHardSwish:
      if (!IsCommonHardSwish(unary)) return {};
      return {Eltwise(Algorithm::eltwise_hardswish)};
    case Kind::kSilu:
      return {Eltwise(Algorithm::eltwise_swish, 1)};
    case Kind::kMish:
      return {Eltwise(Algorithm::eltwise_mish)};
    case Kind::kTanh:
      return {Eltwise(Algorithm::eltwise_tanh)};
    case Kind::kExp:
      return {Eltwise(Algorithm::eltwise_exp)};
    case Kind::kSqrt:
      return {Eltwise(Algorithm::eltwise_sqrt)};
    case Kind::kAbs:
      return {Eltwise(Algorithm::eltwise_abs)};
    case Kind::kNegate:
      return {Eltwise(Algorithm::eltwise_linear, -1)};
    case Kind::kSoftplus:
      return {Eltwise(Algorithm::eltwise_soft_relu)};
    case Kind::kElu:
      return {Eltwise(Algorithm::eltwise_elu, unary.alpha)};
    case Kind::kLinear:
      return {Eltwise(Algorithm::eltwise_linear, unary.alpha, unary.beta)};
    case Kind::kReciprocal:
      return {Eltwise(Algorithm::eltwise_pow, 1, -1)};
    case Kind::kRound:
      return {Eltwise(Algorithm::eltwise_round)};
    case Kind::kGelu:
      return {Eltwise(Algorithm::eltwise_gelu_erf)};
    case Kind::kGeluTanh:
      return {Eltwise(Algorithm::eltwise_gelu_tanh)};
    default:  // Or none that is as exact as ours: its logarithm of 1 is not 0.
      return {};
  }
}

bool PreservesZero(const Unary& unary) {
  using Kind = Unary::Kind;
  switch (unary.kind) {
    case Kind::kClip:
      return unary.alpha <= 0 && unary.beta >= 0;
    case Kind::kHardSigmoid:
      return unary.beta <= 0;
    case Kind::kLinear:
      return unary.beta == 0;
    case Kind::kSigmoid:
    case Kind::kExp:
    case Kind::kLog:
    case Kind::kSoftplus:
    case Kind::kReciprocal:
    case Kind::kCos:
    case Kind::kAcos:
    case Kind::kCosh:
    case Kind::kNot:
      return false;
    case Kind::kShrink:
      return unary.alpha >= 0;
    default:
      return true;
  }
}

std::optional<dnnl::algorithm> BinaryAlgorithm(Binary::Kind kind) {
  switch (kind) {
    case Binary::Kind::kAdd:
      return dnnl::algorithm::binary_add;
    case Binary::Kind::kSubtract:
      return dnnl::algorithm::binary_sub;
    case Binary::Kind::kMultiply:
      return dnnl::algorithm::binary_mul;
    case Binary::Kind::kDivide:
      return dnnl::algorithm::binary_div;
    case Binary::Kind::kMaximum:
      return dnnl::algorithm::binary_max;
    case Binary::Kind::kMinimum:
      return dnnl::algorithm::binary_min;
    default:
      return std::nullopt;
  }
}

std::optional<std::vector<PostOp>> PostOpsOf(std::span<const Epilogue> epilogues,
                                             const dnnl::memory::desc& result, bool sum) {
  std::vector<PostOp> ops;
  for (std::size_t e = 0; e < epilogues.size(); ++e) {
    if (epilogues[e].kind == Epilogue::Kind::kAdd) {
      if (e == 0 && sum) {
        ops.push_back({.kind = PostOp::Kind::kSum});
      } else {
        ops.push_back({.kind = PostOp::Kind::kBinary,
                       .algorithm = dnnl::algorithm::binary_add,
                       .operand = result});
      }
      continue;
    }
    const std::vector<PostOp> chain = EltwiseChain(epilogues[e].unary);
    if (chain.empty()) return std::nullopt;
    ops.insert(ops.end(), chain.begin(), chain.end());
  }
  return ops;
}

std::vector<DnnlKernel::Argument> PostOpArguments(std::span<const PostOp> post_ops) {
  std::vector<DnnlKernel::Argument> arguments;
  for (std::size_t i = 0; i < post_ops.size(); ++i) {
    if (post_ops[i].kind != PostOp::Kind::kBinary) continue;
    const int index = DNNL_ARG_ATTR_MULTIPLE_POST_OP(static_cast<int>(i)) | DNNL_ARG_SRC_1;
    arguments.push_back({index, post_ops[i].operand});
  }
  return arguments;
}

std::string KeyOf(const dnnl::memory::desc& desc) {
  const dnnl_memory_desc_t& data = desc.data;
  std::string key;
  for (int d = 0; d < data.ndims; ++d) absl::StrAppend(&key, data.dims[d], ",");
  if (data.format_kind != dnnl_blocked) return key + "any";
  const dnnl_blocking_desc_t& blocking = data.format_desc.blocking;
  for (int d = 0; d < data.ndims; ++d) absl::StrAppend(&key, "/", blocking.strides[d]);
  for (int b = 0; b < blocking.inner_nblks; ++b) {
    absl::StrAppend(&key, "b", blocking.inner_blks[b], "@", blocking.inner_idxs[b]);
  }
  return key;
}

std::string KeyOf(std::span<const PostOp> post_ops) {
  std::string key;
  for (const PostOp& op : post_ops) {
    absl::StrAppend(&key, " +", static_cast<int>(op.kind), ":", static_cast<int>(op.algorithm), ":",
                    std::bit_cast<std::uint32_t>(op.alpha), ":",
                    std::bit_cast<std::uint32_t>(op.beta));
    if (op.kind == PostOp::Kind::kBinary) absl::StrAppend(&key, ":", KeyOf(op.operand));
  }
  return key;
}

bool IsFast(std::string_view impl) { return impl.substr(0, 3) != "ref"; }

}  // namespace sluice
