// From the steps of a lowering to a program: ports, extents, fingerprint.

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "engine/cpu/cpu_steps.h"
#include "engine/cpu/lowering.h"
#include "engine/cpu/weight_run.h"
#include "engine/kernels/kernel.h"

namespace sluice {
namespace {

// Raised whenever the packed bytes change for another reason than those in the fingerprint.
constexpr int kPackingVersion = 1;

// Measured on ResNet-152: generated code, descriptors and memory objects.
constexpr Bytes kKernelMemory = 40_KiB;
constexpr Bytes kStepMemory = 2_KiB;

// FNV-1a, 64 bits.
class Digest {
 public:
  void Add(std::string_view text) {
    for (const char c : text) Mix(static_cast<unsigned char>(c));
    Mix(0xff);
  }
  void Add(std::uint64_t number) {
    for (int i = 0; i < 8; ++i) Mix(static_cast<unsigned char>(number >> (8 * i)));
  }
  void Add(const WeightPart& part) {
    Add(part.offset.count());
    Add(part.size.count());
    Add(part.source_first.count());
    for (const Axis& axis : part.axes) {
      Add(static_cast<std::uint64_t>(axis.first));
      for (const Factor& factor : axis.factors) {
        Add(static_cast<std::uint64_t>(factor.count));
        Add(static_cast<std::uint64_t>(factor.placement.outer_stride));
        for (const Placement::Block& block : factor.placement.inner) {
          Add(static_cast<std::uint64_t>(block.count));
          Add(static_cast<std::uint64_t>(block.stride));
        }
      }
    }
  }
  std::uint64_t value() const { return value_; }

 private:
  void Mix(unsigned char byte) { value_ = (value_ ^ byte) * 0x100000001b3u; }
  std::uint64_t value_ = 0xcbf29ce484222325u;
};

}  // namespace

Bytes AnonymousMemory() {
  std::ifstream file("/proc/self/statm");
  std::uint64_t size = 0, resident = 0, shared = 0;
  file >> size >> resident >> shared;
  if (!file || resident < shared) return Bytes();
  return Bytes::Of((resident - shared) * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)));
}

void Lowering::AddInputs() {
  for (const ValueId input : graph_.inputs) {
    const Value& port = value(input);
    const BufferIndex buffer = Write(input, Layout::kPlain);
    buffers_[Index(buffer)].live = {At<StepIndex>(0), At<StepIndex>(0)};
    inputs_.push_back({port.name, port.type, port.shape, buffer});
  }
}

// A buffer of its own: one that lies in another has no place that a caller knows.
absl::StatusOr<BufferIndex> Lowering::CountBuffer(ValueId count) {
  SLUICE_ASSIGN_OR_RETURN(const BufferIndex buffer, Read(count, Layout::kPlain));
  if (!parts_[Index(buffer)]) return buffer;
  return CopyOf(count, buffer);
}

BufferIndex Lowering::CopyOf(ValueId id, BufferIndex buffer) {
  const Value& copied = value(id);
  const Bytes size = StorageBytes(copied, Layout::kPlain);
  StepDraft step{.name = copied.name + " copy", .kernel = "copy"};
  const Operand from = Use(step, buffer);
  const BufferIndex to = NewBuffer(copied.name, size);
  step.run = std::make_unique<CopyStep>(from, Use(step, to), size);
  AddStep(std::move(step));
  return to;
}

absl::Status Lowering::AddOutputs() {
  node_ = graph_.nodes.size();
  std::vector<bool> taken(buffers_.size(), false);
  for (const PortInfo& input : inputs_) taken[Index(input.buffer)] = true;
  for (const ValueId output : graph_.outputs) {
    const Value& port = value(output);
    SLUICE_ASSIGN_OR_RETURN(BufferIndex buffer, Read(output, Layout::kPlain));
    taken.resize(buffers_.size(), false);
    if (taken[Index(buffer)] || parts_[Index(buffer)]) {
      buffer = CopyOf(output, buffer);
      taken.push_back(false);
    }
    taken[Index(buffer)] = true;
    outputs_.push_back({port.name, port.type, port.shape, buffer});
    if (port.dynamic) {
      SLUICE_ASSIGN_OR_RETURN(const BufferIndex count, CountBuffer(port.dynamic->count));
      taken.resize(buffers_.size(), false);
      outputs_.back().dynamic = PortInfo::Dynamic{port.dynamic->axis, count};
    }
  }
  return absl::OkStatus();
}

