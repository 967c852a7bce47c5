// Recurrent layers: sequences side by side over the team; a sequence that is alone splits the rows
// of its products, where they are long enough to pay for waking the team at every step.

#include <algorithm>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "engine/kernels/makers.h"
#include "engine/kernels/parallel.h"
#include "engine/kernels/typed_loops.h"

namespace sluice::kernels {
namespace {

// Multiplications that are worth as much as one element of ParallelFor: a step's products are split
// from a million of them on.
constexpr std::size_t kProductsPerElement = 64;

template <typename T>
class Activation {
 public:
  Activation(const Loops& loops, const Unary& unary)
      : unary_(unary),
        floats_(loops.unary[static_cast<std::size_t>(unary.kind)].loop),
        typed_(TypedUnaryFor(unary.kind,
                             std::is_same_v<T, float> ? DataType::kFloat32 : DataType::kFloat64)) {}

  bool exists() const { return typed_ != nullptr; }

  void operator()(T* y, std::size_t n) const {
    if constexpr (std::is_same_v<T, float>) {
      if (floats_ != nullptr) return floats_(y, y, n, unary_.alpha, unary_.beta);
    }
    auto* bytes = reinterpret_cast<std::byte*>(y);
    typed_(bytes, bytes, n, unary_.alpha, unary_.beta);
  }

 private:
  Unary unary_;
  UnaryLoop floats_;  // Null for rare functions.
  TypedUnary typed_;
};

// The inputs as Recurrent lists them; those that are absent are null.
template <typename T>
struct Given {
  explicit Given(std::span<const std::byte* const> inputs) {
    const auto at = [&](std::size_t i) {
      return reinterpret_cast<const T*>(i < inputs.size() ? inputs[i] : nullptr);
    };
    products = at(0), weights = at(1), bias = at(2), hidden = at(4), cell = at(5);
    peepholes = at(6);
    if (inputs.size() > 3) lengths = reinterpret_cast<const std::int32_t*>(inputs[3]);
  }

  const T *products, *weights, *bias, *hidden, *cell, *peepholes;
  const std::int32_t* lengths = nullptr;
};

template <typename T>
class Layer {
 public:
  Layer(const Recurrent& op, const RecurrentSizes& sizes, const Loops& loops)
      : op_(op),
        loops_(loops),
        steps_(static_cast<std::size_t>(sizes.steps)),
        batch_(static_cast<std::size_t>(sizes.batch)),
        directions_(static_cast<std::size_t>(sizes.directions)),
        gates_(static_cast<std::size_t>(sizes.gates)),
        hidden_(static_cast<std::size_t>(sizes.hidden)) {
    activations_.reserve(op.activations.size());
    for (const Unary& unary : op.activations) activations_.emplace_back(loops, unary);
  }

  bool complete() const {
    return std::ranges::all_of(activations_, [](const auto& f) { return f.exists(); });
  }
  std::size_t sequences() const { return directions_ * batch_; }
  // Elements for each sequence.
  std::size_t scratch() const { return (gates_ + 1) * hidden_; }

  void operator()(const Given<T>& in, T* y, T* scratch_memory) const {
    const std::size_t work =
        sequences() > 1 ? sequences() * steps_ * gates_ * hidden_ * hidden_ : 0;
    ParallelFor(sequences(), work, [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) {
        Sequence(in, {i / batch_, i % batch_}, y, scratch_memory + i * scratch());
      }
    });
  }

 private:
  struct Place {
    std::size_t direction, sequence;
  };
  // What one step of one sequence works on.
  struct Step {
    const T *products, *weights, *bias, *peepholes;
    const Activation<T>* f;
    T *hidden, *cell, *gates, *spare;
  };

  std::size_t rows() const { return gates_ * hidden_; }

