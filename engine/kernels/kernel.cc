#include "engine/kernels/kernel.h"

#include <cctype>
#include <concepts>
#include <variant>

#include "absl/strings/str_format.h"
#include "engine/kernels/makers.h"

namespace sluice {
namespace kernels {
namespace {

// Whether there is a maker of its own.
template <typename Op>
concept HasKernels = requires(const Op& operation, const Problem& problem) {
  { Make(operation, problem) } -> std::same_as<absl::StatusOr<Kernel>>;
};

}  // namespace

std::string Problem::KernelName(std::string_view variant) const {
  std::string type(ProtocolName(output().type));
  for (char& c : type) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  std::string name = Name(node.operation);
  if (!variant.empty()) name += " " + std::string(variant);
  return name + " " + type + " " + loops.isa;
}

absl::Status WantType(const Problem& problem, DataType type) {
  if (problem.output().type == type) return absl::OkStatus();
  return absl::UnimplementedError(
      absl::StrFormat("%s: got element type %s, want %s", Name(problem.node.operation),
                      ProtocolName(problem.output().type), ProtocolName(type)));
}

std::size_t Product(std::span<const std::int64_t> shape, std::size_t begin, std::size_t end) {
  return static_cast<std::size_t>(ElementCount(shape.subspan(begin, end - begin)));
}

absl::StatusOr<Kernel> MakeKernelWith(const Loops& loops, const Graph& graph, const Node& node) {
  const Problem problem{graph, node, loops};
  return std::visit(
      [&]<typename Op>(const Op& operation) -> absl::StatusOr<Kernel> {
        if constexpr (HasKernels<Op>) {
          return Make(operation, problem);
        } else {
          return absl::UnimplementedError(
              absl::StrFormat("%s: no row-major kernel", Name(node.operation)));
        }
      },
      node.operation);
}

}  // namespace kernels

absl::StatusOr<Kernel> MakeKernel(const Graph& graph, const Node& node) {
  return kernels::MakeKernelWith(kernels::BestLoops(), graph, node);
}

std::string_view KernelIsa() { return kernels::BestLoops().isa; }

}  // namespace sluice
