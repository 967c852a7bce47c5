#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "engine/backend.h"
#include "engine/reference/definitions.h"

namespace sluice {
namespace {

// Where a step finds an operand: in a buffer, or in its extent.
struct Place {
  bool present = false;
  std::optional<BufferIndex> buffer;
  Bytes offset;  // In the extent.
  std::shared_ptr<const Constant> constant;
  DataType type = DataType::kFloat32;
  Shape shape;
};

struct Step {
  Operation operation;
  std::vector<Place> inputs;
  BufferIndex output{};
  DataType type = DataType::kFloat32;
  Shape shape;
  std::vector<reference::Tensor> operands;  // Filled anew by each run.
};

class ReferenceProgram final : public Program {
 public:
  explicit ReferenceProgram(const Graph& graph) : buffer_of_(graph.values.size()) {
    fingerprint_ = "reference 1";
  }

  absl::Status Build(const Graph& graph);
  absl::Status Pack(ExtentIndex extent, std::span<std::byte> into) override;
  absl::Status Run(StepIndex step, const StepMemory& memory) override;
  void ReleaseWeights() override {
    for (Step& step : plan_) {
      for (Place& place : step.inputs) place.constant = nullptr;
    }
  }

 private:
  BufferIndex AddBuffer(std::string name, const Value& value, std::size_t step);
  absl::StatusOr<Place> Operand(const Graph& graph, ValueId id, std::size_t step, Bytes& extent);
  absl::Status AddStep(const Graph& graph, const Node& node, BufferIndex output);
  absl::Status AddOutputs(const Graph& graph);