void Lowering::PlaceExtents(CpuProgram::Parts& parts) const {
  for (std::size_t s = 0; s < steps_.size(); ++s) {
    const Bytes weights = steps_[s].weights;
    parts.weights_at.emplace_back();
    if (weights == Bytes()) continue;
    const auto begin = At<StepIndex>(s);
    const auto end = At<StepIndex>(s + 1);
    const Bytes shared_at =
        parts.extents.empty() ? Bytes() : AlignUp(parts.extents.back().size, kBufferAlignment);
    if (!parts.extents.empty() && shared_at + weights <= options_.min_extent) {
      parts.extents.back().size = shared_at + weights;
      parts.extents.back().used.end = end;
      parts.weights_at.back() = shared_at;
    } else {
      parts.extents.push_back({weights, {begin, end}});
    }
    parts.steps[s].extent = At<ExtentIndex>(parts.extents.size() - 1);
    for (const WeightPart& part : steps_[s].parts) {
      std::optional<WeightRun> run = RunOf(part);
      if (!run) continue;
      run->offset += parts.weights_at.back();
      parts.extents.back().runs.push_back(*run);
    }
  }
}

std::string Lowering::Fingerprint(int threads) const {
  const dnnl_version_t& version = *dnnl_version();
  Digest digest;
  for (const StepDraft& step : steps_) {
    digest.Add(step.name);
    digest.Add(step.kernel);
    for (const WeightPart& part : step.parts) digest.Add(part);
  }
  return absl::StrFormat(
      "cpu packing %d, oneDNN %d.%d.%d %s, isa %d, kernels %s, block %d, threads %d, "
      "max_slice %d, min_extent %d, %d steps %016x",
      kPackingVersion, version.major, version.minor, version.patch, version.hash,
      static_cast<int>(dnnl::get_effective_cpu_isa()), KernelIsa(), ChannelBlock(), threads,
      options_.max_slice.count(), options_.min_extent.count(), steps_.size(), digest.value());
}

absl::StatusOr<std::unique_ptr<Program>> Lowering::Lower(int threads, Bytes before) {
  AddInputs();
  std::vector<std::string> missing;
  for (node_ = 0; node_ < graph_.nodes.size(); ++node_) {
    const Node& node = graph_.nodes[node_];
    const absl::Status status = LowerNode(node);
    if (absl::IsUnimplemented(status)) {
      missing.push_back(absl::StrFormat("node \"%s\" (%s): %s", node.name, node.source_op,
                                        std::string(status.message())));
      // So that what comes behind it can be looked at too.
      if (!Has(node.output, Layout::kPlain)) Write(node.output, Layout::kPlain);
    } else if (!status.ok()) {
      return status;
    }
  }
  if (!missing.empty()) {
    return absl::UnimplementedError(
        absl::StrCat(missing.size(), " nodes without a kernel: ", absl::StrJoin(missing, "; ")));
  }
  SLUICE_RETURN_IF_ERROR(AddOutputs());

  CpuProgram::Parts parts;
  for (const StepDraft& step : steps_) {
    Bytes touched = step.weights;
    for (const BufferIndex buffer : step.buffers) touched += buffer_size(buffer);
    parts.steps.push_back({step.name, step.kernel, std::nullopt, step.macs, touched});
  }
  PlaceExtents(parts);
  parts.fingerprint = Fingerprint(threads);
  // A buffer that no step touches takes no room; outputs live to the end.
  const auto end = At<StepIndex>(std::max<std::size_t>(steps_.size(), 1));
  for (BufferInfo& buffer : buffers_) {
    if (buffer.live.begin == buffer.live.end) {
      buffer.live = {At<StepIndex>(0), At<StepIndex>(1)};
      buffer.size = Bytes();
    }
  }
  for (const PortInfo& input : inputs_) {
    BufferInfo& buffer = buffers_[Index(input.buffer)];
    buffer.live.begin = At<StepIndex>(0);
    buffer.size = std::max(buffer.size, TensorBytes(input.type, input.shape));
  }
  for (const PortInfo& output : outputs_) {
    buffers_[Index(output.buffer)].live.end = end;
    if (output.dynamic) buffers_[Index(output.dynamic->count)].live.end = end;
  }
  parts.buffers = std::move(buffers_);
  parts.inputs = std::move(inputs_);
  parts.outputs = std::move(outputs_);
  for (StepDraft& step : steps_) {
    parts.kernels.push_back(std::move(step.run));
    parts.weights.push_back(std::move(step.parts));
  }
  parts.kernel_memory = std::max(AnonymousMemory() - before,
                                 kKernelMemory * kernels_.size() + kStepMemory * steps_.size());
  return std::make_unique<CpuProgram>(std::move(parts));
}

}  // namespace sluice
