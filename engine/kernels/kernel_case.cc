#include "engine/kernels/kernel_case.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "engine/kernels/makers.h"
#include "engine/reference/definitions.h"
#include "engine/reference/element.h"
#include "model/shape_rule.h"

namespace sluice::kernels {
namespace {

constexpr std::size_t kAlignment = 64, kGuard = 64;
constexpr std::byte kGuardByte{0xa5};

std::int64_t Ordered(float x) {
  const auto bits = std::bit_cast<std::int32_t>(x);
  return bits < 0 ? std::int64_t{std::numeric_limits<std::int32_t>::min()} - bits : bits;
}

template <typename T>
std::vector<std::byte> BytesOf(const std::vector<T>& contents) {
  std::vector<std::byte> bytes(contents.size() * sizeof(T));
  if (!bytes.empty()) std::memcpy(bytes.data(), contents.data(), bytes.size());
  return bytes;
}

}  // namespace

GuardedTensor::GuardedTensor(std::size_t size, std::size_t misaligned)
    : storage_(size + misaligned + 2 * kGuard + kAlignment, kGuardByte), size_(size) {
  const auto address = reinterpret_cast<std::uintptr_t>(storage_.data()) + kGuard;
  begin_ = kGuard + (kAlignment - address % kAlignment) % kAlignment + misaligned;
}

bool GuardedTensor::intact() const {
  for (std::size_t i = 0; i < storage_.size(); ++i) {
    const bool inside = i >= begin_ && i < begin_ + size_;
    if (!inside && storage_[i] != kGuardByte) return false;
  }
  return true;
}

PreparedCase::PreparedCase(Kernel kernel, std::vector<GuardedTensor> inputs,
                           std::vector<bool> present, GuardedTensor output,
                           std::optional<std::size_t> in_place)
    : kernel_(std::move(kernel)),
      inputs_(std::move(inputs)),
      output_(std::move(output)),
      scratch_(kernel_.scratch.count(), 0),
      in_place_(in_place) {
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    addresses_.push_back(present[i] ? inputs_[i].data() : nullptr);
  }
}

void PreparedCase::Run() {
  kernel_.run(addresses_, in_place_ ? inputs_[*in_place_].data() : output_.data(), scratch_.data());
}

absl::Status PreparedCase::CheckGuards() const {
  for (const GuardedTensor& input : inputs_) {
    if (!input.intact()) return absl::InternalError(kernel_.name + ": wrote around an input");
  }
  if (output_.intact() && scratch_.intact()) return absl::OkStatus();
  return absl::InternalError(kernel_.name + ": wrote outside its output or scratch");
}

std::vector<std::byte> PreparedCase::result() {
  GuardedTensor& output = in_place_ ? inputs_[*in_place_] : output_;
  return {output.data(), output.data() + output.size()};
}

std::size_t PreparedCase::bytes() const {
  std::size_t bytes = output_.size();
  for (const GuardedTensor& input : inputs_) bytes += input.size();
  return bytes;
}

Shape Draw::AnyShape(std::int64_t rank, std::int64_t largest) {
  Shape shape;
  for (std::int64_t d = 0; d < rank; ++d) {
    const std::int64_t kind = Below(12);
    shape.push_back(kind == 0 ? Below(2) : kind == 1 ? 15 + Below(3) : Between(1, largest));
  }
  return shape;
}

double UlpDistance(float a, float b) {
  if (std::isnan(a) && std::isnan(b)) return 0;
  if (std::isnan(a) || std::isnan(b)) return HUGE_VAL;
  return std::fabs(static_cast<double>(Ordered(a) - Ordered(b)));
}

std::vector<const Loops*> AvailableLoops() {
  std::vector<const Loops*> available;
  for (const Isa isa : {Isa::kGeneric, Isa::kAvx2, Isa::kAvx512}) {
    if (const Loops* loops = LoopsFor(isa)) available.push_back(loops);
  }
  return available;
}

