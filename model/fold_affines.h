// model/fold_affines.h
//
// Operations that are y = x * scale + shift along one dimension, in whatever form.

#ifndef SLUICE_MODEL_FOLD_AFFINES_H_
#define SLUICE_MODEL_FOLD_AFFINES_H_

#include <cstddef>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "model/graph_editor.h"

namespace sluice {

// y = x * scale + shift, with one entry for each index of dimension `axis` of x, or a single one
// when it is the same for all.
struct Affine {
  ValueId x{};
  std::size_t axis = 0;
  std::vector<float> scale, shift;
  bool uniform() const { return scale.size() == 1; }
};

// What a node computes, when it is a ChannelAffine without a tail, a linear Unary, or a Binary with
// a constant that varies along one dimension at most; nullopt otherwise. Fails: DATA_LOSS, the
// constant cannot be read.
absl::StatusOr<std::optional<Affine>> AsAffine(const GraphEditor& editor, std::size_t node);

}  // namespace sluice

#endif  // SLUICE_MODEL_FOLD_AFFINES_H_
