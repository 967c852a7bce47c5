// engine/cpu/dnnl_kernel.h
//
// A oneDNN primitive with its memory objects, made once; each run only points them at bytes.
// Steps with equal shapes share one.
//
// Threads: the compute team's leader only.

#ifndef SLUICE_ENGINE_CPU_DNNL_KERNEL_H_
#define SLUICE_ENGINE_CPU_DNNL_KERNEL_H_

#include <cstddef>
#include <memory>
#include <oneapi/dnnl/dnnl.hpp>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/bytes.h"

namespace sluice {

// One for the process; both live until it ends.
dnnl::engine& DnnlEngine();
dnnl::stream& DnnlStream();

absl::Status DnnlError(const dnnl::error& error);

// Runs `make`, which calls oneDNN's C++ interface; that reports errors as exceptions.
// Fails: UNIMPLEMENTED, oneDNN has no such primitive; RESOURCE_EXHAUSTED; INTERNAL.
template <typename Make>
auto TryDnnl(Make make) -> absl::StatusOr<std::invoke_result_t<Make>> {
  try {
    return make();
  } catch (const dnnl::error& error) {
    return DnnlError(error);
  }
}

// A step of the tail of a primitive.
struct PostOp {
  enum class Kind { kEltwise, kSum, kBinary };
  Kind kind = Kind::kEltwise;
  dnnl::algorithm algorithm = dnnl::algorithm::undef;
  float alpha = 0, beta = 0;     // Of kEltwise.
  dnnl::memory::desc operand{};  // Of kBinary.
};

// With a scratchpad that the caller supplies.
dnnl::primitive_attr Attributes(std::span<const PostOp> post_ops);

class DnnlKernel {
 public:
  struct Argument {
    int index;  // DNNL_ARG_...
    dnnl::memory::desc desc;
  };

  DnnlKernel(dnnl::primitive primitive, std::string impl, std::span<const Argument> arguments,
             Bytes scratch);
  DnnlKernel(const DnnlKernel&) = delete;
  DnnlKernel& operator=(const DnnlKernel&) = delete;

  const std::string& impl() const { return impl_; }  // Such as "jit:avx512_core".
  Bytes scratch() const { return scratch_; }
  std::size_t argument_count() const { return memories_.size(); }

  // One address for each argument, in their order, then that of the scratchpad (last, there even
  // when its size is zero). Fails: INTERNAL.
  absl::Status Run(std::span<std::byte* const> addresses);

 private:
  dnnl::primitive primitive_;
  std::string impl_;
  std::vector<dnnl::memory> memories_;
  std::vector<dnnl_exec_arg_t> arguments_;
  Bytes scratch_;
};

// Makes the kernel of a primitive descriptor; the scratchpad is added to the arguments.
template <typename Primitive>
absl::StatusOr<std::shared_ptr<DnnlKernel>> MakeDnnlKernel(
    const typename Primitive::primitive_desc& desc, std::vector<DnnlKernel::Argument> arguments) {
  return TryDnnl([&] {
    arguments.push_back({DNNL_ARG_SCRATCHPAD, desc.scratchpad_desc()});
    return std::make_shared<DnnlKernel>(Primitive(desc), desc.impl_info_str(), arguments,
                                        Bytes::Of(desc.scratchpad_desc().get_size()));
  });
}

}  // namespace sluice

#endif  // SLUICE_ENGINE_CPU_DNNL_KERNEL_H_
