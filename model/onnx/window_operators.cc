// Convolutions and pools.

#include <algorithm>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "model/onnx/convolution_windows.h"
#include "model/onnx/onnx_node.h"
#include "model/shape_rule.h"

namespace sluice {
namespace {

enum class AutoPad : std::uint8_t { kNone, kValid, kSameUpper, kSameLower };

struct Windows {
  std::vector<std::int64_t> kernel, strides, dilations, pads_begin, pads_end;
  AutoPad auto_pad = AutoPad::kNone;

  std::int64_t Span(std::size_t d) const { return (kernel[d] - 1) * dilations[d] + 1; }
};

bool Sane(const std::vector<std::int64_t>& numbers, std::int64_t least) {
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  return std::ranges::all_of(numbers, [&](std::int64_t n) { return n >= least && n <= kMost; });
}

absl::StatusOr<AutoPad> ReadAutoPad(OnnxNode& node) {
  const std::string text = node.String("auto_pad", "NOTSET");
  if (text == "NOTSET" || text.empty()) return AutoPad::kNone;
  if (text == "VALID") return AutoPad::kValid;
  if (text == "SAME_UPPER") return AutoPad::kSameUpper;
  if (text == "SAME_LOWER") return AutoPad::kSameLower;
  return absl::InvalidArgumentError(
      absl::StrFormat("auto_pad is \"%s\", want NOTSET, VALID, SAME_UPPER or SAME_LOWER", text));
}

// The window attributes of a node over `spatial` dimensions; pads are 0 where auto_pad decides.
absl::StatusOr<Windows> ReadWindows(OnnxNode& node, std::vector<std::int64_t> kernel,
                                    std::size_t spatial) {
  Windows w;
  w.kernel = std::move(kernel);
  w.strides = node.Ints("strides");
  w.dilations = node.Ints("dilations");
  std::vector<std::int64_t> pads = node.Ints("pads");
  SLUICE_ASSIGN_OR_RETURN(w.auto_pad, ReadAutoPad(node));
  if (w.strides.empty()) w.strides.assign(spatial, 1);
  if (w.dilations.empty()) w.dilations.assign(spatial, 1);
  if (pads.empty() || w.auto_pad != AutoPad::kNone) pads.assign(2 * spatial, 0);
  if (w.kernel.size() != spatial || w.strides.size() != spatial || w.dilations.size() != spatial ||
      pads.size() != 2 * spatial || !Sane(w.kernel, 1) || !Sane(w.strides, 1) ||
      !Sane(w.dilations, 1) || !Sane(pads, 0)) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "got kernel_shape %s, strides %s, dilations %s, pads %s, want entries for %d spatial "
        "dimensions, positive ones",
        FormatShape(w.kernel), FormatShape(w.strides), FormatShape(w.dilations), FormatShape(pads),
        spatial));
  }
  w.pads_begin.assign(pads.begin(), pads.begin() + static_cast<std::ptrdiff_t>(spatial));
  w.pads_end.assign(pads.begin() + static_cast<std::ptrdiff_t>(spatial), pads.end());
  return w;
}

void SplitPad(std::int64_t total, bool more_at_end, std::int64_t& begin, std::int64_t& end) {
  begin = more_at_end ? total / 2 : total - total / 2;
  end = total - begin;
}

// SAME: as many windows as strides fit into the input.
void PadToSame(Windows& w, std::span<const std::int64_t> sizes) {
  if (w.auto_pad != AutoPad::kSameUpper && w.auto_pad != AutoPad::kSameLower) return;
  for (std::size_t d = 0; d < w.kernel.size(); ++d) {
    const std::int64_t count = (sizes[d] + w.strides[d] - 1) / w.strides[d];
    const std::int64_t total =
        std::max<std::int64_t>(0, (count - 1) * w.strides[d] + w.Span(d) - sizes[d]);
    SplitPad(total, w.auto_pad == AutoPad::kSameUpper, w.pads_begin[d], w.pads_end[d]);
  }
}

absl::Status NeedImage(const Shape& x) {
  const bool huge =
      std::ranges::any_of(x, [](std::int64_t n) { return n > (std::int64_t{1} << 40); });
  if (x.size() >= 3 && !huge) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrFormat(
      "input has shape %s, want batch, channels and spatial dimensions", FormatShape(x)));
}

