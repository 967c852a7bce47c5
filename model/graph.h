// model/graph.h
//
// A network: values (tensors) and the nodes that compute them, in an order that runs. All shapes
// are known.
//
// Threads: a Graph is plain data; share it only when nobody changes it.

#ifndef SLUICE_MODEL_GRAPH_H_
#define SLUICE_MODEL_GRAPH_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/ids.h"
#include "model/constant.h"
#include "model/data_type.h"
#include "model/operation.h"

namespace sluice {

// A dimension whose size is computed: the shape has the largest that it may be, elements behind the
// real size mean nothing, and `count` (kInt64, of shape []) says how large it is.
struct DynamicDim {
  std::size_t axis = 0;
  ValueId count{};
};

struct Value {
  std::string name;  // As in the file; made up for values that rewrites introduce.
  DataType type = DataType::kFloat32;
  Shape shape;
  std::shared_ptr<const Constant> constant;  // Null for what a node or a caller supplies.
  std::optional<DynamicDim> dynamic = {};
};

struct Node {
  std::string name;       // As in the file, for people; need not be unique.
  std::string source_op;  // The foreign operator it came from, such as "Conv".
  Operation operation;
  std::vector<std::optional<ValueId>> inputs;  // An optional input that is absent is nullopt.
  ValueId output{};
};

struct Graph {
  std::string name;
  std::vector<Value> values;
  std::vector<Node> nodes;  // In an order that runs: inputs come before their users.
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;  // May name an input, a constant, or one value twice.

  const Value& value(ValueId id) const { return values[Index(id)]; }
  Value& value(ValueId id) { return values[Index(id)]; }
  ValueId Add(Value value);
};

// What a caller reads at the end: the outputs, and the counts of those whose size is computed.
std::vector<ValueId> ReadAtEnd(const Graph& graph);

// Bytes of all constants that some node reads.
Bytes WeightBytes(const Graph& graph);

// Multiply-accumulate operations of one node, for costs and tables.
std::uint64_t MacCount(const Graph& graph, const Node& node);

// Checks ids, order, arity and that every output shape follows from its operation and inputs: the
// contract that backends rely on. A graph from an importer always passes.
// Fails: INTERNAL, naming node and rule.
absl::Status Validate(const Graph& graph);

}  // namespace sluice

#endif  // SLUICE_MODEL_GRAPH_H_
