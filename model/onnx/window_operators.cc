// Convolutions and pools.

#include <algorithm>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
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

absl::StatusOr<Windows> ConvolutionWindows(OnnxNode& node) {
  const Shape x = node.shape(0), weights = node.shape(1);
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

MaybeValue EmitConvolution(OnnxNode& node, Windows w, bool transposed) {
  Convolution op{.kernel = std::move(w.kernel),
                 .strides = std::move(w.strides),
                 .dilations = std::move(w.dilations),
                 .pads_begin = std::move(w.pads_begin),
                 .pads_end = std::move(w.pads_end),
                 .groups = node.Int("group", 1),
                 .transposed = transposed,
                 .epilogues = {}};
  std::vector<std::optional<ValueId>> inputs = {node.input(0), node.input(1)};
  if (node.input(2)) inputs.push_back(node.input(2));
  return node.Emit(std::move(op), std::move(inputs));
}

MaybeValue Conv(OnnxNode& node) {
  SLUICE_ASSIGN_OR_RETURN(Windows w, ConvolutionWindows(node));
  PadToSame(w, std::span(node.at(0).shape).subspan(2));
  return EmitConvolution(node, std::move(w), false);
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
  return EmitConvolution(node, std::move(w), true);
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

template <Pool::Kind kind>
MaybeValue PoolWindows(OnnxNode& node) {
  const Shape x = node.shape(0);
  SLUICE_RETURN_IF_ERROR(NeedImage(x));
  SLUICE_ASSIGN_OR_RETURN(Windows w, ReadWindows(node, node.Ints("kernel_shape"), x.size() - 2));
  const std::span<const std::int64_t> sizes = std::span(x).subspan(2);
  PadToSame(w, sizes);
  for (std::size_t d = 0; d < w.kernel.size(); ++d) {
    if (std::max(w.pads_begin[d], w.pads_end[d]) >= w.Span(d)) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "pads %s and %s are not smaller than the kernel %s", FormatShape(w.pads_begin),
          FormatShape(w.pads_end), FormatShape(w.kernel)));
    }
  }
  const std::vector<std::int64_t> extra =
      node.Flag("ceil_mode") ? CeilPads(w, sizes) : std::vector<std::int64_t>(w.kernel.size(), 0);
  const bool hangs_over = std::ranges::any_of(extra, [](std::int64_t n) { return n > 0; });
  ValueId input = *node.input(0);
  Pool op{.kind = kind,
          .kernel = w.kernel,
          .strides = w.strides,
          .dilations = w.dilations,
          .pads_begin = w.pads_begin,
          .pads_end = w.pads_end,
          .count_include_pad = kind == Pool::Kind::kAverage && node.Flag("count_include_pad")};
  if (op.count_include_pad && hangs_over) {
    // The file's pads count and those of ceil_mode do not, so the first become real elements.
    Pad pad;
    pad.begin.assign(2, 0);
    pad.end.assign(2, 0);
    pad.begin.insert(pad.begin.end(), w.pads_begin.begin(), w.pads_begin.end());
    pad.end.insert(pad.end.end(), w.pads_end.begin(), w.pads_end.end());
    SLUICE_ASSIGN_OR_RETURN(input, node.Emit(std::move(pad), {input}));
    op.count_include_pad = false;
    op.pads_begin.assign(w.kernel.size(), 0);
    op.pads_end.assign(w.kernel.size(), 0);
  }
  for (std::size_t d = 0; d < extra.size(); ++d) op.pads_end[d] += extra[d];
  return node.Emit(std::move(op), {input});
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
    {"MaxPool", 1, 1, PoolWindows<Pool::Kind::kMax>},
    {"AveragePool", 1, 1, PoolWindows<Pool::Kind::kAverage>},
    {"GlobalMaxPool", 1, 1, GlobalPool<Pool::Kind::kMax>},
    {"GlobalAveragePool", 1, 1, GlobalPool<Pool::Kind::kAverage>},
    {"LRN", 1, 1, LocalNorm},
};

}  // namespace

std::span<const OnnxOperator> WindowOperators() { return kOperators; }

}  // namespace sluice
