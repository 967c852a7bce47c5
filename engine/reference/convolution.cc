#include <cstdint>

#include "engine/reference/definitions.h"
#include "engine/reference/windows.h"

namespace sluice::reference {
namespace {

struct Geometry {
  Triple in, out, kernel, strides, dilations, pads;
  bool transposed;
};

Geometry GeometryOf(const Convolution& operation, const Tensor& x, const Result& y) {
  return {.in = ToTriple(x.shape.subspan(2), 1),
          .out = ToTriple(y.shape.subspan(2), 1),
          .kernel = ToTriple(operation.kernel, 1),
          .strides = ToTriple(operation.strides, 1),
          .dilations = ToTriple(operation.dilations, 1),
          .pads = ToTriple(operation.pads_begin, 0),
          .transposed = operation.transposed};
}

// The input position that kernel position k links to output position o; false when there is none.
bool InputPosition(const Geometry& g, const Triple& o, const Triple& k, Triple& i) {
  for (std::size_t d = 0; d < 3; ++d) {
    if (g.transposed) {
      const std::int64_t spread = o[d] + g.pads[d] - k[d] * g.dilations[d];
      if (spread < 0 || spread % g.strides[d] != 0) return false;
      i[d] = spread / g.strides[d];
    } else {
      i[d] = o[d] * g.strides[d] - g.pads[d] + k[d] * g.dilations[d];
    }
  }
  return Inside(i, g.in);
}

}  // namespace

void Define(const Convolution& operation, Operands inputs, const Result& y) {
  const Tensor &x = inputs[0], &weights = inputs[1];
  const Geometry g = GeometryOf(operation, x, y);
  const std::int64_t channels = x.shape[1], filters = y.shape[1];
  const std::int64_t group_channels = channels / operation.groups;
  const std::int64_t group_filters = filters / operation.groups;
  std::int64_t position = 0;
  for (std::int64_t n = 0; n < y.shape[0]; ++n) {
    for (std::int64_t m = 0; m < filters; ++m) {
      const std::int64_t group = m / group_filters;
      const bool has_bias = inputs.size() > 2 && inputs[2].present();
      const bool has_scale = inputs.size() > 3 && inputs[3].present();
      const double bias = has_bias ? inputs[2].floats()[m] : 0;
      const double scale = has_scale ? inputs[3].floats()[m] : 1;
      ForEach(g.out, [&](const Triple& o) {
        double sum = 0;
        for (std::int64_t c = 0; c < group_channels; ++c) {
          const std::int64_t channel = group * group_channels + c;
          const std::int64_t filter = operation.transposed
                                          ? channel * group_filters + m % group_filters
                                          : m * group_channels + c;
          const float* plane = x.floats() + (n * channels + channel) * Volume(g.in);
          const float* kernel = weights.floats() + filter * Volume(g.kernel);
          ForEach(g.kernel, [&](const Triple& k) {
            Triple i;
            if (!InputPosition(g, o, k, i)) return;
            sum += double{plane[Offset(i, g.in)]} * kernel[Offset(k, g.kernel)];
          });
        }
        const double value = sum * scale + bias;
        y.floats()[position] =
            static_cast<float>(Apply(operation.epilogues, inputs, position, value));
        ++position;
      });
    }
  }
}

}  // namespace sluice::reference
