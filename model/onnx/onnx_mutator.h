// model/onnx/onnx_mutator.h
//
// Random changes to an ONNX model that keep it a well-formed message: operators, edges, attributes,
// shapes and types become others. For fuzzing: changes to single bytes seldom get past the parser.

#ifndef SLUICE_MODEL_ONNX_ONNX_MUTATOR_H_
#define SLUICE_MODEL_ONNX_ONNX_MUTATOR_H_

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <random>

namespace sluice {

// Threads: one at a time. Same seed and model, same changes.
class OnnxMutator {
 public:
  explicit OnnxMutator(std::uint64_t seed) : random_(seed) {}

  // Makes one to four changes.
  void Mutate(onnx::ModelProto& model);

 private:
  std::size_t Below(std::size_t n) { return static_cast<std::size_t>(random_() % n); }
  std::int64_t Integer();
  float Number();
  std::string AnyName(const onnx::GraphProto& graph);

  void MutateGraph(onnx::GraphProto& graph, int depth);
  void MutateNode(onnx::NodeProto& node, onnx::GraphProto& graph, int depth);
  void MutateAttribute(onnx::NodeProto& node, int depth);
  void AddNode(onnx::GraphProto& graph);
  void MutateTensor(onnx::TensorProto& tensor);
  void MutatePort(onnx::ValueInfoProto& port);

  std::mt19937_64 random_;
};

}  // namespace sluice

#endif  // SLUICE_MODEL_ONNX_ONNX_MUTATOR_H_
