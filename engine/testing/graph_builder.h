// engine/testing/graph_builder.h
//
// Graphs built by hand, for tests and benchmarks. Shapes follow from the operation where they can.

#ifndef SLUICE_ENGINE_TESTING_GRAPH_BUILDER_H_
#define SLUICE_ENGINE_TESTING_GRAPH_BUILDER_H_

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "model/graph.h"

namespace sluice {

class GraphBuilder {
 public:
  explicit GraphBuilder(std::uint64_t seed = 1) : random_(seed) {}

  ValueId Input(Shape shape, DataType type = DataType::kFloat32);
  // Evenly distributed in [low, high), from the seed.
  ValueId Weights(Shape shape, float low = -1, float high = 1);
  ValueId Floats(Shape shape, std::vector<float> elements);
  ValueId Integers(Shape shape, std::vector<std::int64_t> elements);

  // Adds a node; `shape` is needed where the operation leaves a choice, `type` where it is not the
  // first input's.
  // Requires: inputs that the operation takes.
  ValueId Add(Operation operation, std::vector<std::optional<ValueId>> inputs,
              std::optional<Shape> shape = std::nullopt,
              std::optional<DataType> type = std::nullopt);

  const Shape& shape(ValueId id) const { return graph_.value(id).shape; }

  // Requires: a valid graph.
  Graph Finish(std::vector<ValueId> outputs);

 private:
  Graph graph_;
  std::mt19937_64 random_;
};

// Window attributes with the same value in each of `rank` spatial dimensions.
Convolution Conv(std::int64_t kernel, std::int64_t stride = 1, std::int64_t pad = 0,
                 std::int64_t groups = 1, std::int64_t dilation = 1, std::size_t rank = 2);
Epilogue Then(Unary::Kind kind, float alpha = 0, float beta = 0);
Epilogue ThenAdd(std::uint32_t input);

}  // namespace sluice

#endif  // SLUICE_ENGINE_TESTING_GRAPH_BUILDER_H_
