// base/ids.h
//
// Names for things that are counted. They never mix, and none is a plain number.

#ifndef SLUICE_BASE_IDS_H_
#define SLUICE_BASE_IDS_H_

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace sluice {

enum class ValueId : std::uint32_t {};      // A tensor of a graph.
enum class BufferIndex : std::uint32_t {};  // Bytes of an intermediate tensor or of scratch.
enum class ExtentIndex : std::uint32_t {};  // A run of packed weights in a package.
enum class StepIndex : std::uint32_t {};    // A kernel launch; steps run in this order.

// Half-open: [begin, end). All our ranges are.
struct StepRange {
  StepIndex begin{};
  StepIndex end{};
  friend constexpr bool operator==(const StepRange&, const StepRange&) = default;
};

// The number behind a name, to index a vector with.
template <typename Id>
requires std::is_enum_v<Id>
constexpr std::size_t Index(Id id) { return static_cast<std::size_t>(id); }

// The name for position `i`. Requires: it fits 32 bits.
template <typename Id>
requires std::is_enum_v<Id>
constexpr Id At(std::size_t i) { return static_cast<Id>(static_cast<std::uint32_t>(i)); }

}  // namespace sluice

#endif  // SLUICE_BASE_IDS_H_