KernelCase& KernelCase::Add(DataType type, Shape shape, std::vector<std::byte> contents) {
  SLUICE_CHECK(contents.size() == TensorBytes(type, shape).count());
  Value value;
  value.name = absl::StrFormat("input %d", contents_.size());
  value.type = type;
  value.shape = std::move(shape);
  node_.inputs.push_back(graph_.Add(std::move(value)));
  contents_.push_back(std::move(contents));
  return *this;
}

KernelCase& KernelCase::Input(Draw& draw, Shape shape, DataType type, float low, float high) {
  const std::size_t count = static_cast<std::size_t>(ElementCount(shape));
  std::vector<std::byte> contents(TensorBytes(type, shape).count());
  reference::WithElementType(type, [&]<typename T>() {
    for (std::size_t i = 0; i < count; ++i) {
      const T element = reference::Convert<T>(draw.Float(low, high));
      std::memcpy(contents.data() + i * sizeof(T), &element, sizeof(T));
    }
  });
  return Add(type, std::move(shape), std::move(contents));
}

KernelCase& KernelCase::Floats(Shape shape, const std::vector<float>& contents) {
  return Add(DataType::kFloat32, std::move(shape), BytesOf(contents));
}

KernelCase& KernelCase::Doubles(Shape shape, const std::vector<double>& contents) {
  return Add(DataType::kFloat64, std::move(shape), BytesOf(contents));
}

KernelCase& KernelCase::Integers(Shape shape, const std::vector<std::int64_t>& contents) {
  return Add(DataType::kInt64, std::move(shape), BytesOf(contents));
}

KernelCase& KernelCase::Absent() {
  node_.inputs.push_back(std::nullopt);
  contents_.emplace_back();
  return *this;
}

KernelCase& KernelCase::Constant() {
  graph_.value(*node_.inputs.back()).constant = InlineConstant(contents_.back());
  return *this;
}

KernelCase& KernelCase::Output(Shape shape, std::optional<DataType> type) {
  shape_ = std::move(shape);
  type_ = type;
  return *this;
}

absl::Status KernelCase::Finish() {
  std::vector<const Value*> inputs;
  for (const std::optional<ValueId>& input : node_.inputs) {
    inputs.push_back(input.has_value() ? &graph_.value(*input) : nullptr);
  }
  Value output;
  output.name = "output";
  output.type = type_.value_or(inputs[0]->type);
  SLUICE_ASSIGN_OR_RETURN(const std::optional<Shape> follows, OutputShape(node_.operation, inputs));
  output.shape = shape_.has_value() ? *shape_ : follows.value_or(inputs[0]->shape);
  node_.output = graph_.Add(std::move(output));
  SLUICE_RETURN_IF_ERROR(CheckShapes(graph_, node_));
  return absl::OkStatus();
}

absl::StatusOr<Kernel> KernelCase::Make(const Loops& loops) {
  SLUICE_RETURN_IF_ERROR(Finish());
  return MakeKernelWith(loops, graph_, node_);
}

absl::StatusOr<PreparedCase> KernelCase::Prepare(const Loops& loops, RunOptions options) {
  SLUICE_ASSIGN_OR_RETURN(Kernel kernel, Make(loops));
  if (options.in_place.has_value() &&
      !(*options.in_place == 0 ? kernel.in_place_0 : kernel.in_place_1)) {
    return absl::InternalError(
        absl::StrFormat("%s is not in place of input %d", kernel.name, *options.in_place));
  }
  std::vector<GuardedTensor> tensors;
  std::vector<bool> present;
  for (std::size_t i = 0; i < contents_.size(); ++i) {
    present.push_back(node_.inputs[i].has_value());
    const std::size_t element =
        present[i] ? SizeOf(graph_.value(*node_.inputs[i]).type).count() : 0;
    tensors.emplace_back(contents_[i].size(), options.misalignment * element);
    if (!contents_[i].empty()) {
      std::memcpy(tensors.back().data(), contents_[i].data(), contents_[i].size());
    }
  }
  const Value& result = graph_.value(node_.output);
  GuardedTensor output(TensorBytes(result.type, result.shape).count(),
                       options.misalignment * SizeOf(result.type).count());
  return PreparedCase(std::move(kernel), std::move(tensors), std::move(present), std::move(output),
                      options.in_place);
}

