#include "model/element_cast.h"

#include <cstdint>

#include "base/check.h"
#include "model/element.h"

namespace sluice {
namespace {

template <typename From, typename To>
void Loop(const std::byte* x, std::byte* y, std::size_t n) {
  const auto* __restrict from = reinterpret_cast<const From*>(x);
  auto* __restrict to = reinterpret_cast<To*>(y);
  for (std::size_t i = 0; i < n; ++i) to[i] = Convert<To>(from[i]);
}

template <typename From>
CastLoop LoopTo(DataType to) {
  switch (to) {
    case DataType::kFloat32:
      return &Loop<From, float>;
    case DataType::kFloat64:
      return &Loop<From, double>;
    case DataType::kFloat16:
      return &Loop<From, Half>;
    case DataType::kBfloat16:
      return &Loop<From, Bfloat16>;
    case DataType::kInt8:
      return &Loop<From, std::int8_t>;
    case DataType::kInt16:
      return &Loop<From, std::int16_t>;
    case DataType::kInt32:
      return &Loop<From, std::int32_t>;
    case DataType::kInt64:
      return &Loop<From, std::int64_t>;
    case DataType::kUint8:
      return &Loop<From, std::uint8_t>;
    case DataType::kUint16:
      return &Loop<From, std::uint16_t>;
    case DataType::kUint32:
      return &Loop<From, std::uint32_t>;
    case DataType::kUint64:
      return &Loop<From, std::uint64_t>;
    case DataType::kBool:
      return &Loop<From, bool>;
  }
  SLUICE_CHECK(false);
  return nullptr;
}

}  // namespace

CastLoop CastLoopFor(DataType from, DataType to) {
  switch (from) {
    case DataType::kFloat32:
      return LoopTo<float>(to);
    case DataType::kFloat64:
      return LoopTo<double>(to);
    case DataType::kFloat16:
      return LoopTo<Half>(to);
    case DataType::kBfloat16:
      return LoopTo<Bfloat16>(to);
    case DataType::kInt8:
      return LoopTo<std::int8_t>(to);
    case DataType::kInt16:
      return LoopTo<std::int16_t>(to);
    case DataType::kInt32:
      return LoopTo<std::int32_t>(to);
    case DataType::kInt64:
      return LoopTo<std::int64_t>(to);
    case DataType::kBool:
      return LoopTo<Truth>(to);
    case DataType::kUint8:
      return LoopTo<std::uint8_t>(to);
    case DataType::kUint16:
      return LoopTo<std::uint16_t>(to);
    case DataType::kUint32:
      return LoopTo<std::uint32_t>(to);
    case DataType::kUint64:
      return LoopTo<std::uint64_t>(to);
  }
  SLUICE_CHECK(false);
  return nullptr;
}

}  // namespace sluice
