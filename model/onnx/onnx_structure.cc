#include "model/onnx/onnx_structure.h"

#include <string>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "model/onnx/wire_reader.h"

namespace sluice {
namespace {

// Contents below this are parsed with the rest: a seek costs more than reading them.
constexpr Bytes kParsedContents = 4_KiB;
// What an object of the parsed form takes beyond its bytes in the file, roughly.
constexpr Bytes kNodeOverhead = Bytes::Of(256);
constexpr Bytes kFieldOverhead = Bytes::Of(64);
// Packed integers of one byte in the file become eight in memory.
constexpr std::uint64_t kPackedGrowth = 8;
// A ValueInfoProto is a tree of small objects.
constexpr std::uint64_t kValueInfoGrowth = 32;

// Field numbers of onnx.proto3, which are for ever.
namespace field {
constexpr std::uint32_t kModelIrVersion = 1, kModelProducer = 2, kModelGraph = 7, kModelOpset = 8;
constexpr std::uint32_t kGraphNode = 1, kGraphName = 2, kGraphInitializer = 5, kGraphInput = 11,
                        kGraphOutput = 12, kGraphSparseInitializer = 15;
constexpr std::uint32_t kNodeAttribute = 5, kNodeDoc = 6;
constexpr std::uint32_t kAttributeTensor = 5, kAttributeGraph = 6, kAttributeTensors = 10,
                        kAttributeGraphs = 11, kAttributeDoc = 13, kAttributeType = 14,
                        kAttributeTypes = 15, kAttributeSparse = 22, kAttributeSparses = 23;
constexpr std::uint32_t kTensorDims = 1, kTensorFloats = 4, kTensorInt32s = 5, kTensorInt64s = 7,
                        kTensorRaw = 9, kTensorDoubles = 10, kTensorUint64s = 11, kTensorDoc = 12;
}  // namespace field

bool IsContents(std::uint32_t number) {
  return number == field::kTensorFloats || number == field::kTensorInt32s ||
         number == field::kTensorInt64s || number == field::kTensorRaw ||
         number == field::kTensorDoubles || number == field::kTensorUint64s;
}

// Fields of integers, whose packed form may be an eighth of what it becomes.
bool IsVarints(std::uint32_t number) {
  return number == field::kTensorDims || number == field::kTensorInt32s ||
         number == field::kTensorInt64s || number == field::kTensorUint64s;
}

class Walker {
 public:
  Walker(const ModelFile& file, Bytes limit, std::size_t max_nodes, OnnxStructure& out)
      : reader_(file, limit), max_nodes_(max_nodes), out_(out), end_(file.size()) {}

  absl::Status Model();
  std::uint64_t hash() const { return reader_.hash(); }
  Bytes charged() const { return reader_.charged(); }

 private:
  absl::Status Graph(Bytes end, OnnxGraph& into);
  absl::Status Initializer(Bytes end, OnnxGraph& into);
  absl::Status Node(Bytes end, OnnxGraph& into);
  absl::Status Attribute(Bytes end, OnnxGraph& graph, int attribute, std::string& into);
  absl::Status Subgraph(const WireField& field, OnnxGraph& graph, int attribute);
  absl::Status Tensor(Bytes end, std::string& into, TensorContents& contents);
  absl::Status Info(const WireField& field, onnx::ValueInfoProto& into);
  // A field of length `field` must be a message.
  static absl::Status NeedMessage(const WireField& field, std::string_view what);