absl::StatusOr<Windows> ConvolutionWindows(OnnxNode& node, std::size_t x_at = 0,
                                           std::size_t weights_at = 1) {
  const Shape x = node.shape(x_at), weights = node.shape(weights_at);
  SLUICE_RETURN_IF_ERROR(NeedImage(x));
  if (weights.size() != x.size()) {
    return absl::InvalidArgumentError(absl::StrFormat("weights have shape %s for an input of %s",
                                                      FormatShape(weights), FormatShape(x)));
  }
  const std::vector<std::int64_t> kernel(weights.begin() + 2, weights.end());
  const std::vector<std::int64_t> stated = node.Ints("kernel_shape");
  if (!stated.empty() && stated != kernel) {
    return absl::InvalidArgumentError(absl::StrFormat("kernel_shape is %s, the weights have %s",
                                                      FormatShape(stated), FormatShape(kernel)));
  }
  return ReadWindows(node, kernel, x.size() - 2);
}

Convolution AsOperation(OnnxNode& node, Windows w, bool transposed) {
  return {.kernel = std::move(w.kernel),
          .strides = std::move(w.strides),
          .dilations = std::move(w.dilations),
          .pads_begin = std::move(w.pads_begin),
          .pads_end = std::move(w.pads_end),
          .groups = node.Int("group", 1),
          .transposed = transposed,
          .epilogues = {}};
}

MaybeValue EmitConvolution(OnnxNode& node, Convolution op) {
  std::vector<std::optional<ValueId>> inputs = {node.input(0), node.input(1)};
  if (node.input(2)) inputs.push_back(node.input(2));
  return node.Emit(std::move(op), std::move(inputs));
}

MaybeValue Conv(OnnxNode& node) {
  SLUICE_ASSIGN_OR_RETURN(Convolution op, ConvolutionOf(node, 0, 1));
  return EmitConvolution(node, std::move(op));
}

// The output has stride * (size - 1) + output_padding + span - pads elements; `output_shape` turns
// that round and decides the pads.
MaybeValue ConvTranspose(OnnxNode& node) {
  SLUICE_ASSIGN_OR_RETURN(Windows w, ConvolutionWindows(node));
  const std::size_t spatial = w.kernel.size();
  const std::span<const std::int64_t> sizes = std::span(node.at(0).shape).subspan(2);
  std::vector<std::int64_t> extra = node.Ints("output_padding");
  std::vector<std::int64_t> wanted = node.Ints("output_shape");
  if (extra.empty()) extra.assign(spatial, 0);
  // Some exporters state batch and channels too.
  if (wanted.size() == spatial + 2) wanted.erase(wanted.begin(), wanted.begin() + 2);
  const bool same = w.auto_pad == AutoPad::kSameUpper || w.auto_pad == AutoPad::kSameLower;
  if (wanted.empty() && same) {
    for (std::size_t d = 0; d < spatial; ++d) wanted.push_back(sizes[d] * w.strides[d]);
  }
  if (extra.size() != spatial || !Sane(extra, 0) ||
      (!wanted.empty() && (wanted.size() != spatial || !Sane(wanted, 1)))) {
    return absl::InvalidArgumentError(
        absl::StrFormat("got output_padding %s and output_shape %s, want entries for %d spatial "
                        "dimensions",
                        FormatShape(extra), FormatShape(wanted), spatial));
  }
  for (std::size_t d = 0; d < spatial; ++d) {
    if (!wanted.empty()) {
      const std::int64_t total = w.strides[d] * (sizes[d] - 1) + extra[d] + w.Span(d) - wanted[d];
      SplitPad(std::max<std::int64_t>(0, total), w.auto_pad == AutoPad::kSameUpper, w.pads_begin[d],
               w.pads_end[d]);
      w.pads_end[d] += std::min<std::int64_t>(0, total);
    }
    w.pads_end[d] -= extra[d];
  }
  return EmitConvolution(node, AsOperation(node, std::move(w), true));
}

