// model/recurrent_operations.h
//
// Recurrent layers.
//
// See model/operation.h for what all of these share.

#ifndef SLUICE_MODEL_RECURRENT_OPERATIONS_H_
#define SLUICE_MODEL_RECURRENT_OPERATIONS_H_

#include <cstdint>
#include <vector>

#include "model/elementwise_operations.h"

namespace sluice {

// All steps of a recurrent layer. Inputs, T steps of a batch B: x [T, B, I], weights [D, G * H, I],
// recurrent weights [D, G * H, H], bias [D, 2 * G * H], lengths [B] (kInt32), first hidden state
// [D, B, H], first cell state [D, B, H], peepholes [D, 3 * H]; all but the first three may be
// absent. D is 2 for both directions, G the number of gates: 1, 3 (z r h) or 4 (i o f c). The
// output is a vector: the hidden states [T, D, B, H], the last ones [D, B, H], and of an LSTM the
// last cell states [D, B, H], one behind the other.
struct Recurrent {
  enum class Kind : std::uint8_t { kRnn, kGru, kLstm };
  enum class Direction : std::uint8_t { kForward, kReverse, kBidirectional };
  Kind kind = Kind::kLstm;
  Direction direction = Direction::kForward;
  std::int64_t hidden = 0;
  std::vector<Unary> activations;  // For each direction: f; f, g; or f, g, h.
  float clip = 0;                  // Of what activations read; 0: none.
  bool linear_before_reset = false;
  bool coupled_input_forget = false;
};

}  // namespace sluice

#endif  // SLUICE_MODEL_RECURRENT_OPERATIONS_H_
