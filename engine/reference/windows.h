// engine/reference/windows.h
//
// Spatial attributes as three dimensions, whatever their number: missing outer ones have size 1.

#ifndef SLUICE_ENGINE_REFERENCE_WINDOWS_H_
#define SLUICE_ENGINE_REFERENCE_WINDOWS_H_

#include <array>
#include <cstdint>
#include <span>

namespace sluice::reference {

using Triple = std::array<std::int64_t, 3>;

// Requires: at most 3 entries.
inline Triple ToTriple(std::span<const std::int64_t> values, std::int64_t missing) {
  Triple triple{missing, missing, missing};
  for (std::size_t d = 0; d < values.size(); ++d) triple[3 - values.size() + d] = values[d];
  return triple;
}

inline std::int64_t Volume(const Triple& sizes) { return sizes[0] * sizes[1] * sizes[2]; }

inline bool Inside(const Triple& at, const Triple& sizes) {
  for (std::size_t d = 0; d < 3; ++d) {
    if (at[d] < 0 || at[d] >= sizes[d]) return false;
  }
  return true;
}

inline std::int64_t Offset(const Triple& at, const Triple& sizes) {
  return (at[0] * sizes[1] + at[1]) * sizes[2] + at[2];
}

// Calls visit(at) for every position of a volume, in row-major order.
template <typename Visit>
void ForEach(const Triple& sizes, const Visit& visit) {
  Triple at;
  for (at[0] = 0; at[0] < sizes[0]; ++at[0]) {
    for (at[1] = 0; at[1] < sizes[1]; ++at[1]) {
      for (at[2] = 0; at[2] < sizes[2]; ++at[2]) visit(at);
    }
  }
}

}  // namespace sluice::reference

#endif  // SLUICE_ENGINE_REFERENCE_WINDOWS_H_