  void Sequence(const Given<T>& in, Place at, T* y, T* scratch_memory) const {
    const std::size_t states = directions_ * batch_ * hidden_;
    const std::size_t state = (at.direction * batch_ + at.sequence) * hidden_;
    T* hidden = y + steps_ * states + state;
    T* cell = op_.kind == Recurrent::Kind::kLstm ? hidden + states : nullptr;
    Begin(in.hidden == nullptr ? nullptr : in.hidden + state, hidden);
    if (cell != nullptr) Begin(in.cell == nullptr ? nullptr : in.cell + state, cell);
    const auto part = [&](const T* all, std::size_t size) {
      return all == nullptr ? nullptr : all + at.direction * size;
    };
    Step step{.products = nullptr,
              .weights = part(in.weights, rows() * hidden_),
              .bias = part(in.bias, 2 * rows()),
              .peepholes = part(in.peepholes, 3 * hidden_),
              .f = &activations_[at.direction * (activations_.size() / directions_)],
              .hidden = hidden,
              .cell = cell,
              .gates = scratch_memory,
              .spare = scratch_memory + rows()};
    const std::size_t length = Length(in, at.sequence);
    const bool reverse = op_.direction == Recurrent::Direction::kReverse || at.direction == 1;
    for (std::size_t i = 0; i < length; ++i) {
      const std::size_t t = reverse ? length - 1 - i : i;
      step.products =
          in.products + ((t * batch_ + at.sequence) * directions_ + at.direction) * rows();
      Take(step);
      std::copy_n(hidden, hidden_, y + t * states + state);
    }
    for (std::size_t t = length; t < steps_; ++t) std::fill_n(y + t * states + state, hidden_, T{});
  }

  void Begin(const T* from, T* state) const {
    if (from == nullptr) {
      std::fill_n(state, hidden_, T{});
    } else {
      std::copy_n(from, hidden_, state);
    }
  }

  // Lengths come from outside: one that is out of range is taken to the nearest that is not.
  std::size_t Length(const Given<T>& in, std::size_t sequence) const {
    if (in.lengths == nullptr) return steps_;
    return std::min(steps_, static_cast<std::size_t>(std::max(0, in.lengths[sequence])));
  }

  void Take(const Step& step) const {
    switch (op_.kind) {
      case Recurrent::Kind::kRnn:
        Sum(step, 0, 1, step.hidden);
        Activate(step.f[0], step.gates, hidden_);
        std::copy_n(step.gates, hidden_, step.hidden);
        return;
      case Recurrent::Kind::kGru:
        return TakeGru(step);
      case Recurrent::Kind::kLstm:
        return TakeLstm(step);
    }
  }

  // Gates [begin, end): products, both biases, and the recurrent product with `state`.
  void Sum(const Step& step, std::size_t begin, std::size_t end, const T* state) const {
    for (std::size_t j = begin * hidden_; j < end * hidden_; ++j) {
      step.gates[j] = step.products[j];
      if (step.bias != nullptr) step.gates[j] += step.bias[j] + step.bias[rows() + j];
    }
    AddProducts(step, begin, end, state, step.gates + begin * hidden_);
  }

  void AddProducts(const Step& step, std::size_t begin, std::size_t end, const T* state,
                   T* y) const {
    const T* weights = step.weights + begin * hidden_ * hidden_;
    const std::size_t count = (end - begin) * hidden_;
    const std::size_t work = sequences() > 1 ? 0 : count * hidden_ / kProductsPerElement;
    ParallelFor(count, work, [&](std::size_t first, std::size_t last) {
      const T* row = weights + first * hidden_;
      if constexpr (std::is_same_v<T, float>) {
        loops_.dots(state, row, hidden_, y + first, last - first);
      } else {
        for (std::size_t i = first; i < last; ++i, row += hidden_) {
          for (std::size_t k = 0; k < hidden_; ++k) y[i] += state[k] * row[k];
        }
      }
    });
  }

  void Activate(const Activation<T>& f, T* y, std::size_t n) const {
    if (op_.clip > 0) {
      const auto bound = static_cast<T>(op_.clip);
      for (std::size_t j = 0; j < n; ++j) {
        y[j] = y[j] < -bound ? -bound : y[j] > bound ? bound : y[j];
      }
    }
    f(y, n);
  }

