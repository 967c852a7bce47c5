// model/onnx/onnx_node.h
//
// What the translation of one operator sees and does: the node's attributes and inputs, and the
// graph that grows.

#ifndef SLUICE_MODEL_ONNX_ONNX_NODE_H_
#define SLUICE_MODEL_ONNX_ONNX_NODE_H_

#include <onnx/onnx_pb.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "model/graph.h"
#include "model/onnx/known_values.h"
#include "model/onnx/onnx_tensor.h"

namespace sluice {

class GraphTranslator;

using MaybeValue = absl::StatusOr<ValueId>;

// Threads: one at a time. Borrows everything it is made with.
class OnnxNode {
 public:
  struct Context {
    Graph& graph;
    OnnxTensors& tensors;
    const OnnxGraph& file;         // That the node lies in.
    const GraphTranslator& scope;  // Translates that one.
    Bytes max_tensor;
    Bytes& generated;  // What operators such as ConstantOfShape made so far.
    KnownValues& known;
  };
  OnnxNode(Context context, int index, std::int64_t opset,
           std::vector<std::optional<ValueId>> inputs);

  const onnx::NodeProto& proto() const { return proto_; }
  std::int64_t opset() const { return opset_; }
  Graph& graph() { return context_.graph; }

  // Attributes. A wrong type is remembered, and every Emit fails with it.
  bool Has(std::string_view name) const { return Find(name) != nullptr; }
  std::int64_t Int(std::string_view name, std::int64_t otherwise);
  bool Flag(std::string_view name, bool otherwise = false) { return Int(name, otherwise) != 0; }
  float Float(std::string_view name, float otherwise);
  std::string String(std::string_view name, std::string_view otherwise);
  std::vector<std::int64_t> Ints(std::string_view name);
  std::vector<float> Floats(std::string_view name);
  std::vector<std::string> Strings(std::string_view name);
  // The tensor of an attribute as a constant of the graph. Requires: Has(name).
  absl::StatusOr<Value> Tensor(std::string_view name);

  // Inputs. One that is absent counts.
  std::size_t input_count() const { return inputs_.size(); }
  std::optional<ValueId> input(std::size_t i) const {
    return i < inputs_.size() ? inputs_[i] : std::nullopt;
  }
  // Requires, here and below: input i is present.
  const Value& at(std::size_t i) const { return context_.graph.value(*inputs_[i]); }
  Shape shape(std::size_t i) const { return at(i).shape; }
  bool IsConstant(std::size_t i) const { return at(i).constant != nullptr; }
  // The elements of an input that must be constant, or follow from contents that the import was
  // given. Fails: UNIMPLEMENTED, it is computed.
  absl::StatusOr<std::vector<std::int64_t>> Integers(std::size_t i) const;
  absl::StatusOr<std::vector<float>> Numbers(std::size_t i) const;
  absl::Status NeedConstant(std::size_t i) const;
  // A single boolean; nullopt where it is computed. Fails: INVALID_ARGUMENT, it is none.
  absl::StatusOr<std::optional<bool>> Truth(ValueId id) const;
  // Input i as a constant, whose elements are known.
  absl::StatusOr<Value> KnownInput(std::size_t i) const;

  // Integers that moved from an attribute to input `i` in opset `since`; nullopt when not given.
  absl::StatusOr<std::optional<std::vector<std::int64_t>>> IntsOrInput(std::string_view name,
                                                                       std::size_t i,
                                                                       std::int64_t since);

  // Adds a node, or computes it now when it is small and constant. The shape is needed where the
  // operation leaves a choice; the type where it is not the first input's.
  // Fails: INVALID_ARGUMENT, shapes or types that do not fit. RESOURCE_EXHAUSTED, too large.
  MaybeValue Emit(Operation operation, std::vector<std::optional<ValueId>> inputs,
                  const std::optional<Shape>& shape = std::nullopt,
                  std::optional<DataType> type = std::nullopt);
  MaybeValue EmitUnary(Unary unary, ValueId x) { return Emit(unary, {x}); }
  MaybeValue EmitBinary(Binary::Kind kind, ValueId a, ValueId b) {
    return Emit(Binary{kind}, {a, b});
  }
  MaybeValue EmitReshape(ValueId x, Shape shape) { return Emit(Reshape{}, {x}, std::move(shape)); }
  ValueId AddConstant(DataType type, Shape shape, std::shared_ptr<const Constant> constant);
  ValueId AddFloats(DataType type, Shape shape, std::span<const float> elements);
  ValueId AddIntegers(std::vector<std::int64_t> elements);  // A vector of INT64.
  // Books a generated constant. Fails: RESOURCE_EXHAUSTED, all of them exceed the limit.
  absl::Status BookGenerated(Bytes size);

