// model/recurrent_operations.h
//
// Recurrent layers.
//
// See model/operation.h for what all of these share.

#ifndef SLUICE_MODEL_RECURRENT_OPERATIONS_H_
#define SLUICE_MODEL_RECURRENT_OPERATIONS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "model/elementwise_operations.h"

namespace sluice {

// All steps of a recurrent layer but the products with its inputs, which are one matrix product of
// all steps at once. Inputs, T steps of a batch B: those products [T, B, D * G * H], recurrent
// weights [D, G * H, H], biases of both products [D, 2 * G * H], lengths [B] (kInt32: how many
// steps each sequence has), first hidden state [D, B, H], first cell state [D, B, H], peepholes [D,
// 3 * H] (of i, o and f); all but the first two may be absent. D is 2 for both directions, G the
// number of gates: 1, 3 (z r h) or 4 (i o f c). The output is a vector: the hidden states
// [T, D, B, H], zero after a sequence's end, the last ones [D, B, H], and of an LSTM the last cell
// states [D, B, H], one behind the other.
struct Recurrent {
  enum class Kind : std::uint8_t { kRnn, kGru, kLstm };
  enum class Direction : std::uint8_t { kForward, kReverse, kBidirectional };
  Kind kind = Kind::kLstm;
  Direction direction = Direction::kForward;
  std::vector<Unary> activations;     // For each direction: f; f, g; or f, g, h.
  float clip = 0;                     // Of what the activations of gates read; 0: none.
  bool linear_before_reset = false;   // Of a GRU: r multiplies the product, not the state.
  bool coupled_input_forget = false;  // Of an LSTM: f = 1 - i.
};

// Sizes that follow from the operation and its inputs' shapes.
struct RecurrentSizes {
  std::int64_t steps = 0, batch = 0, directions = 0, gates = 0, hidden = 0;

  // Elements of one set of states, and of the output.
  std::int64_t states() const { return directions * batch * hidden; }
  std::int64_t output(Recurrent::Kind kind) const {
    return states() * (steps + (kind == Recurrent::Kind::kLstm ? 2 : 1));
  }
};
// Requires: three dimensions each.
RecurrentSizes SizesOf(const Recurrent& op, std::span<const std::int64_t> products,
                       std::span<const std::int64_t> weights);

}  // namespace sluice

#endif  // SLUICE_MODEL_RECURRENT_OPERATIONS_H_
