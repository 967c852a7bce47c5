#include "engine/cpu/subsample.h"

#include <algorithm>
#include <map>
#include <utility>
#include <variant>
#include <vector>

#include "engine/cpu/layout.h"

namespace sluice {
namespace {

bool AllAre(const std::vector<std::int64_t>& values, std::int64_t wanted) {
  return std::ranges::all_of(values, [wanted](std::int64_t value) { return value == wanted; });
}

bool ReadsSomePixels(const Graph& graph, const Node& node) {
  const auto* convolution = std::get_if<Convolution>(&node.operation);
  if (convolution == nullptr || convolution->transposed || AllAre(convolution->strides, 1)) {
    return false;
  }
  const Value& source = graph.value(*node.inputs[0]);
  return AllAre(convolution->kernel, 1) && AllAre(convolution->pads_begin, 0) &&
         AllAre(convolution->pads_end, 0) && CanBlock(source.type, source.shape) &&
         source.constant == nullptr && source.shape[1] % ChannelBlock() == 0;
}

}  // namespace

std::optional<Graph> SubsampleFirst(const Graph& graph) {
  const auto reads_some = [&](const Node& node) { return ReadsSomePixels(graph, node); };
  if (std::ranges::none_of(graph.nodes, reads_some)) return std::nullopt;
  Graph sampled = graph;
  sampled.nodes.clear();
  std::map<std::pair<ValueId, std::vector<std::int64_t>>, ValueId> samples;
  for (Node node : graph.nodes) {
    if (!reads_some(node)) {
      sampled.nodes.push_back(std::move(node));
      continue;
    }
    auto& convolution = std::get<Convolution>(node.operation);
    const ValueId source = *node.inputs[0];
    const auto [sample, is_new] = samples.try_emplace({source, convolution.strides});
    if (is_new) {
      Value value = graph.value(source);
      const Shape& result = graph.value(node.output).shape;
      std::copy(result.begin() + 2, result.end(), value.shape.begin() + 2);
      value.name += " subsample";
      Slice slice{.starts = std::vector<std::int64_t>(value.shape.size(), 0), .steps = {1, 1}};
      slice.steps.insert(slice.steps.end(), convolution.strides.begin(), convolution.strides.end());
      sample->second = sampled.Add(std::move(value));
      sampled.nodes.push_back(
          {node.name + " subsample", "", std::move(slice), {source}, sample->second});
    }
    convolution.strides.assign(convolution.strides.size(), 1);
    node.inputs[0] = sample->second;
    sampled.nodes.push_back(std::move(node));
  }
  return sampled;
}

}  // namespace sluice