  std::size_t output_count() const { return static_cast<std::size_t>(proto_.output_size()); }
  // Outputs beyond the first, which the translation returns.
  void SetOutput(std::size_t i, ValueId id) { extra_outputs_[i] = id; }
  std::optional<ValueId> extra_output(std::size_t i) const;

  // The outputs of the graph that an attribute holds, which becomes part of this one; it may be
  // asked for again, with other inputs. Fails: as GraphTranslator::Inline.
  absl::StatusOr<std::vector<ValueId>> Inline(std::string_view attribute,
                                              std::span<const ValueId> inputs) const;

  // The node that computes a value; null for inputs and constants.
  const Node* Producer(ValueId id) const;

  const absl::Status& attribute_error() const { return attribute_error_; }

 private:
  const onnx::AttributeProto* Find(std::string_view name) const;
  const onnx::AttributeProto* Typed(std::string_view name,
                                    onnx::AttributeProto::AttributeType type);

  Context context_;
  int index_;
  const onnx::NodeProto& proto_;
  std::int64_t opset_;
  std::vector<std::optional<ValueId>> inputs_;
  std::map<std::size_t, ValueId> extra_outputs_;
  absl::Status attribute_error_;
};

// An axis that may count from the end. Fails: INVALID_ARGUMENT, out of range.
absl::StatusOr<std::int64_t> NormalAxis(std::int64_t axis, std::size_t rank);
// Several; ascending, each once.
absl::StatusOr<std::vector<std::int64_t>> NormalAxes(std::span<const std::int64_t> axes,
                                                     std::size_t rank);

// x normalised over its dimensions from `axis` on, times scale, plus shift, where they are given;
// both broadcast to x and are cast to its type.
struct RowNorm {
  std::int64_t axis = 0;
  float epsilon = 1e-5f;
  bool centred = true;
  std::optional<ValueId> scale = {}, shift = {};
};
MaybeValue EmitRowNorm(OnnxNode& node, ValueId x, const RowNorm& norm);

// Translates a node; returns its first output.
using Translate = MaybeValue (*)(OnnxNode& node);

struct OnnxOperator {
  std::string_view name;
  std::size_t least_inputs, most_inputs;
  Translate translate;
};

// Input 1 as it broadcasts to input 0. Before opset 7 it is stretched only when `broadcast` says
// so, and its dimensions lie at `axis` of the first's.
MaybeValue SecondOperand(OnnxNode& node);

// Every operator of the standard domain that is known.
std::span<const OnnxOperator> KnownOperators();
// Those of the domain com.microsoft, which exporters and ONNX Runtime's optimiser emit.
std::span<const OnnxOperator> KnownContribOperators();

// The same by what they are about; onnx_operators.cc puts them together.
std::span<const OnnxOperator> ElementwiseOperators();  // Of one operand.
std::span<const OnnxOperator> ArithmeticOperators();
std::span<const OnnxOperator> LogicOperators();
std::span<const OnnxOperator> WindowOperators();  // Convolutions and pools.
std::span<const OnnxOperator> MatrixOperators();
std::span<const OnnxOperator> NormOperators();  // Softmax and its like.
std::span<const OnnxOperator> ReductionOperators();
std::span<const OnnxOperator> NormalizationOperators();
std::span<const OnnxOperator> MovementOperators();  // Reshape, slice, concat and their like.
std::span<const OnnxOperator> ConstantOperators();  // Constant, Shape, Range and their like.
std::span<const OnnxOperator> ResizeOperators();
std::span<const OnnxOperator> QuantizedOperators();
std::span<const OnnxOperator> ContribOperators();
std::span<const OnnxOperator> ContribQuantizedOperators();
std::span<const OnnxOperator> ContribAttentionOperators();
std::span<const OnnxOperator> PadOperators();        // Pad and its like.
std::span<const OnnxOperator> IndexOperators();      // Gather and scatter by index; masks.
std::span<const OnnxOperator> SelectionOperators();  // TopK, NonZero and their like.
std::span<const OnnxOperator> SamplingOperators();   // Samples of images.
std::span<const OnnxOperator> EinsumOperators();
std::span<const OnnxOperator> RecurrentOperators();
std::span<const OnnxOperator> ControlOperators();  // If, Loop and Scan.

}  // namespace sluice

#endif  // SLUICE_MODEL_ONNX_ONNX_NODE_H_
