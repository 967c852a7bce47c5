#include "engine/cpu/join_plan.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <variant>

#include "engine/cpu/layout.h"

namespace sluice {
namespace {

// The nodes from the one that writes a value to the last that reads it.
struct Life {
  std::size_t first = 0, last = 0;
};

// The input whose bytes the output may take, when nobody else needs them.
std::optional<ValueId> Overwritable(const Node& node) {
  if (std::holds_alternative<Unary>(node.operation) ||
      std::holds_alternative<ChannelAffine>(node.operation)) {
    return node.inputs[0];
  }
  const auto* convolution = std::get_if<Convolution>(&node.operation);
  if (convolution == nullptr || convolution->epilogues.empty() ||
      convolution->epilogues[0].kind != Epilogue::Kind::kAdd) {
    return std::nullopt;
  }
  return node.inputs[convolution->epilogues[0].input];
}

class JoinPlanner {
 public:
  explicit JoinPlanner(const Graph& graph)
      : graph_(graph),
        lives_(graph.values.size()),
        computed_(graph.values.size()),
        places_(graph.values.size()) {
    for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
      for (const std::optional<ValueId>& input : graph.nodes[n].inputs) {
        if (input) lives_[Index(*input)].last = n;
      }
      lives_[Index(graph.nodes[n].output)] = {n, n};
      computed_[Index(graph.nodes[n].output)] = true;
    }
    for (const ValueId output : graph.outputs) {
      lives_[Index(output)].last = graph.nodes.size() - 1;
    }
  }

  std::vector<std::optional<JoinPlace>> Plan() {
    if (graph_.nodes.empty()) return std::move(places_);
    // From the last concat back, so that a whole which is a part itself has its place already.
    for (std::size_t n = graph_.nodes.size(); n-- > 0;) PlaceParts(graph_.nodes[n]);
    ShortenOverwritten();
    KeepWorthwhile();
    return std::move(places_);
  }

 private:
  void PlaceParts(const Node& node) {
    if (!JoinsBlocks(graph_, node) || graph_.value(node.output).shape[0] != 1) return;
    if (!places_[Index(node.output)]) {
      if (const std::optional<JoinPlace> within = PlaceOfParts(node)) {
        places_[Index(node.output)] = within;
        return;
      }
      places_[Index(node.output)] = JoinPlace{node.output, Bytes()};
    }
    JoinPlace place = *places_[Index(node.output)];
    for (const std::optional<ValueId>& input : node.inputs) {
      std::optional<JoinPlace>& part = places_[Index(*input)];
      if (!part && computed_[Index(*input)]) part = place;
      place.offset += Size(*input);
    }
  }

  // Where the result lies when all parts lie side by side in a longer whole.
  std::optional<JoinPlace> PlaceOfParts(const Node& node) const {
    const std::optional<JoinPlace> first = places_[Index(*node.inputs[0])];
    if (!first) return std::nullopt;
    JoinPlace place = *first;
    for (const std::optional<ValueId>& input : node.inputs) {
      const std::optional<JoinPlace>& part = places_[Index(*input)];
      if (!part || part->whole != place.whole || part->offset != place.offset) return std::nullopt;
      place.offset += Size(*input);
    }
    return first;
  }

  Bytes Size(ValueId id) const {
    const Value& value = graph_.value(id);
    if (value.constant != nullptr) return Bytes();
    return StorageBytes(value,
                        CanBlock(value.type, value.shape) ? Layout::kBlocked : Layout::kPlain);
  }

  // Nodes that are not joined often overwrite the input that ends with them: it does not live
  // together with the output.
  void ShortenOverwritten() {
    for (std::size_t n = 1; n < graph_.nodes.size(); ++n) {
      const std::optional<ValueId> input = Overwritable(graph_.nodes[n]);
      if (!input || !computed_[Index(*input)] || lives_[Index(*input)].last != n) continue;
      if (places_[Index(*input)] || places_[Index(graph_.nodes[n].output)]) continue;
      lives_[Index(*input)].last = n - 1;
    }
  }

  // Drops the wholes that make the peak of what lives together higher.
  void KeepWorthwhile() {
    std::vector<std::uint64_t> live(graph_.nodes.size());
    for (std::size_t v = 0; v < graph_.values.size(); ++v) {
      for (std::size_t n = lives_[v].first; n <= lives_[v].last; ++n) {
        live[n] += Size(At<ValueId>(v)).count();
      }
    }
    std::map<std::size_t, std::vector<std::size_t>> members;  // By whole, in order of values.
    for (std::size_t v = 0; v < places_.size(); ++v) {
      if (places_[v]) members[Index(places_[v]->whole)].push_back(v);
    }
    std::uint64_t peak = *std::ranges::max_element(live);
    for (const auto& [whole, values] : members) {
      Life life = lives_[whole];
      for (const std::size_t v : values) {
        life = {std::min(life.first, lives_[v].first), std::max(life.last, lives_[v].last)};
      }
      std::vector<std::uint64_t> joined = live;
      for (std::size_t n = life.first; n <= life.last; ++n) {
        joined[n] += Size(At<ValueId>(whole)).count();
      }
      for (const std::size_t v : values) {
        for (std::size_t n = lives_[v].first; n <= lives_[v].last; ++n) {
          joined[n] -= Size(At<ValueId>(v)).count();
        }
      }
      const std::uint64_t height = *std::ranges::max_element(joined);
      if (height <= peak) {
        live = std::move(joined);
        peak = height;
      } else {
        for (const std::size_t v : values) places_[v].reset();
      }
    }
  }

  const Graph& graph_;
  std::vector<Life> lives_;                       // Of each value.
  std::vector<bool> computed_;                    // By a node.
  std::vector<std::optional<JoinPlace>> places_;  // Of each value.
};

}  // namespace

std::vector<std::optional<JoinPlace>> PlanJoins(const Graph& graph) {
  return JoinPlanner(graph).Plan();
}

bool JoinsBlocks(const Graph& graph, const Node& node) {
  const auto* concat = std::get_if<Concat>(&node.operation);
  if (concat == nullptr || concat->axis != 1) return false;
  return std::ranges::all_of(node.inputs, [&](const std::optional<ValueId>& input) {
    const Value& part = graph.value(*input);
    return part.constant == nullptr && CanBlock(part.type, part.shape) &&
           part.shape[1] % ChannelBlock() == 0;
  });
}

}  // namespace sluice
