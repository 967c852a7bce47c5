// engine/cpu/lowering.h
//
// What the lowering of every kind of node shares: in which layouts each value exists, which buffer
// holds it and until when, the steps made so far, and the primitives that equal steps share.
//
//   node --LowerX--> StepDraft + operands --AddStep--> steps, live ranges
//
// A value comes into being in the layout that its node writes; another layout is made by a reorder
// step the first time that someone reads it.

#ifndef SLUICE_ENGINE_CPU_LOWERING_H_
#define SLUICE_ENGINE_CPU_LOWERING_H_

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/backend.h"
#include "engine/cpu/cpu_program.h"
#include "engine/cpu/dnnl_kernel.h"
#include "engine/cpu/join_plan.h"
#include "engine/cpu/layout.h"
#include "model/graph.h"

namespace sluice {

// A step in the making. Operands join it through Lowering::Use and AddWeights.
struct StepDraft {
  std::string name = {};
  std::string kernel = {};
  std::uint64_t macs = 0;
  std::unique_ptr<CpuStep> run = nullptr;
  std::vector<WeightPart> parts = {};
  Bytes weights = {};                     // So far, alignment included.
  std::vector<BufferIndex> buffers = {};  // Read or written.
};

class Lowering {
 public:
  // Borrows both. Requires: a valid graph.
  Lowering(const Graph& graph, const LowerOptions& options);

  const Graph& graph() const { return graph_; }
  const LowerOptions& options() const { return options_; }
  const Value& value(ValueId id) const { return graph_.value(id); }

  // Lowers every node. What AnonymousMemory() has grown by since it was `before` is taken for the
  // kernels'. Fails: UNIMPLEMENTED, with all nodes that have no kernel.
  absl::StatusOr<std::unique_ptr<Program>> Lower(int threads, Bytes before);

  // --- Values ---

  bool Has(ValueId id, Layout layout) const { return Storage(id, layout).has_value(); }
  // The buffer that holds a value in a layout; adds the steps that make it when there is none.
  absl::StatusOr<BufferIndex> Read(ValueId id, Layout layout);
  // A new buffer for a value that a step is about to write; a part of a larger one for a value that
  // is joined there later.
  BufferIndex Write(ValueId id, Layout layout);
  // Whether a concat's result is made of parts written to their places in it.
  bool IsJoined(ValueId id) const { return joins_[Index(id)].has_value(); }
  // The node whose result, a concat, is only there in parts; null for other values. Reading it as a
  // whole joins them.
  const Node* ElidedConcat(ValueId id) const { return elided_[Index(id)]; }
  // Whether `buffer` is `offset` bytes behind the start of the place of `joined`.
  // Requires: IsJoined(joined).
  bool LiesIn(BufferIndex buffer, ValueId joined, Bytes offset) const;
  // The same in a buffer that already exists: in place, or another name for its contents.
  void WriteInto(ValueId id, Layout layout, BufferIndex buffer);
  // Takes back that `id` exists in a layout.
  void Forget(ValueId id, Layout layout);
  // Whether the node being lowered may overwrite what Read(id, layout) gives: nobody needs those
  // bytes afterwards, and the node reads them through this one input only.
  bool MayOverwrite(ValueId id, Layout layout) const;
  // Whether `id` is used by no other node than the one being lowered, and is no output.
  bool LastUse(ValueId id) const;

  // The last node that reads a value; their count for an output of the graph.
  std::size_t LastUseOf(ValueId id) const { return last_use_[Index(id)]; }

  BufferIndex NewBuffer(std::string name, Bytes size);
  // Another name for some bytes of a buffer.
  BufferIndex NewPart(std::string name, BufferIndex whole, Bytes offset, Bytes size);
  Bytes buffer_size(BufferIndex buffer) const { return buffers_[Index(buffer)].size; }

  // --- Steps ---