  void TakeGru(const Step& step) const {
    T *z = step.gates, *r = z + hidden_, *candidate = r + hidden_, *spare = step.spare;
    Sum(step, 0, 2, step.hidden);
    Activate(step.f[0], z, 2 * hidden_);
    if (op_.linear_before_reset) {
      const T* bias = step.bias == nullptr ? nullptr : step.bias + 2 * hidden_;
      Begin(bias == nullptr ? nullptr : bias + rows(), spare);
      AddProducts(step, 2, 3, step.hidden, spare);
      for (std::size_t j = 0; j < hidden_; ++j) {
        candidate[j] = step.products[2 * hidden_ + j] + r[j] * spare[j];
        if (bias != nullptr) candidate[j] += bias[j];
      }
    } else {
      for (std::size_t j = 0; j < hidden_; ++j) spare[j] = r[j] * step.hidden[j];
      Sum(step, 2, 3, spare);
    }
    Activate(step.f[1], candidate, hidden_);
    for (std::size_t j = 0; j < hidden_; ++j) {
      step.hidden[j] = (1 - z[j]) * candidate[j] + z[j] * step.hidden[j];
    }
  }

  void TakeLstm(const Step& step) const {
    T *i = step.gates, *o = i + hidden_, *f = o + hidden_, *c = f + hidden_;
    Sum(step, 0, 4, step.hidden);
    AddPeephole(step, 0, i);
    Activate(step.f[0], i, hidden_);
    if (op_.coupled_input_forget) {
      for (std::size_t j = 0; j < hidden_; ++j) f[j] = 1 - i[j];
    } else {
      AddPeephole(step, 2, f);
      Activate(step.f[0], f, hidden_);
    }
    Activate(step.f[1], c, hidden_);
    for (std::size_t j = 0; j < hidden_; ++j) step.cell[j] = f[j] * step.cell[j] + i[j] * c[j];
    AddPeephole(step, 1, o);
    Activate(step.f[0], o, hidden_);
    std::copy_n(step.cell, hidden_, step.hidden);
    step.f[2](step.hidden, hidden_);
    for (std::size_t j = 0; j < hidden_; ++j) step.hidden[j] *= o[j];
  }

  void AddPeephole(const Step& step, std::size_t which, T* gate) const {
    if (step.peepholes == nullptr) return;
    const T* weights = step.peepholes + which * hidden_;
    for (std::size_t j = 0; j < hidden_; ++j) gate[j] += weights[j] * step.cell[j];
  }

  Recurrent op_;
  const Loops& loops_;
  std::size_t steps_, batch_, directions_, gates_, hidden_;
  std::vector<Activation<T>> activations_;  // As the operation has them.
};

template <typename T>
absl::StatusOr<Kernel> MakeLayer(const Recurrent& operation, const Problem& problem) {
  Layer<T> layer(operation, SizesOf(operation, problem.input(0).shape, problem.input(1).shape),
                 problem.loops);
  if (!layer.complete()) {
    return absl::UnimplementedError(
        absl::StrFormat("%s: no kernel for its activations", Name(problem.node.operation)));
  }
  Kernel kernel;
  kernel.name = problem.KernelName("");
  kernel.scratch = Bytes::Of(layer.sequences() * layer.scratch() * sizeof(T));
  kernel.run = [layer = std::move(layer)](std::span<const std::byte* const> inputs,
                                          std::byte* output, std::byte* scratch) {
    layer(Given<T>(inputs), reinterpret_cast<T*>(output), reinterpret_cast<T*>(scratch));
  };
  return kernel;
}

}  // namespace

absl::StatusOr<Kernel> Make(const Recurrent& operation, const Problem& problem) {
  if (problem.output().type == DataType::kFloat64) return MakeLayer<double>(operation, problem);
  return MakeLayer<float>(operation, problem);
}

}  // namespace sluice::kernels
