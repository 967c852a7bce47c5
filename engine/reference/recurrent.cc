#include <algorithm>
#include <cmath>
#include <vector>

#include "engine/reference/definitions.h"

namespace sluice::reference {
namespace {

using Vector = std::vector<double>;

// One sequence in one direction.
class Cell {
 public:
  Cell(const Recurrent& op, const RecurrentSizes& sizes, Operands inputs, std::int64_t direction,
       std::int64_t sequence)
      : op_(op),
        sizes_(sizes),
        inputs_(inputs),
        direction_(direction),
        hidden_(State(4, sequence)),
        cell_(State(5, sequence)) {}

  // `products`: where this step's gates begin.
  void Step(const float* products) {
    const std::int64_t n = sizes_.hidden;
    Vector next(hidden_.size());
    for (std::int64_t j = 0; j < n; ++j) next[Place(j)] = Next(products, j);
    hidden_ = next;
  }

  const Vector& hidden() const { return hidden_; }
  const Vector& cell() const { return cell_; }

 private:
  static std::size_t Place(std::int64_t j) { return static_cast<std::size_t>(j); }
  bool Has(std::size_t i) const { return i < inputs_.size() && inputs_[i].present(); }

  Vector State(std::size_t i, std::int64_t sequence) const {
    Vector state(Place(sizes_.hidden), 0.0);
    if (!Has(i)) return state;
    const float* from =
        inputs_[i].floats() + (direction_ * sizes_.batch + sequence) * sizes_.hidden;
    std::copy_n(from, state.size(), state.begin());
    return state;
  }

  double Bias(std::int64_t row, bool recurrent) const {
    if (!Has(2)) return 0;
    const std::int64_t rows = sizes_.gates * sizes_.hidden;
    return double{inputs_[2].floats()[(direction_ * 2 + (recurrent ? 1 : 0)) * rows + row]};
  }

  // Row `row` of the recurrent weights times a state.
  double Product(std::int64_t row, const Vector& state) const {
    const float* weights =
        inputs_[1].floats() + (direction_ * sizes_.gates * sizes_.hidden + row) * sizes_.hidden;
    double sum = 0;
    for (std::int64_t k = 0; k < sizes_.hidden; ++k) sum += double{weights[k]} * state[Place(k)];
    return sum;
  }

  double Sum(const float* products, std::int64_t row, const Vector& state) const {
    return double{products[row]} + Bias(row, false) + Bias(row, true) + Product(row, state);
  }

  double Activate(std::size_t which, double x) const {
    const std::size_t all = op_.activations.size() / static_cast<std::size_t>(sizes_.directions);
    if (op_.clip > 0) x = std::clamp(x, -double{op_.clip}, double{op_.clip});
    return Apply(op_.activations[all * static_cast<std::size_t>(direction_) + which], x);
  }

  double Peephole(std::int64_t which, std::int64_t j) const {
    if (!Has(6)) return 0;
    return double{inputs_[6].floats()[(direction_ * 3 + which) * sizes_.hidden + j]} *
           cell_[Place(j)];
  }

  double Next(const float* products, std::int64_t j) {
    const std::int64_t n = sizes_.hidden;
    if (op_.kind == Recurrent::Kind::kRnn) return Activate(0, Sum(products, j, hidden_));
    if (op_.kind == Recurrent::Kind::kGru) {
      const double z = Activate(0, Sum(products, j, hidden_));
      return (1 - z) * Candidate(products, j) + z * hidden_[Place(j)];
    }
    const double i = Activate(0, Sum(products, j, hidden_) + Peephole(0, j));
    const double f = op_.coupled_input_forget
                         ? 1 - i
                         : Activate(0, Sum(products, 2 * n + j, hidden_) + Peephole(2, j));
    const double c = Activate(1, Sum(products, 3 * n + j, hidden_));
    cell_[Place(j)] = f * cell_[Place(j)] + i * c;
    const double o = Activate(0, Sum(products, n + j, hidden_) + Peephole(1, j));
    const std::size_t all = op_.activations.size() / static_cast<std::size_t>(sizes_.directions);
    return o *
           Apply(op_.activations[all * static_cast<std::size_t>(direction_) + 2], cell_[Place(j)]);
  }

  double Candidate(const float* products, std::int64_t j) const {
    const std::int64_t n = sizes_.hidden, row = 2 * n + j;
    if (op_.linear_before_reset) {
      const double r = Activate(0, Sum(products, n + j, hidden_));
      return Activate(1, double{products[row]} + Bias(row, false) +
                             r * (Product(row, hidden_) + Bias(row, true)));
    }
    Vector reset(hidden_.size());
    for (std::int64_t k = 0; k < n; ++k) {
      reset[Place(k)] = Activate(0, Sum(products, n + k, hidden_)) * hidden_[Place(k)];
    }
    return Activate(1, Sum(products, row, reset));
  }

  const Recurrent& op_;
  const RecurrentSizes& sizes_;
  Operands inputs_;
  std::int64_t direction_;
  Vector hidden_, cell_;
};

}  // namespace

void Define(const Recurrent& operation, Operands inputs, const Result& y) {
  const RecurrentSizes sizes = SizesOf(operation, inputs[0].shape, inputs[1].shape);
  std::fill_n(y.floats(), y.count(), 0.0f);
  const std::int64_t states = sizes.states(), rows = sizes.gates * sizes.hidden;
  for (std::int64_t d = 0; d < sizes.directions; ++d) {
    const bool reverse = d == 1 || operation.direction == Recurrent::Direction::kReverse;
    for (std::int64_t b = 0; b < sizes.batch; ++b) {
      Cell cell(operation, sizes, inputs, d, b);
      std::int64_t length = sizes.steps;
      if (inputs.size() > 3 && inputs[3].present()) {
        length = std::clamp<std::int64_t>(inputs[3].as<std::int32_t>()[b], 0, sizes.steps);
      }
      const std::int64_t state = (d * sizes.batch + b) * sizes.hidden;
      const auto write = [&](const Vector& from, float* to) {
        std::ranges::transform(from, to, [](double x) { return static_cast<float>(x); });
      };
      for (std::int64_t i = 0; i < length; ++i) {
        const std::int64_t t = reverse ? length - 1 - i : i;
        cell.Step(inputs[0].floats() + ((t * sizes.batch + b) * sizes.directions + d) * rows);
        write(cell.hidden(), y.floats() + t * states + state);
      }
      write(cell.hidden(), y.floats() + sizes.steps * states + state);
      if (operation.kind == Recurrent::Kind::kLstm) {
        write(cell.cell(), y.floats() + (sizes.steps + 1) * states + state);
      }
    }
  }
}

}  // namespace sluice::reference