absl::StatusOr<std::vector<std::byte>> KernelCase::RunChecked(const Loops& loops,
                                                              RunOptions options) {
  SLUICE_ASSIGN_OR_RETURN(PreparedCase prepared, Prepare(loops, options));
  prepared.Run();
  SLUICE_RETURN_IF_ERROR(prepared.CheckGuards());
  return prepared.result();
}

std::vector<std::byte> KernelCase::Run(const Loops& loops, RunOptions options) {
  absl::StatusOr<std::vector<std::byte>> result = RunChecked(loops, options);
  SLUICE_CHECK(result.ok());
  return *std::move(result);
}

std::vector<std::byte> KernelCase::Expected() const {
  const Value& result = graph_.value(node_.output);
  static constexpr std::byte kNothing{};
  std::vector<std::byte> expected(TensorBytes(result.type, result.shape).count());
  std::vector<reference::Tensor> operands;
  for (std::size_t i = 0; i < contents_.size(); ++i) {
    reference::Tensor operand;
    if (node_.inputs[i]) {
      const Value& value = graph_.value(*node_.inputs[i]);
      operand.type = value.type;
      operand.shape = value.shape;
      operand.data = contents_[i].empty() ? &kNothing : contents_[i].data();
    }
    operands.push_back(operand);
  }
  reference::Evaluate(node_.operation, operands,
                      {.type = result.type, .shape = result.shape, .data = expected.data()});
  return expected;
}

absl::Status KernelCase::Check(const Loops& loops, Tolerance tolerance, RunOptions options) {
  SLUICE_ASSIGN_OR_RETURN(const std::vector<std::byte> got, RunChecked(loops, options));
  const std::vector<std::byte> want = Expected();
  const Value& result = graph_.value(node_.output);
  if (result.type == DataType::kFloat64) return CompareDoubles(got, want);
  if (result.type != DataType::kFloat32) {
    if (got == want) return absl::OkStatus();
    return absl::InternalError(Describe() + ": the bytes differ");
  }
  for (std::size_t i = 0; i < got.size() / sizeof(float); ++i) {
    float a = 0, b = 0;
    std::memcpy(&a, got.data() + i * sizeof(float), sizeof(float));
    std::memcpy(&b, want.data() + i * sizeof(float), sizeof(float));
    const double ulp = UlpDistance(a, b);
    if (ulp <= double{tolerance.ulp} || std::fabs(double{a} - double{b}) <= tolerance.absolute) {
      continue;
    }
    return absl::InternalError(absl::StrFormat("%s, %s: element %d: got %.9g, want %.9g (%g ulp)",
                                               Describe(), loops.isa, i, a, b, ulp));
  }
  return absl::OkStatus();
}

absl::Status KernelCase::CompareDoubles(std::span<const std::byte> got,
                                        std::span<const std::byte> want) const {
  for (std::size_t i = 0; i < got.size() / sizeof(double); ++i) {
    double a = 0, b = 0;
    std::memcpy(&a, got.data() + i * sizeof(double), sizeof(double));
    std::memcpy(&b, want.data() + i * sizeof(double), sizeof(double));
    const bool same = a == b || (std::isnan(a) && std::isnan(b));
    if (same || std::fabs(a - b) <= 1e-13 + 1e-12 * std::fabs(b)) continue;
    return absl::InternalError(
        absl::StrFormat("%s: element %d: got %.17g, want %.17g", Describe(), i, a, b));
  }
  return absl::OkStatus();
}

std::string KernelCase::Describe() const {
  std::string text = Name(node_.operation);
  for (const Value& value : graph_.values) {
    text += absl::StrFormat(" %s%s", ProtocolName(value.type), FormatShape(value.shape));
  }
  return text;
}

}  // namespace sluice::kernels
