#include "engine/cpu/lowering.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "engine/cpu/constant_part.h"
#include "engine/cpu/cpu_steps.h"
#include "engine/cpu/node_lowering.h"

namespace sluice {
namespace {

constexpr Layout Other(Layout layout) {
  return layout == Layout::kPlain ? Layout::kBlocked : Layout::kPlain;
}

// True when what `from` holds can be read as `to` where it lies.
bool SameBytes(const Shape& shape, Layout from) {
  if (LayoutsCoincide(shape)) return true;
  // One pixel of one image: the channels lie in order, the filling behind them.
  return from == Layout::kBlocked && shape[0] == 1 &&
         ElementCount(std::span(shape).subspan(2)) == 1;
}

}  // namespace

std::string StepName(const Node& node) {
  return node.name.empty() ? Name(node.operation) : node.name;
}

Lowering::Lowering(const Graph& graph, const LowerOptions& options)
    : graph_(graph),
      options_(options),
      storage_(graph.values.size()),
      elided_(graph.values.size()),
      wholes_(graph.values.size()) {
  JoinPlan plan = PlanJoins(graph);
  joins_ = std::move(plan.places);
  FindElided(plan.elided);
  FindLastUses();
}

void Lowering::FindElided(const std::vector<bool>& elided) {
  for (const Node& node : graph_.nodes) {
    if (elided[Index(node.output)]) elided_[Index(node.output)] = &node;
  }
}

void Lowering::FindLastUses() {
  last_use_.assign(graph_.values.size(), 0);
  for (std::size_t n = 0; n < graph_.nodes.size(); ++n) {
    ForEachRead(graph_.nodes[n], [&](ValueId read) { last_use_[Index(read)] = n; });
  }
  for (const ValueId output : ReadAtEnd(graph_)) last_use_[Index(output)] = graph_.nodes.size();
}

BufferIndex Lowering::NewBuffer(std::string name, Bytes size) {
  const auto step = At<StepIndex>(steps_.size());
  buffers_.push_back({std::move(name), size, {step, step}});
  parts_.emplace_back();
  holders_.emplace_back();
  return At<BufferIndex>(buffers_.size() - 1);
}

BufferIndex Lowering::NewPart(std::string name, BufferIndex whole, Bytes offset, Bytes size) {
  const Part within = PartAt(whole);
  const BufferIndex part = NewBuffer(std::move(name), size);
  parts_[Index(part)] = Part{within.of, within.offset + offset};
  return part;
}

absl::StatusOr<BufferIndex> Lowering::Read(ValueId id, Layout layout) {
  if (Has(id, layout)) return *Storage(id, layout);
  if (ElidedConcat(id) != nullptr && !Has(id, Other(layout))) {
    SLUICE_RETURN_IF_ERROR(AddJoin(*this, *ElidedConcat(id)));
    return Read(id, layout);
  }
  const Value& read = value(id);
  if (read.constant != nullptr && !Has(id, Other(layout))) {
    SLUICE_RETURN_IF_ERROR(AddConstantCopy(id, layout));
    return *Storage(id, layout);
  }
  SLUICE_CHECK(Has(id, Other(layout)) && CanBlock(read.type, read.shape));
  if (SameBytes(read.shape, Other(layout))) {
    WriteInto(id, layout, *Storage(id, Other(layout)));
  } else {
    const BufferIndex from = *Storage(id, Other(layout));
    const std::string name = read.name + " to " + std::string(Name(layout));
    SLUICE_RETURN_IF_ERROR(AddReorder(name, {read.shape, layout, from, Write(id, layout)}));
  }
  return *Storage(id, layout);
}

Lowering::Part Lowering::PartAt(BufferIndex buffer) const {
  return parts_[Index(buffer)].value_or(Part{buffer, Bytes()});
}

BufferIndex Lowering::PlaceOf(ValueId id) {
  const JoinPlace& place = *joins_[Index(id)];
  std::optional<BufferIndex>& whole = wholes_[Index(place.whole)];
  const Value& joined = value(place.whole);
  if (!whole) whole = NewBuffer(joined.name, StorageBytes(joined, Layout::kBlocked));
  if (id == place.whole) return *whole;
  return NewPart(value(id).name, *whole, place.offset, StorageBytes(value(id), Layout::kBlocked));
}

bool Lowering::LiesIn(BufferIndex buffer, ValueId joined, Bytes offset) const {
  const JoinPlace& place = *joins_[Index(joined)];
  const Part part = PartAt(buffer);
  return part.of == wholes_[Index(place.whole)] && part.offset == place.offset + offset;
}

BufferIndex Lowering::Write(ValueId id, Layout layout) {
  const bool joined = layout == Layout::kBlocked && IsJoined(id);
  const BufferIndex buffer =
      joined ? PlaceOf(id) : NewBuffer(value(id).name, StorageBytes(value(id), layout));
  WriteInto(id, layout, buffer);
  return buffer;
}

void Lowering::WriteInto(ValueId id, Layout layout, BufferIndex buffer) {
  SLUICE_CHECK(buffer_size(buffer) >= StorageBytes(value(id), layout));
  storage_[Index(id)][static_cast<std::size_t>(layout)] = buffer;
  holders_[Index(PartAt(buffer).of)].push_back(id);
}

void Lowering::Forget(ValueId id, Layout layout) {
  std::optional<BufferIndex>& storage = storage_[Index(id)][static_cast<std::size_t>(layout)];
  SLUICE_CHECK(storage.has_value());
  std::erase(holders_[Index(PartAt(*storage).of)], id);
  storage.reset();
}

bool Lowering::LastUse(ValueId id) const { return last_use_[Index(id)] <= node_; }

bool Lowering::MayOverwrite(ValueId id, Layout layout) const {
  if (value(id).constant != nullptr || node_ >= graph_.nodes.size()) return false;
  // What is joined to others is written to its place there.
  if (joins_[Index(graph_.nodes[node_].output)]) return false;
  std::vector<ValueId> holders = {id};
  for (const Layout each : {Layout::kPlain, Layout::kBlocked}) {
    // A buffer that does not exist yet may turn out to be another name for one that does.
    if (!Has(id, each) || (each != layout && Has(id, layout))) continue;
    const std::vector<ValueId>& more = holders_[Index(PartAt(*Storage(id, each)).of)];
    holders.insert(holders.end(), more.begin(), more.end());
  }
  std::ranges::sort(holders);
  holders.erase(std::unique(holders.begin(), holders.end()), holders.end());
  std::ptrdiff_t uses = 0;
  for (const ValueId holder : holders) {
    if (!LastUse(holder)) return false;
    ForEachRead(graph_.nodes[node_], [&](ValueId read) { uses += read == holder ? 1 : 0; });
  }
  return uses <= 1;
}

Operand Lowering::Use(StepDraft& step, BufferIndex buffer) const {
  step.buffers.push_back(buffer);
  const Part part = PartAt(buffer);
  return Operand::In(part.of, part.offset);
}

Operand Lowering::UseScratch(StepDraft& step, Bytes size) {
  if (size == Bytes()) return {};
  return Use(step, NewBuffer(step.name + " scratch", size));
}

Operand Lowering::AddWeights(StepDraft& step, WeightPart part) {
  part.offset = AlignUp(step.weights, kBufferAlignment);
  step.weights = part.offset + part.size;
  step.parts.push_back(std::move(part));
  return Operand::Weights(step.parts.back().offset);
}

Operand Lowering::AddConstant(StepDraft& step, ValueId id) {
  return AddWeights(step, PlainPart(value(id)));
}

absl::StatusOr<Operand> Lowering::Input(StepDraft& step, ValueId id, Layout layout) {
  const Value& input = value(id);
  if (input.constant != nullptr && !Has(id, layout)) {
    if (layout == Layout::kPlain) return AddConstant(step, id);
    return AddWeights(step, TensorPart(input, input.shape, Describe(input.shape, layout)));
  }
  SLUICE_ASSIGN_OR_RETURN(const BufferIndex buffer, Read(id, layout));
  return Use(step, buffer);
}

void Lowering::AddStep(StepDraft step) {
  const auto index = At<StepIndex>(steps_.size());
  const auto end = At<StepIndex>(steps_.size() + 1);
  for (const BufferIndex buffer : step.buffers) {
    StepRange& live = buffers_[Index(PartAt(buffer).of)].live;
    // A buffer without uses so far has an empty range somewhere before.
    if (live.begin == live.end) live.begin = index;
    live.end = end;
  }
  steps_.push_back(std::move(step));
}

void Lowering::AddDnnlStep(StepDraft step, const std::shared_ptr<DnnlKernel>& kernel,
                           std::vector<Operand> operands, std::int64_t images,
                           std::vector<Bytes> image_strides) {
  operands.push_back(UseScratch(step, kernel->scratch()));
  if (images > 1) image_strides.emplace_back();
  step.run = std::make_unique<DnnlStep>(kernel, std::move(operands),
                                        DnnlStep::Images{images, std::move(image_strides)});
  AddStep(std::move(step));
}

absl::StatusOr<std::shared_ptr<DnnlKernel>> Lowering::SharedKernel(const std::string& key,
                                                                   const MakeKernelFunction& make) {
  const auto known = kernels_.find(key);
  if (known != kernels_.end()) return known->second;
  SLUICE_ASSIGN_OR_RETURN(std::shared_ptr<DnnlKernel> kernel, make());
  kernels_.emplace(key, kernel);
  return kernel;
}

absl::Status Lowering::AddReorder(std::string name, const Move& move) {
  StepDraft step{.name = std::move(name)};
  const Operand source = Use(step, move.from);
  const Operand destination = Use(step, move.to);
  const dnnl::memory::desc source_desc = Describe(move.shape, Other(move.to_layout));
  const dnnl::memory::desc destination_desc = Describe(move.shape, move.to_layout);
  const std::string to(Name(move.to_layout));
  const std::string key = absl::StrFormat("reorder %s %s", FormatShape(move.shape), to);
  SLUICE_ASSIGN_OR_RETURN(
      const std::shared_ptr<DnnlKernel> kernel,
      SharedKernel(key, [&]() -> absl::StatusOr<std::shared_ptr<DnnlKernel>> {
        SLUICE_ASSIGN_OR_RETURN(const dnnl::reorder::primitive_desc desc, TryDnnl([&] {
                                  return dnnl::reorder::primitive_desc(
                                      DnnlEngine(), source_desc, DnnlEngine(), destination_desc,
                                      Attributes({}));
                                }));
        return MakeDnnlKernel<dnnl::reorder>(
            desc, {{DNNL_ARG_FROM, source_desc}, {DNNL_ARG_TO, destination_desc}});
      }));
  step.kernel = absl::StrFormat("reorder %s %s", kernel->impl(), to);
  AddDnnlStep(std::move(step), kernel, {source, destination});
  return absl::OkStatus();
}

absl::Status Lowering::AddConstantCopy(ValueId id, Layout layout) {
  StepDraft step{.name = value(id).name + " copy", .kernel = "copy"};
  SLUICE_ASSIGN_OR_RETURN(const Operand from, Input(step, id, layout));
  const BufferIndex buffer = Write(id, layout);
  const Operand to = Use(step, buffer);
  step.run = std::make_unique<CopyStep>(from, to, buffer_size(buffer));
  AddStep(std::move(step));
  return absl::OkStatus();
}

absl::Status Lowering::LowerNode(const Node& node) {
  return std::visit([&](const auto& operation) { return LowerOperation(*this, node, operation); },
                    node.operation);
}

}  // namespace sluice
