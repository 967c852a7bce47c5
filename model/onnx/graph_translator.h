// model/onnx/graph_translator.h
//
// Translates the nodes of one graph of an ONNX file: the file's own, or one that a node carries
// (the branch of an If, the body of a Loop), which becomes part of the graph that is being built.
// Names that a graph does not know are those of the graph around it.

#ifndef SLUICE_MODEL_ONNX_GRAPH_TRANSLATOR_H_
#define SLUICE_MODEL_ONNX_GRAPH_TRANSLATOR_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "model/onnx/known_values.h"
#include "model/onnx/onnx_importer.h"
#include "model/onnx/onnx_node.h"
#include "model/onnx/onnx_structure.h"
#include "model/onnx/onnx_tensor.h"
#include "model/onnx/unsupported_list.h"

namespace sluice {

// What the translations of all graphs of a file share.
struct Translation {
  const OnnxStructure& structure;
  OnnxTensors& tensors;
  const ImportOptions& options;
  std::int64_t opset = 0;
  std::map<std::string, std::vector<std::byte>> values;  // Contents of inputs, as far as given.
  KnownValues known = KnownValues(values);
  Graph graph = {};
  Bytes generated = {};
  UnsupportedList unsupported = {};
  std::size_t inlined = 0;  // Branches and bodies so far; options.max_nodes bounds them.
};

// What a node of an unrolled graph takes, with its values, roughly.
inline constexpr Bytes kUnrolledNode = Bytes::Of(1024);

std::string NameOf(const onnx::NodeProto& node);

// Threads: one at a time. Borrows everything it is made with.
class GraphTranslator {
 public:
  // `outer` is the graph around this one; null for the file's own.
  GraphTranslator(Translation& shared, const OnnxGraph& file, const GraphTranslator* outer)
      : shared_(shared), file_(file), outer_(outer) {}

  // Indexes names, marks what the outputs depend on, and lists operators that are unknown.
  // Fails: INVALID_ARGUMENT, a name that is missing or made twice.
  absl::Status Prepare();
  // Initialisers, then nodes. What is not supported goes on the list, and what depends on it is
  // left out. Requires: Prepare, and every input has been named.
  // Fails: as ImportOnnx, but for UNIMPLEMENTED.
  absl::Status Translate();

  bool IsInitializer(const std::string& name) const { return initializers_.contains(name); }
  // Names a value, or says that there is none because something is not supported.
  void Name(const std::string& name, ValueId id) { values_.insert_or_assign(name, id); }
  void Poison(const std::string& name) { poisoned_.insert(name); }
  std::optional<ValueId> Find(const std::string& name) const;
  bool IsPoisoned(const std::string& name) const;

  // Translates the graph that the node's attribute `name` holds, with `inputs` for its inputs, and
  // returns its outputs. Fails: INVALID_ARGUMENT, there is no such graph, or its inputs are not as
  // many; UNIMPLEMENTED, without a message: what is missing is on the list; as Translate.
  absl::StatusOr<std::vector<ValueId>> Inline(int node, std::string_view name,
                                              std::span<const ValueId> inputs) const;

 private:
  absl::Status IndexNames();
  void MarkNeeded();
  absl::Status ReadInitializers();
  absl::Status TranslateNode(int index);
  absl::StatusOr<std::vector<std::optional<ValueId>>> InputsOf(const onnx::NodeProto& node,
                                                               bool& poisoned) const;
  absl::Status Bind(OnnxNode& node, std::size_t values_before, ValueId first);
  absl::StatusOr<ValueId> Own(OnnxNode& node, std::size_t values_before, ValueId id) const;
  void ListUnknownOperators();
  absl::Status BookInlined() const;
  bool IsMadeLater(const std::string& name) const;

  Translation& shared_;
  const OnnxGraph& file_;
  const GraphTranslator* outer_;
  std::unordered_map<std::string, int> producers_;     // Which node makes a value.
  std::unordered_map<std::string, int> initializers_;  // Which initialiser a value is.
  std::unordered_set<std::string> needed_;             // Values that some output depends on.
  std::vector<bool> node_needed_;
  std::unordered_map<std::string, ValueId> values_;  // What exists so far.
  std::unordered_set<std::string> poisoned_;         // What would, were all of it supported.
};

}  // namespace sluice

#endif  // SLUICE_MODEL_ONNX_GRAPH_TRANSLATOR_H_
