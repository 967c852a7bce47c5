#include "engine/cpu/dnnl_kernel.h"

#include "absl/strings/str_format.h"
#include "base/check.h"

namespace sluice {

dnnl::engine& DnnlEngine() {
  static auto* const engine = new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return *engine;
}

dnnl::stream& DnnlStream() {
  static auto* const stream = new dnnl::stream(DnnlEngine());
  return *stream;
}

absl::Status DnnlError(const dnnl::error& error) {
  const std::string text = absl::StrFormat("oneDNN: %s (%d)", error.what(), error.status);
  switch (error.status) {
    case dnnl_unimplemented:
      return absl::UnimplementedError(text);
    case dnnl_out_of_memory:
      return absl::ResourceExhaustedError(text);
    default:
      return absl::InternalError(text);
  }
}

dnnl::primitive_attr Attributes(std::span<const PostOp> post_ops) {
  dnnl::post_ops chain;
  for (const PostOp& op : post_ops) {
    switch (op.kind) {
      case PostOp::Kind::kEltwise:
        chain.append_eltwise(1.0f, op.algorithm, op.alpha, op.beta);
        break;
      case PostOp::Kind::kSum:
        chain.append_sum(1.0f);
        break;
      case PostOp::Kind::kBinary:
        chain.append_binary(op.algorithm, op.operand);
        break;
    }
  }
  dnnl::primitive_attr attributes;
  attributes.set_post_ops(chain);
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

DnnlKernel::DnnlKernel(dnnl::primitive primitive, std::string impl,
                       std::span<const Argument> arguments, Bytes scratch)
    : primitive_(std::move(primitive)), impl_(std::move(impl)), scratch_(scratch) {
  memories_.reserve(arguments.size());
  for (const Argument& argument : arguments) {
    memories_.push_back(dnnl::memory(argument.desc, DnnlEngine(), DNNL_MEMORY_NONE));
    arguments_.push_back({argument.index, memories_.back().get()});
  }
}

absl::Status DnnlKernel::Run(std::span<std::byte* const> addresses) {
  SLUICE_CHECK(addresses.size() == memories_.size());
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    const dnnl_status_t status = dnnl_memory_set_data_handle(arguments_[i].memory, addresses[i]);
    if (status != dnnl_success) {
      return absl::InternalError(
          absl::StrFormat("oneDNN: no handle for argument %d (%d)", arguments_[i].arg, status));
    }
  }
  const dnnl_status_t status = dnnl_primitive_execute(
      primitive_.get(), DnnlStream().get(), static_cast<int>(arguments_.size()), arguments_.data());
  if (status != dnnl_success) {
    return absl::InternalError(absl::StrFormat("oneDNN: %s failed (%d)", impl_, status));
  }
  return absl::OkStatus();
}

}  // namespace sluice