  // Makes a buffer an operand of the step.
  Operand Use(StepDraft& step, BufferIndex buffer) const;
  // Makes a buffer of scratch for this step alone; absent when `size` is zero.
  Operand UseScratch(StepDraft& step, Bytes size);
  // Gives the part its place in the step's weights.
  static Operand AddWeights(StepDraft& step, WeightPart part);
  // A whole constant as row-major bytes.
  Operand AddConstant(StepDraft& step, ValueId id);
  // An input in a layout: a constant becomes part of the step's weights, anything else is read.
  absl::StatusOr<Operand> Input(StepDraft& step, ValueId id, Layout layout);

  void AddStep(StepDraft step);
  // Appends a step that runs `kernel` on `operands` (the scratchpad is added here).
  void AddDnnlStep(StepDraft step, const std::shared_ptr<DnnlKernel>& kernel,
                   std::vector<Operand> operands, std::int64_t images = 1,
                   std::vector<Bytes> image_strides = {});

  // Appends a step that writes what `from` holds into `to`, in the other layout.
  struct Move {
    Shape shape;
    Layout to_layout;
    BufferIndex from, to;
  };
  absl::Status AddReorder(std::string name, const Move& move);

  // The kernel of that key, made when there is none yet. A key names everything that `make` uses.
  using MakeKernelFunction = std::function<absl::StatusOr<std::shared_ptr<DnnlKernel>>()>;
  absl::StatusOr<std::shared_ptr<DnnlKernel>> SharedKernel(const std::string& key,
                                                           const MakeKernelFunction& make);

 private:
  using Storages = std::array<std::optional<BufferIndex>, 2>;

  const std::optional<BufferIndex>& Storage(ValueId id, Layout layout) const {
    return storage_[Index(id)][static_cast<std::size_t>(layout)];
  }
  void FindElided(const std::vector<bool>& elided);
  void FindLastUses();
  // Calls visit(value) for each input of a node that has one, and for the parts of elided ones.
  template <typename Visit>
  void ForEachRead(const Node& node, Visit visit) const {
    for (const std::optional<ValueId>& input : node.inputs) {
      if (!input) continue;
      visit(*input);
      if (const Node* concat = elided_[Index(*input)]) {
        for (const std::optional<ValueId>& part : concat->inputs) visit(*part);
      }
    }
  }
  // A buffer and the bytes of it that another one names.
  struct Part {
    BufferIndex of{};
    Bytes offset;
  };
  Part PartAt(BufferIndex buffer) const;
  // A buffer that names the place of a value in what it is joined to.
  BufferIndex PlaceOf(ValueId id);
  absl::Status LowerNode(const Node& node);
  absl::Status AddConstantCopy(ValueId id, Layout layout);
  void AddInputs();
  absl::Status AddOutputs();
  absl::StatusOr<BufferIndex> CountBuffer(ValueId count);
  // A buffer with the same contents, made by a step at the end.
  BufferIndex CopyOf(ValueId id, BufferIndex buffer);
  void PlaceExtents(CpuProgram::Parts& parts) const;
  std::string Fingerprint(int threads) const;

  const Graph& graph_;
  const LowerOptions& options_;
  std::size_t node_ = 0;               // Being lowered.
  std::vector<std::size_t> last_use_;  // Of each value; the node count for an output.
  std::vector<Storages> storage_;      // Of each value.
  std::vector<BufferInfo> buffers_;
  std::vector<std::optional<Part>> parts_;       // Of each buffer, when it is part of another.
  std::vector<std::vector<ValueId>> holders_;    // Values in each buffer, those in parts of it too.
  std::vector<std::optional<JoinPlace>> joins_;  // Of each value.
  std::vector<const Node*> elided_;              // Of each value: the concat, when it is elided.
  std::vector<std::optional<BufferIndex>> wholes_;  // Of each value that others are joined to.
  std::vector<StepDraft> steps_;
  std::vector<PortInfo> inputs_, outputs_;
  std::unordered_map<std::string, std::shared_ptr<DnnlKernel>> kernels_;
};

// Of the process, now.
Bytes AnonymousMemory();

// The name of a step of `node`.
std::string StepName(const Node& node);

}  // namespace sluice

#endif  // SLUICE_ENGINE_CPU_LOWERING_H_