// With ceil_mode a last window may hang over the end, if it begins before it. Returns what each
// dimension needs beyond its pads.
std::vector<std::int64_t> CeilPads(const Windows& w, std::span<const std::int64_t> sizes) {
  std::vector<std::int64_t> extra(w.kernel.size(), 0);
  for (std::size_t d = 0; d < extra.size(); ++d) {
    const std::int64_t padded = sizes[d] + w.pads_begin[d] + w.pads_end[d];
    if (padded < w.Span(d)) continue;
    std::int64_t count = (padded - w.Span(d) + w.strides[d] - 1) / w.strides[d] + 1;
    if ((count - 1) * w.strides[d] >= sizes[d] + w.pads_begin[d]) --count;
    extra[d] = std::max<std::int64_t>(0, (count - 1) * w.strides[d] + w.Span(d) - padded);
  }
  return extra;
}

struct PoolSpec {
  Windows windows;
  std::vector<std::int64_t> extra;  // What ceil_mode adds to the pads at the end.

  bool hangs_over() const {
    return std::ranges::any_of(extra, [](std::int64_t n) { return n > 0; });
  }
  Pool Operation(Pool::Kind kind, bool count_include_pad) const {
    Pool op{.kind = kind,
            .kernel = windows.kernel,
            .strides = windows.strides,
            .dilations = windows.dilations,
            .pads_begin = windows.pads_begin,
            .pads_end = windows.pads_end,
            .count_include_pad = count_include_pad};
    for (std::size_t d = 0; d < extra.size(); ++d) op.pads_end[d] += extra[d];
    return op;
  }
};

absl::StatusOr<PoolSpec> ReadPool(OnnxNode& node) {
  const Shape x = node.shape(0);
  SLUICE_RETURN_IF_ERROR(NeedImage(x));
  PoolSpec spec;
  SLUICE_ASSIGN_OR_RETURN(spec.windows, ReadWindows(node, node.Ints("kernel_shape"), x.size() - 2));
  Windows& w = spec.windows;
  const std::span<const std::int64_t> sizes = std::span(x).subspan(2);
  PadToSame(w, sizes);
  for (std::size_t d = 0; d < w.kernel.size(); ++d) {
    if (std::max(w.pads_begin[d], w.pads_end[d]) >= w.Span(d)) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "pads %s and %s are not smaller than the kernel %s", FormatShape(w.pads_begin),
          FormatShape(w.pads_end), FormatShape(w.kernel)));
    }
  }
  spec.extra =
      node.Flag("ceil_mode") ? CeilPads(w, sizes) : std::vector<std::int64_t>(w.kernel.size(), 0);
  return spec;
}

MaybeValue MaxPool(OnnxNode& node) {
  SLUICE_ASSIGN_OR_RETURN(const PoolSpec spec, ReadPool(node));
  const Pool pool = spec.Operation(Pool::Kind::kMax, false);
  SLUICE_ASSIGN_OR_RETURN(const ValueId largest, node.Emit(pool, {node.input(0)}));
  if (node.output_count() > 1) {
    const PoolIndices where{.pool = pool, .column_major = node.Flag("storage_order")};
    SLUICE_ASSIGN_OR_RETURN(const ValueId indices,
                            node.Emit(where, {node.input(0)}, std::nullopt, DataType::kInt64));
    node.SetOutput(1, indices);
  }
  return largest;
}

MaybeValue AveragePool(OnnxNode& node) {
  SLUICE_ASSIGN_OR_RETURN(PoolSpec spec, ReadPool(node));
  const bool counts_pads = node.Flag("count_include_pad");
  if (!counts_pads || !spec.hangs_over()) {
    return node.Emit(spec.Operation(Pool::Kind::kAverage, counts_pads), {node.input(0)});
  }
  // The file's pads count and those of ceil_mode do not, so the first become real elements.
  Windows& w = spec.windows;
  Pad pad;
  pad.begin.assign(2, 0);
  pad.end.assign(2, 0);
  pad.begin.insert(pad.begin.end(), w.pads_begin.begin(), w.pads_begin.end());
  pad.end.insert(pad.end.end(), w.pads_end.begin(), w.pads_end.end());
  SLUICE_ASSIGN_OR_RETURN(const ValueId input, node.Emit(std::move(pad), {node.input(0)}));
  w.pads_begin.assign(w.kernel.size(), 0);
  w.pads_end.assign(w.kernel.size(), 0);
  return node.Emit(spec.Operation(Pool::Kind::kAverage, false), {input});
}

