#include <cmath>
#include <cstdint>
#include <limits>

#include "engine/reference/definitions.h"
#include "engine/reference/windows.h"

namespace sluice::reference {

void Define(const Pool& operation, Operands inputs, const Result& y) {
  const Tensor& x = inputs[0];
  const Triple in = ToTriple(x.shape.subspan(2), 1), out = ToTriple(y.shape.subspan(2), 1);
  const Triple kernel = ToTriple(operation.kernel, 1), strides = ToTriple(operation.strides, 1);
  const Triple dilations = ToTriple(operation.dilations, 1);
  const Triple pads = ToTriple(operation.pads_begin, 0);
  float* to = y.floats();
  for (std::int64_t plane = 0; plane < y.shape[0] * y.shape[1]; ++plane) {
    const float* from = x.floats() + plane * Volume(in);
    ForEach(out, [&](const Triple& o) {
      double sum = 0, largest = -std::numeric_limits<double>::infinity();
      std::int64_t count = 0;
      ForEach(kernel, [&](const Triple& k) {
        Triple i;
        for (std::size_t d = 0; d < 3; ++d) {
          i[d] = o[d] * strides[d] - pads[d] + k[d] * dilations[d];
        }
        if (!Inside(i, in)) return;
        const double value = from[Offset(i, in)];
        sum += value;
        if (std::isnan(value) || value > largest) largest = value;
        ++count;
      });
      if (operation.kind == Pool::Kind::kMax) {
        *to++ = count == 0 ? std::numeric_limits<float>::lowest() : static_cast<float>(largest);
      } else {
        const std::int64_t divisor = operation.count_include_pad ? Volume(kernel) : count;
        *to++ = count == 0 ? 0.0f : static_cast<float>(sum / static_cast<double>(divisor));
      }
    });
  }
}

void Define(const Lrn& operation, Operands inputs, const Result& y) {
  const std::int64_t channels = y.shape[1];
  std::int64_t spatial = 1;
  for (std::size_t d = 2; d < y.rank(); ++d) spatial *= y.shape[d];
  const float* x = inputs[0].floats();
  for (std::int64_t i = 0; i < y.count(); ++i) {
    const std::int64_t c = i / spatial % channels;
    double squares = 0;
    for (std::int64_t k = c - (operation.size - 1) / 2; k <= c + operation.size / 2; ++k) {
      if (k < 0 || k >= channels) continue;
      const double value = x[i + (k - c) * spatial];
      squares += value * value;
    }
    const double norm =
        operation.bias + operation.alpha / static_cast<double>(operation.size) * squares;
    y.floats()[i] = static_cast<float>(x[i] / std::pow(norm, double{operation.beta}));
  }
}

}  // namespace sluice::reference
