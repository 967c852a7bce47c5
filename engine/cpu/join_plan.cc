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

std::optional<ValueId> Computed(const Graph& graph, std::optional<ValueId> value) {
  return value && graph.value(*value).constant == nullptr ? value : std::nullopt;
}

// Places for the parts of all concats but those that are elided.
class JoinPlanner {
 public:
  JoinPlanner(const Graph& graph, const std::vector<bool>& elided)
      : graph_(graph),
        elided_(elided),
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
    for (const ValueId output : ReadAtEnd(graph)) {
      lives_[Index(output)].last = graph.nodes.size() - 1;
    }
    for (const Node& node : graph.nodes) {
      if (!elided[Index(node.output)]) continue;
      for (const std::optional<ValueId>& part : node.inputs) {
        std::size_t& last = lives_[Index(*part)].last;
        last = std::max(last, lives_[Index(node.output)].last);
      }
    }
    // From the last concat back, so that a whole which is a part itself has its place already.
    for (std::size_t n = graph_.nodes.size(); n-- > 0;) PlaceParts(graph_.nodes[n]);
    ShortenOverwritten();
    KeepWorthwhile();
  }

  const std::vector<std::optional<JoinPlace>>& places() const { return places_; }
  std::uint64_t peak() const { return live_.empty() ? 0 : live_[peak_at_]; }
  // Whether the bytes of a value are alive where the most are.
  bool LivesAtPeak(ValueId id) const {
    const std::size_t value = Index(places_[Index(id)] ? places_[Index(id)]->whole : id);
    return lives_[value].first <= peak_at_ && peak_at_ <= lives_[value].last;
  }

 private:
  void PlaceParts(const Node& node) {
    if (!JoinsBlocks(graph_, node) || graph_.value(node.output).shape[0] != 1) return;
    if (elided_[Index(node.output)]) return;
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
    if (value.constant != nullptr || elided_[Index(id)]) return Bytes();
    return StorageBytes(value,
                        CanBlock(value.type, value.shape) ? Layout::kBlocked : Layout::kPlain);
  }

  // Nodes that are not joined often overwrite the input that ends with them: it does not live
  // together with the output.
  void ShortenOverwritten() {
    for (std::size_t n = 1; n < graph_.nodes.size(); ++n) {
      const std::optional<ValueId> input = OverwritableInput(graph_, graph_.nodes[n]);
      if (!input || !computed_[Index(*input)] || lives_[Index(*input)].last != n) continue;
      if (places_[Index(*input)] || places_[Index(graph_.nodes[n].output)]) continue;
      lives_[Index(*input)].last = n - 1;
    }
  }

  // Drops the wholes that make the peak of what lives together higher; the others live from their
  // first part on.
  void KeepWorthwhile() {
    live_.assign(graph_.nodes.size(), 0);
    if (live_.empty()) return;
    for (std::size_t v = 0; v < graph_.values.size(); ++v) {
      for (std::size_t n = lives_[v].first; n <= lives_[v].last; ++n) {
        live_[n] += Size(At<ValueId>(v)).count();
      }
    }
    std::map<std::size_t, std::vector<std::size_t>> members;  // By whole, in order of values.
    for (std::size_t v = 0; v < places_.size(); ++v) {
      if (places_[v]) members[Index(places_[v]->whole)].push_back(v);
    }
    std::uint64_t peak = *std::ranges::max_element(live_);
    for (const auto& [whole, values] : members) {
      Life life = lives_[whole];
      for (const std::size_t v : values) {
        life = {std::min(life.first, lives_[v].first), std::max(life.last, lives_[v].last)};
      }
      std::vector<std::uint64_t> joined = live_;
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
        live_ = std::move(joined);
        peak = height;
        lives_[whole] = life;
      } else {
        for (const std::size_t v : values) places_[v].reset();
      }
    }
    peak_at_ = static_cast<std::size_t>(std::ranges::max_element(live_) - live_.begin());
  }

  const Graph& graph_;
  const std::vector<bool>& elided_;
  std::vector<Life> lives_;                       // Of each value.
  std::vector<bool> computed_;                    // By a node.
  std::vector<std::optional<JoinPlace>> places_;  // Of each value.
  std::vector<std::uint64_t> live_;               // Bytes during each node.
  std::size_t peak_at_ = 0;
};

// By value: results of concats that convolutions alone read, of so few parts that computing them
// one by one costs little.
std::vector<bool> Elidable(const Graph& graph) {
  constexpr std::size_t kMostParts = 4;
  std::vector<bool> elidable(graph.values.size());
  for (const Node& node : graph.nodes) {
    elidable[Index(node.output)] =
        JoinsBlocks(graph, node) && node.inputs.size() >= 2 && node.inputs.size() <= kMostParts;
  }
  for (const Node& node : graph.nodes) {
    const auto* convolution = std::get_if<Convolution>(&node.operation);
    const bool sums =
        convolution != nullptr && !convolution->transposed && convolution->groups == 1;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] && (i > 0 || !sums)) elidable[Index(*node.inputs[i])] = false;
    }
  }
  for (const ValueId output : ReadAtEnd(graph)) elidable[Index(output)] = false;
  return elidable;
}

}  // namespace

std::optional<ValueId> OverwritableInput(const Graph& graph, const Node& node) {
  if (std::holds_alternative<Unary>(node.operation) ||
      std::holds_alternative<ChannelAffine>(node.operation)) {
    return Computed(graph, node.inputs[0]);
  }
  const auto* convolution = std::get_if<Convolution>(&node.operation);
  if (convolution == nullptr || convolution->epilogues.empty() ||
      convolution->epilogues[0].kind != Epilogue::Kind::kAdd) {
    return std::nullopt;
  }
  return Computed(graph, node.inputs[convolution->epilogues[0].input]);
}

JoinPlan PlanJoins(const Graph& graph) {
  std::vector<bool> elided(graph.values.size());
  const std::vector<bool> elidable = Elidable(graph);
  JoinPlanner joined(graph, elided);
  JoinPlan plan{joined.places(), elided};
  // Sums take time, so they must save something.
  std::uint64_t most = joined.peak() / 20 * 19;
  JoinPlanner* last = &joined;
  std::optional<JoinPlanner> planner;
  for (bool more = true; more;) {
    more = false;
    for (std::size_t v = 0; v < elided.size(); ++v) {
      if (!elidable[v] || elided[v] || !last->LivesAtPeak(At<ValueId>(v))) continue;
      elided[v] = more = true;
    }
    if (!more) break;
    planner.emplace(graph, elided);
    last = &*planner;
    if (last->peak() > most) continue;
    most = last->peak() - 1;
    plan = {last->places(), elided};
  }
  return plan;
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