// p of an L-p norm, which opset 1 stated as a float.
absl::StatusOr<float> ReadOrder(OnnxNode& node) {
  const float p = node.opset() < 2 ? node.Float("p", 2) : static_cast<float>(node.Int("p", 2));
  if (p >= 1 && p < 1024) return p;
  return absl::InvalidArgumentError(absl::StrFormat("p is %g, want 1 or more", p));
}

// |x| to the power of p, or its inverse.
MaybeValue EmitPower(OnnxNode& node, ValueId x, float p, bool inverse) {
  if (p == 1) return inverse ? MaybeValue(x) : node.EmitUnary({.kind = Unary::Kind::kAbs}, x);
  if (p == 2) {
    return inverse ? node.EmitUnary({.kind = Unary::Kind::kSqrt}, x)
                   : node.EmitBinary(Binary::Kind::kMultiply, x, x);
  }
  ValueId base = x;
  if (!inverse) {
    SLUICE_ASSIGN_OR_RETURN(base, node.EmitUnary({.kind = Unary::Kind::kAbs}, x));
  }
  const float exponent = inverse ? 1 / p : p;
  return node.EmitBinary(Binary::Kind::kPower, base,
                         node.AddFloats(node.at(0).type, {}, std::span(&exponent, 1)));
}

// The sum over a window is its average times its size, when pads count as zeros.
MaybeValue LpPool(OnnxNode& node) {
  SLUICE_ASSIGN_OR_RETURN(const PoolSpec spec, ReadPool(node));
  SLUICE_ASSIGN_OR_RETURN(const float p, ReadOrder(node));
  SLUICE_ASSIGN_OR_RETURN(ValueId y, EmitPower(node, *node.input(0), p, false));
  SLUICE_ASSIGN_OR_RETURN(y, node.Emit(spec.Operation(Pool::Kind::kAverage, true), {y}));
  const auto window = static_cast<float>(ElementCount(spec.windows.kernel));
  SLUICE_ASSIGN_OR_RETURN(y, node.EmitUnary({.kind = Unary::Kind::kLinear, .alpha = window}, y));
  return EmitPower(node, y, p, true);
}

MaybeValue GlobalLpPool(OnnxNode& node) {
  const Shape x = node.shape(0);
  SLUICE_RETURN_IF_ERROR(NeedImage(x));
  SLUICE_ASSIGN_OR_RETURN(const float p, ReadOrder(node));
  Reduce sum{.kind = Reduce::Kind::kSum, .axes = {}};
  Shape shape = x;
  for (std::size_t d = 2; d < x.size(); ++d) {
    sum.axes.push_back(static_cast<std::int64_t>(d));
    shape[d] = 1;
  }
  SLUICE_ASSIGN_OR_RETURN(ValueId y, EmitPower(node, *node.input(0), p, false));
  SLUICE_ASSIGN_OR_RETURN(y, node.Emit(std::move(sum), {y}, shape));
  return EmitPower(node, y, p, true);
}