  std::vector<std::optional<BufferIndex>> buffer_of_;  // By value, while building.
  std::vector<Step> plan_;
  std::vector<std::size_t> step_of_extent_;
};

BufferIndex ReferenceProgram::AddBuffer(std::string name, const Value& value, std::size_t step) {
  buffers_.push_back({.name = std::move(name),
                      .size = TensorBytes(value.type, value.shape),
                      .live = {At<StepIndex>(step), At<StepIndex>(step + 1)}});
  return At<BufferIndex>(buffers_.size() - 1);
}

// Finds the operand of a step; one in a buffer lives until then, a constant is added to `extent`.
absl::StatusOr<Place> ReferenceProgram::Operand(const Graph& graph, ValueId id, std::size_t step,
                                                Bytes& extent) {
  const Value& value = graph.value(id);
  Place place;
  place.present = true;
  place.type = value.type;
  place.shape = value.shape;
  if (value.constant != nullptr) {
    const Bytes size = TensorBytes(value.type, value.shape);
    if (value.constant->size() != size) {
      return absl::InternalError(absl::StrFormat("constant \"%s\": got %d bytes, want %d",
                                                 value.name, value.constant->size().count(),
                                                 size.count()));
    }
    place.constant = value.constant;
    place.offset = AlignUp(extent, kBufferAlignment);
    extent = place.offset + size;
    return place;
  }
  SLUICE_CHECK(buffer_of_[Index(id)].has_value());
  place.buffer = buffer_of_[Index(id)];
  BufferInfo& buffer = buffers_[Index(*place.buffer)];
  buffer.live.end = At<StepIndex>(step + 1);
  return place;
}

absl::Status ReferenceProgram::AddStep(const Graph& graph, const Node& node, BufferIndex output) {
  const Value& result = graph.value(node.output);
  const std::size_t index = plan_.size();
  Step step;
  step.operation = node.operation;
  step.output = output;
  step.type = result.type;
  step.shape = result.shape;
  StepInfo info;
  info.name = node.name;
  info.kernel = "reference " + Name(node.operation);
  Bytes extent;
  info.touched = TensorBytes(result.type, result.shape);
  for (const std::optional<ValueId>& input : node.inputs) {
    Place place;
    if (input.has_value()) {
      SLUICE_ASSIGN_OR_RETURN(place, Operand(graph, *input, index, extent));
      info.touched += TensorBytes(place.type, place.shape);
    }
    step.inputs.push_back(std::move(place));
  }
  step.operands.resize(step.inputs.size());
  if (extent > Bytes()) {
    info.extent = At<ExtentIndex>(extents_.size());
    extents_.push_back({.size = extent, .used = {At<StepIndex>(index), At<StepIndex>(index + 1)}});
    step_of_extent_.push_back(index);
  }
  info.macs = MacCount(graph, node);
  steps_.push_back(std::move(info));
  plan_.push_back(std::move(step));
  return absl::OkStatus();
}

// A port's buffer is the value's own when a node computes it for this port alone; otherwise a step
// copies the value there.
absl::Status ReferenceProgram::AddOutputs(const Graph& graph) {
  std::vector<bool> taken(buffers_.size(), false);
  for (const PortInfo& input : inputs_) taken[Index(input.buffer)] = true;
  for (const ValueId id : graph.outputs) {
    const Value& value = graph.value(id);
    std::optional<BufferIndex> buffer = buffer_of_[Index(id)];
    if (!buffer.has_value() || taken[Index(*buffer)]) {
      buffer = AddBuffer(value.name + " (output)", value, plan_.size());
      taken.push_back(true);
      Node copy;
      copy.name = value.name + " (copy)";
      copy.operation = Reshape{};
      copy.inputs = {id};
      copy.output = id;
      SLUICE_RETURN_IF_ERROR(AddStep(graph, copy, *buffer));
    }
    taken[Index(*buffer)] = true;
    outputs_.push_back({value.name, value.type, value.shape, *buffer});
  }
  for (const PortInfo& output : outputs_) {
    buffers_[Index(output.buffer)].live.end = At<StepIndex>(std::max<std::size_t>(1, plan_.size()));
  }
  return absl::OkStatus();
}

absl::Status ReferenceProgram::Build(const Graph& graph) {
  for (const ValueId id : graph.inputs) {
    const Value& value = graph.value(id);
    const BufferIndex buffer = AddBuffer(value.name, value, 0);
    buffer_of_[Index(id)] = buffer;
    inputs_.push_back({value.name, value.type, value.shape, buffer});
  }
  for (const Node& node : graph.nodes) {
    const Value& value = graph.value(node.output);
    const BufferIndex output = AddBuffer(value.name, value, plan_.size());
    buffer_of_[Index(node.output)] = output;
    SLUICE_RETURN_IF_ERROR(AddStep(graph, node, output));
  }
  return AddOutputs(graph);
}

absl::Status ReferenceProgram::Pack(ExtentIndex extent, std::span<std::byte> into) {
  SLUICE_CHECK(into.size() == extents_[Index(extent)].size.count());
  std::ranges::fill(into, std::byte{0});
  for (const Place& place : plan_[step_of_extent_[Index(extent)]].inputs) {
    if (!place.present || place.buffer.has_value()) continue;
    SLUICE_CHECK(place.constant != nullptr);
    const std::size_t size = TensorBytes(place.type, place.shape).count();
    SLUICE_RETURN_IF_ERROR(place.constant->Read(Bytes(), into.subspan(place.offset.count(), size)));
  }
  return absl::OkStatus();
}

absl::Status ReferenceProgram::Run(StepIndex index, const StepMemory& memory) {
  // An operand without bytes is present all the same.
  static constexpr std::byte kNothing{};
  Step& step = plan_[Index(index)];
  const auto in_arena = [&](BufferIndex buffer) {
    return memory.arena + memory.offsets[Index(buffer)].count();
  };
  for (std::size_t i = 0; i < step.inputs.size(); ++i) {
    const Place& place = step.inputs[i];
    const std::byte* data = nullptr;
    if (place.present) {
      data = place.buffer.has_value()   ? in_arena(*place.buffer)
             : memory.extent != nullptr ? memory.extent + place.offset.count()
                                        : &kNothing;
    }
    step.operands[i] = {.type = place.type, .shape = place.shape, .data = data};
  }
  reference::Evaluate(step.operation, step.operands,
                      {.type = step.type, .shape = step.shape, .data = in_arena(step.output)});
  return absl::OkStatus();
}

class Reference final : public Backend {
 public:
  std::string_view name() const override { return "reference"; }

  absl::StatusOr<std::unique_ptr<Program>> Lower(const Graph& graph,
                                                 const LowerOptions& /*options*/) override {
    std::vector<std::string> refused;
    for (const Node& node : graph.nodes) {
      const absl::Status status = reference::Supported(graph, node);
      if (status.ok()) continue;
      refused.push_back(
          absl::StrFormat("%s \"%s\": %s", Name(node.operation), node.name, status.message()));
    }
    if (!refused.empty()) {
      return absl::UnimplementedError(absl::StrFormat("no kernel for %d of %d nodes: %s",
                                                      refused.size(), graph.nodes.size(),
                                                      absl::StrJoin(refused, "; ")));
    }
    auto program = std::make_unique<ReferenceProgram>(graph);
    SLUICE_RETURN_IF_ERROR(program->Build(graph));
    return program;
  }
};

}  // namespace

std::unique_ptr<Backend> ReferenceBackend() { return std::make_unique<Reference>(); }

}  // namespace sluice
