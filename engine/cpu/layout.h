// engine/cpu/layout.h
//
// The two layouts that a tensor may have on this backend, and their descriptions for oneDNN.
//
//   plain     row-major, any type and shape
//   blocked   [N, C / b, spatial..., b]: b channels of one pixel lie side by side; the last block
//             is filled up with zeros. b is 16 with AVX-512, otherwise 8. fp32, ranks 3 to 5.

#ifndef SLUICE_ENGINE_CPU_LAYOUT_H_
#define SLUICE_ENGINE_CPU_LAYOUT_H_

#include <cstddef>
#include <cstdint>
#include <oneapi/dnnl/dnnl.hpp>
#include <string_view>

#include "base/bytes.h"
#include "model/graph.h"

namespace sluice {

enum class Layout : std::uint8_t { kPlain, kBlocked };
std::string_view Name(Layout layout);  // "plain", "nChw16c".

// Channels of one block.
std::int64_t ChannelBlock();

// Whether a tensor can have the blocked layout.
bool CanBlock(DataType type, const Shape& shape);

// Requires: fp32; for kBlocked a shape that can have it.
dnnl::memory::desc Describe(const Shape& shape, Layout layout);

// Bytes of a tensor, filling zeros included. Requires: for kBlocked a shape that can have it.
Bytes StorageBytes(const Value& value, Layout layout);

// The shape with its channels rounded up to whole blocks: the blocked bytes, filling included.
// oneDNN's element-wise primitives are given this shape, because some (2.6) leave out part of a
// tensor whose last block is not full.
Shape FullBlocks(const Shape& shape);

// True when both layouts of this shape are the same bytes in the same order.
bool LayoutsCoincide(const Shape& shape);

// The blocked bytes as a row-major tensor of one rank more.
// Requires: channels are a multiple of the block.
Shape BlockedView(const Shape& shape);

}  // namespace sluice

#endif  // SLUICE_ENGINE_CPU_LAYOUT_H_