// The inverse of a max pool: zeros, with each element where it came from. Where another size is
// asked for than the windows give, what the indices count in is still that of the windows.
MaybeValue MaxUnpool(OnnxNode& node) {
  const Shape x = node.shape(0);
  SLUICE_RETURN_IF_ERROR(NeedImage(x));
  SLUICE_ASSIGN_OR_RETURN(const Windows w,
                          ReadWindows(node, node.Ints("kernel_shape"), x.size() - 2));
  Shape inferred = x;
  for (std::size_t d = 2; d < x.size(); ++d) {
    const std::int64_t around = w.kernel[d - 2] - w.pads_begin[d - 2] - w.pads_end[d - 2];
    const bool overflows = __builtin_mul_overflow(x[d] - 1, w.strides[d - 2], &inferred[d]) ||
                           __builtin_add_overflow(inferred[d], around, &inferred[d]);
    if (overflows || inferred[d] < 1 || inferred[d] > (std::int64_t{1} << 40)) {
      return absl::InvalidArgumentError(
          absl::StrFormat("dimension %d of the output has a size of %d", d, inferred[d]));
    }
  }
  const std::uint64_t total = ElementCount(inferred), given = ElementCount(x);
  if (total > (std::uint64_t{1} << 62)) {
    return absl::ResourceExhaustedError(absl::StrFormat("output shape %s", FormatShape(inferred)));
  }
  const float zero = 0;
  const Shape flat = {static_cast<std::int64_t>(given)};
  SLUICE_ASSIGN_OR_RETURN(
      const ValueId base,
      node.Emit(Expand{}, {node.AddFloats(node.at(0).type, {1}, std::span(&zero, 1))},
                Shape{static_cast<std::int64_t>(total)}));
  SLUICE_ASSIGN_OR_RETURN(const ValueId indices, node.EmitReshape(*node.input(1), flat));
  SLUICE_ASSIGN_OR_RETURN(const ValueId updates, node.EmitReshape(*node.input(0), flat));
  SLUICE_ASSIGN_OR_RETURN(ValueId y, node.Emit(ScatterElements{}, {base, indices, updates}));
  SLUICE_ASSIGN_OR_RETURN(y, node.EmitReshape(y, inferred));
  if (!node.input(2)) return y;
  SLUICE_ASSIGN_OR_RETURN(const Shape wanted, node.Integers(2));
  Pad pad{.begin = std::vector<std::int64_t>(x.size(), 0), .end = {}};
  for (std::size_t d = 0; d < x.size(); ++d) {
    const bool fits = wanted.size() == x.size() && wanted[d] >= inferred[d];
    if (!fits) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "output_shape is %s, the windows give %s", FormatShape(wanted), FormatShape(inferred)));
    }
    pad.end.push_back(wanted[d] - inferred[d]);
  }
  if (wanted == inferred) return y;
  return node.Emit(std::move(pad), {y});
}

template <Pool::Kind kind>
MaybeValue GlobalPool(OnnxNode& node) {
  const Shape x = node.shape(0);
  SLUICE_RETURN_IF_ERROR(NeedImage(x));
  const std::vector<std::int64_t> ones(x.size() - 2, 1), zeros(x.size() - 2, 0);
  return node.Emit(Pool{.kind = kind,
                        .kernel = {x.begin() + 2, x.end()},
                        .strides = ones,
                        .dilations = ones,
                        .pads_begin = zeros,
                        .pads_end = zeros},
                   {node.input(0)});
}

MaybeValue LocalNorm(OnnxNode& node) {
  if (!node.Has("size")) return absl::InvalidArgumentError("attribute \"size\" is missing");
  return node.Emit(Lrn{.size = node.Int("size", 1),
                       .alpha = node.Float("alpha", 1e-4f),
                       .beta = node.Float("beta", 0.75f),
                       .bias = node.Float("bias", 1)},
                   {node.input(0)});
}

constexpr OnnxOperator kOperators[] = {
    {"Conv", 2, 3, Conv},
    {"ConvTranspose", 2, 3, ConvTranspose},
    {"MaxPool", 1, 1, MaxPool},
    {"AveragePool", 1, 1, AveragePool},
    {"LpPool", 1, 1, LpPool},
    {"GlobalLpPool", 1, 1, GlobalLpPool},
    {"MaxUnpool", 2, 3, MaxUnpool},
    {"GlobalMaxPool", 1, 1, GlobalPool<Pool::Kind::kMax>},
    {"GlobalAveragePool", 1, 1, GlobalPool<Pool::Kind::kAverage>},
    {"LRN", 1, 1, LocalNorm},
};

}  // namespace

absl::StatusOr<Convolution> ConvolutionOf(OnnxNode& node, std::size_t x, std::size_t weights) {
  SLUICE_ASSIGN_OR_RETURN(Windows w, ConvolutionWindows(node, x, weights));
  PadToSame(w, std::span(node.at(x).shape).subspan(2));
  return AsOperation(node, std::move(w), false);
}

std::span<const OnnxOperator> WindowOperators() { return kOperators; }

}  // namespace sluice