  WireReader reader_;
  std::size_t max_nodes_;
  OnnxStructure& out_;
  Bytes end_;
  bool graph_seen_ = false;
  int depth_ = 0;                             // Of the graph at hand.
  std::size_t nodes_ = 0, initializers_ = 0;  // Of all graphs.
};

absl::Status Walker::NeedMessage(const WireField& field, std::string_view what) {
  if (field.type == WireField::Type::kLength) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrFormat("byte %d: want a message (%s), found a number", field.begin.count(), what));
}

absl::Status Parse(google::protobuf::MessageLite& into, const std::string& bytes,
                   std::string_view what) {
  if (into.ParsePartialFromString(bytes)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrFormat("a %s is malformed", what));
}

absl::Status Walker::Model() {
  std::string rest;
  while (reader_.position() < end_) {
    SLUICE_ASSIGN_OR_RETURN(const WireField f, reader_.Next(end_));
    if (f.number == field::kModelGraph) {
      SLUICE_RETURN_IF_ERROR(NeedMessage(f, "the graph"));
      if (graph_seen_) return absl::InvalidArgumentError("the file has two graphs");
      graph_seen_ = true;
      SLUICE_RETURN_IF_ERROR(Graph(f.end(), out_.graph));
    } else if (f.number == field::kModelIrVersion || f.number == field::kModelProducer ||
               f.number == field::kModelOpset) {
      SLUICE_RETURN_IF_ERROR(reader_.Charge(kNodeOverhead));
      SLUICE_RETURN_IF_ERROR(reader_.Copy(f, rest));
    } else {
      SLUICE_RETURN_IF_ERROR(reader_.Drop(f));
    }
  }
  if (!graph_seen_) return absl::InvalidArgumentError("the file holds no graph");
  onnx::ModelProto head;
  SLUICE_RETURN_IF_ERROR(Parse(head, rest, "model header"));
  out_.model.MergeFrom(head);
  return absl::OkStatus();
}

absl::Status Walker::Info(const WireField& f, onnx::ValueInfoProto& into) {
  SLUICE_RETURN_IF_ERROR(NeedMessage(f, "an input or output"));
  SLUICE_RETURN_IF_ERROR(reader_.Charge(kNodeOverhead + f.size * kValueInfoGrowth));
  // Copied as field 1 of nothing: only the contents are wanted.
  std::string field_bytes;
  SLUICE_RETURN_IF_ERROR(reader_.Copy(f, field_bytes));
  const std::size_t size = static_cast<std::size_t>(f.size.count());
  return Parse(into, field_bytes.substr(field_bytes.size() - size), "graph input or output");
}

absl::Status Walker::Graph(Bytes end, OnnxGraph& into) {
  onnx::GraphProto& graph = into.proto;
  while (reader_.position() < end) {
    SLUICE_ASSIGN_OR_RETURN(const WireField f, reader_.Next(end));
    switch (f.number) {
      case field::kGraphNode:
        SLUICE_RETURN_IF_ERROR(NeedMessage(f, "a node"));
        SLUICE_RETURN_IF_ERROR(Node(f.end(), into));
        break;
      case field::kGraphInitializer:
        SLUICE_RETURN_IF_ERROR(NeedMessage(f, "an initialiser"));
        SLUICE_RETURN_IF_ERROR(Initializer(f.end(), into));
        break;
      case field::kGraphInput:
        SLUICE_RETURN_IF_ERROR(Info(f, *graph.add_input()));
        break;
      case field::kGraphOutput:
        SLUICE_RETURN_IF_ERROR(Info(f, *graph.add_output()));
        break;
      case field::kGraphName: {
        std::string message;
        SLUICE_RETURN_IF_ERROR(reader_.Copy(f, message));
        onnx::GraphProto name;
        SLUICE_RETURN_IF_ERROR(Parse(name, message, "graph"));
        graph.set_name(name.name());
        break;
      }
      case field::kGraphSparseInitializer:
        return absl::UnimplementedError("sparse initialisers are not supported");
      default:
        SLUICE_RETURN_IF_ERROR(reader_.Drop(f));
    }
  }
  return absl::OkStatus();
}

absl::Status Walker::Initializer(Bytes end, OnnxGraph& into) {
  SLUICE_RETURN_IF_ERROR(reader_.Charge(kNodeOverhead));
  if (++initializers_ > max_nodes_) {
    return absl::ResourceExhaustedError(absl::StrFormat("more than %d initialisers", max_nodes_));
  }
  std::string message;
  SLUICE_RETURN_IF_ERROR(Tensor(end, message, into.initializers.emplace_back()));
  return Parse(*into.proto.add_initializer(), message, "tensor");
}

absl::Status Walker::Node(Bytes end, OnnxGraph& into) {
  SLUICE_RETURN_IF_ERROR(reader_.Charge(kNodeOverhead));
  if (++nodes_ > max_nodes_) {
    return absl::ResourceExhaustedError(absl::StrFormat("more than %d nodes", max_nodes_));
  }
  std::string message, attribute_bytes;
  int attributes = 0;
  while (reader_.position() < end) {
    SLUICE_ASSIGN_OR_RETURN(const WireField f, reader_.Next(end));
    if (f.number == field::kNodeAttribute) {
      SLUICE_RETURN_IF_ERROR(NeedMessage(f, "an attribute"));
      SLUICE_RETURN_IF_ERROR(reader_.Charge(kNodeOverhead));
      attribute_bytes.clear();
      SLUICE_RETURN_IF_ERROR(Attribute(f.end(), into, attributes++, attribute_bytes));
      AppendLengthTag(field::kNodeAttribute, attribute_bytes.size(), message);
      message += attribute_bytes;
    } else if (f.number == field::kNodeDoc) {
      SLUICE_RETURN_IF_ERROR(reader_.Drop(f));
    } else {
      SLUICE_RETURN_IF_ERROR(reader_.Charge(kFieldOverhead));
      SLUICE_RETURN_IF_ERROR(reader_.Copy(f, message));
    }
  }
  return Parse(*into.proto.add_node(), message, "node");
}

// The node is the one that the graph gets next.
absl::Status Walker::Attribute(Bytes end, OnnxGraph& graph, int attribute, std::string& into) {
  bool tensor_seen = false;
  while (reader_.position() < end) {
    SLUICE_ASSIGN_OR_RETURN(const WireField f, reader_.Next(end));
    switch (f.number) {
      case field::kAttributeTensor: {
        SLUICE_RETURN_IF_ERROR(NeedMessage(f, "a tensor"));
        SLUICE_RETURN_IF_ERROR(reader_.Charge(kNodeOverhead));
        if (tensor_seen) return absl::InvalidArgumentError("an attribute has two tensors");
        tensor_seen = true;
        std::string tensor;
        TensorContents contents;
        SLUICE_RETURN_IF_ERROR(Tensor(f.end(), tensor, contents));
        if (contents.field != 0) graph.attributes[{graph.proto.node_size(), attribute}] = contents;
        AppendLengthTag(field::kAttributeTensor, tensor.size(), into);
        into += tensor;
        break;
      }
      case field::kAttributeGraph:
        SLUICE_RETURN_IF_ERROR(Subgraph(f, graph, attribute));
        break;
      case field::kAttributeGraphs:
      case field::kAttributeTensors:
      case field::kAttributeDoc:
      case field::kAttributeType:
      case field::kAttributeTypes:
      case field::kAttributeSparse:
      case field::kAttributeSparses:
        // No operator that is supported has one of these; `type` itself is number 20.
        SLUICE_RETURN_IF_ERROR(reader_.Drop(f));
        break;
      default:
        SLUICE_RETURN_IF_ERROR(reader_.Charge(kFieldOverhead + f.size * kPackedGrowth));
        SLUICE_RETURN_IF_ERROR(reader_.Copy(f, into));
    }
  }
  return absl::OkStatus();
}

absl::Status Walker::Subgraph(const WireField& f, OnnxGraph& graph, int attribute) {
  SLUICE_RETURN_IF_ERROR(NeedMessage(f, "a graph"));
  SLUICE_RETURN_IF_ERROR(reader_.Charge(kNodeOverhead * 2));
  if (depth_ >= kMaxGraphDepth) {
    return absl::ResourceExhaustedError(
        absl::StrFormat("graphs nest in graphs, deeper than %d", kMaxGraphDepth));
  }
  std::unique_ptr<OnnxGraph>& inner = graph.subgraphs[{graph.proto.node_size(), attribute}];
  if (inner != nullptr) return absl::InvalidArgumentError("an attribute has two graphs");
  inner = std::make_unique<OnnxGraph>();
  ++depth_;
  SLUICE_RETURN_IF_ERROR(Graph(f.end(), *inner));
  --depth_;
  return absl::OkStatus();
}

absl::Status Walker::Tensor(Bytes end, std::string& into, TensorContents& contents) {
  bool parsed = false;
  while (reader_.position() < end) {
    SLUICE_ASSIGN_OR_RETURN(const WireField f, reader_.Next(end));
    if (f.number == field::kTensorDoc) {
      SLUICE_RETURN_IF_ERROR(reader_.Drop(f));
      continue;
    }
    const bool large =
        IsContents(f.number) && f.type == WireField::Type::kLength && f.size > kParsedContents;
    if (!large) {
      parsed = parsed || (IsContents(f.number) && f.size > Bytes());
      const bool packed = f.type == WireField::Type::kLength;
      const Bytes grown = IsVarints(f.number) && packed ? f.size * kPackedGrowth : f.size;
      SLUICE_RETURN_IF_ERROR(reader_.Charge(!IsContents(f.number) ? kFieldOverhead + grown
                                            : packed              ? grown
                                                                  : Bytes::Of(kPackedGrowth)));
      SLUICE_RETURN_IF_ERROR(reader_.Copy(f, into));
      continue;
    }
    if (contents.field != 0) return absl::InvalidArgumentError("a tensor has its contents twice");
    contents = {.field = f.number, .begin = f.begin, .size = f.size};
    reader_.Skip(f);
  }
  if (contents.field != 0 && parsed) {
    return absl::InvalidArgumentError("a tensor has its contents twice");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<OnnxStructure> ReadOnnxStructure(const ModelFile& file, Bytes limit,
                                                std::size_t max_nodes) {
  OnnxStructure structure;
  Walker walker(file, limit, max_nodes, structure);
  SLUICE_RETURN_IF_ERROR(walker.Model());
  structure.hash = walker.hash();
  structure.memory = walker.charged();
  return structure;
}

}  // namespace sluice
