#include "engine/weight_encoder.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <optional>

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/status_macros.h"

namespace sluice {
namespace {

constexpr float kLargestInt8 = 127;

float LoadFloat(const std::byte* at) {
  float value;
  std::memcpy(&value, at, sizeof(value));
  return value;
}

template <typename T>
void Store(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof(value));
}

// What the reader's loops make of it.
float Widened(Encoding encoding, std::uint16_t stored) {
  const std::uint32_t sign = (stored & 0x8000u) << 16;
  const std::uint32_t magnitude = stored & 0x7fffu;
  if (encoding == Encoding::kBfloat16) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(stored) << 16);
  }
  if (magnitude < 0x400u) {
    const float below = static_cast<float>(magnitude) * 0x1p-24F;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(below) | sign);
  }
  const std::uint32_t bias = magnitude < 0x7c00u ? 112u << 23 : 224u << 23;
  return std::bit_cast<float>(((magnitude << 13) + bias) | sign);
}

std::uint16_t Narrowed(Encoding encoding, float value) {
  return encoding == Encoding::kFloat16 ? ToFloat16(value) : ToBfloat16(value);
}

std::int8_t Quantised(float value, float scale) {
  if (!(scale > 0)) return 0;
  return static_cast<std::int8_t>(
      std::clamp(std::nearbyint(value / scale), -kLargestInt8, kLargestInt8));
}

std::uint64_t Slots(const ChannelMap& channels, std::uint64_t floats) {
  return channels.group == 0 ? 1 : floats / channels.group * channels.period;
}

// Calls visit(index, slot) for each float, the slot being that of its channel, until it says no.
template <typename Visit>
bool ForEachFloat(const ChannelMap& channels, std::uint64_t floats, const Visit& visit) {
  const std::uint64_t group = channels.group == 0 ? floats : channels.group;
  const std::size_t period = channels.group == 0 ? 1 : channels.period;
  std::size_t first_slot = 0;
  for (std::uint64_t first = 0; first < floats; first += group, first_slot += period) {
    std::size_t slot = first_slot;
    for (std::uint64_t i = first; i < first + group; ++i) {
      if (!visit(i, slot)) return false;
      if (++slot == first_slot + period) slot = first_slot;
    }
  }
  return true;
}

// One run: what it says, how it is stored, and its bytes as packed.
class RunEncoder {
 public:
  RunEncoder(const WeightRun& run, const EncodedRun& encoded, std::byte* packed)
      : run_(run), encoded_(encoded), packed_(packed) {}

  // Of a run that is multiplied by scales: those; elsewhere none are read.
  std::span<float> folded() {
    folded_.resize(FoldsScales() ? Slots(run_.channels, run_.floats) : 0);
    return folded_;
  }

  // Whether it can be stored so; adds what that changes.
  bool TryOut(WeightErrorSums& error) const {
    const bool exact = encoded_.encoding != Encoding::kInt8 && IsExactSource();
    return exact ? ComesBack() : MeasureRounding(error);
  }

  // Writes the stored form so that it ends at `end`, which is not before the run's own end, from
  // back to front: where it is written has been read. Returns where it begins.
  std::byte* WriteBefore(std::byte* end) const {
    if (encoded_.scales.group == 0) return WriteValues(0, run_.floats, end);
    for (std::uint64_t after = run_.floats; after > 0; after -= encoded_.scales.group) {
      const std::uint64_t first = after - encoded_.scales.group;
      const std::vector<float> scales = Scales(first);
      end = WriteValues(first, encoded_.scales.group, end, scales);
      end -= scales.size() * sizeof(float);
      std::memcpy(end, scales.data(), scales.size() * sizeof(float));
    }
    return end;
  }

 private:
  bool FoldsScales() const {
    return run_.scaled && encoded_.scales.group > 0 && encoded_.encoding != Encoding::kInt8;
  }
  bool IsExactSource() const {
    return encoded_.encoding == Encoding::kFloat16 ? run_.source == DataType::kFloat16
                                                   : run_.source == DataType::kBfloat16;
  }
  float at(std::uint64_t index) const { return LoadFloat(packed_ + index * sizeof(float)); }
  // What is stored of a float in 16 bits: it comes back as that times the folded scale.
  std::uint16_t Value16(float value, std::size_t slot) const {
    if (folded_.empty() || (value == 0 && folded_[slot] == 0)) {
      return Narrowed(encoded_.encoding, value);
    }
    return Narrowed(encoded_.encoding, value / folded_[slot]);
  }
  float Back16(float value, std::size_t slot) const {
    const float back = Widened(encoded_.encoding, Value16(value, slot));
    return folded_.empty() ? back : back * folded_[slot];
  }

  bool ComesBack() const {
    return ForEachFloat(run_.channels, run_.floats, [&](std::uint64_t i, std::size_t slot) {
      const float value = at(i);
      return std::bit_cast<std::uint32_t>(Back16(value, slot)) ==
             std::bit_cast<std::uint32_t>(value);
    });
  }

  // The scales of the group that begins at `first`.
  std::vector<float> Scales(std::uint64_t first) const {
    const ChannelMap& map = encoded_.scales;
    std::vector<float> scales(map.period, 0.0F);
    if (encoded_.encoding != Encoding::kInt8) {
      const std::size_t slot = FirstSlot(first);
      for (std::uint32_t j = 0; j < map.period; ++j) scales[j] = folded_[slot + j];
      return scales;
    }
    ForEachFloat({map.group, map.period}, map.group, [&](std::uint64_t i, std::size_t slot) {
      scales[slot] = std::max(scales[slot], std::abs(at(first + i)));
      return true;
    });
    for (float& scale : scales) scale /= kLargestInt8;
    return scales;
  }

  std::size_t FirstSlot(std::uint64_t first) const {
    return static_cast<std::size_t>(first / run_.channels.group * run_.channels.period);
  }

  std::byte* WriteValues(std::uint64_t first, std::uint64_t count, std::byte* end,
                         std::span<const float> scales = {}) const {
    const std::size_t first_slot = folded_.empty() ? 0 : FirstSlot(first);
    const std::size_t period = scales.empty() ? 1 : scales.size();
    std::size_t j = count % period;  // Of the float behind, in the period.
    for (std::uint64_t i = first + count; i-- > first;) {
      j = (j == 0 ? period : j) - 1;
      if (encoded_.encoding == Encoding::kInt8) {
        const std::int8_t value = Quantised(at(i), scales[j]);
        Store(--end, value);
      } else {
        const std::uint16_t value = Value16(at(i), first_slot + j);
        end -= sizeof(value);
        Store(end, value);
      }
    }
    return end;
  }

  bool MeasureRounding(WeightErrorSums& error) const {
    std::vector<float> largest(Slots(run_.channels, run_.floats), 0.0F);
    const bool finite =
        ForEachFloat(run_.channels, run_.floats, [&](std::uint64_t i, std::size_t slot) {
          largest[slot] = std::max(largest[slot], std::abs(at(i)));
          return std::isfinite(at(i));
        });
    if (!finite) return false;
    WeightErrorSums sums;
    const bool fits =
        ForEachFloat(run_.channels, run_.floats, [&](std::uint64_t i, std::size_t slot) {
          const float value = at(i);
          const float scale = largest[slot] / kLargestInt8;
          const float back = encoded_.encoding == Encoding::kInt8
                                 ? static_cast<float>(Quantised(value, scale)) * scale
                                 : Back16(value, slot);
          if (!std::isfinite(back)) return false;
          const double off = std::abs(static_cast<double>(back) - static_cast<double>(value));
          const auto channel = static_cast<double>(largest[slot]);
          if (channel > 0) sums.largest = std::max(sums.largest, off / channel);
          sums.error_squares += off * off;
          sums.squares += static_cast<double>(value) * static_cast<double>(value);
          return true;
        });
    if (fits) error.Add(sums);
    return fits;
  }

  const WeightRun& run_;
  const EncodedRun& encoded_;
  std::byte* const packed_;
  std::vector<float> folded_;
};

// Moves the raw bytes and writes the runs, from the last to the first, to the end of `pages`.
absl::Status Narrow(Program& program, ExtentIndex extent, std::span<const std::size_t> taken,
                    const PackedExtent& packed, std::span<std::byte> pages) {
  const ExtentInfo& info = program.extents()[Index(extent)];
  std::byte* to = pages.data() + pages.size();
  Bytes after = info.size;
  for (std::size_t r = packed.runs.size(); r-- > 0;) {
    const EncodedRun& run = packed.runs[r];
    const Bytes run_end = run.offset + Bytes::Of(run.floats * sizeof(float));
    const Bytes raw = after - run_end;
    to -= raw.count();
    std::memmove(to, pages.data() + run_end.count(), raw.count());
    RunEncoder encoder(info.runs[taken[r]], run, pages.data() + run.offset.count());
    if (const std::span<float> folded = encoder.folded(); !folded.empty()) {
      SLUICE_RETURN_IF_ERROR(program.ReadScale(extent, taken[r], folded));
    }
    to = encoder.WriteBefore(to);
    after = run.offset;
  }
  to -= after.count();
  std::memmove(to, pages.data(), after.count());
  const std::span<std::byte> stored = StoredPages(pages, packed);
  std::fill(stored.data(), to, std::byte{0});
  return absl::OkStatus();
}

}  // namespace

void WeightErrorSums::Add(const WeightErrorSums& other) {
  largest = std::max(largest, other.largest);
  squares += other.squares;
  error_squares += other.error_squares;
}

WeightError WeightErrorSums::error() const {
  return {.largest = largest, .rms = squares > 0 ? std::sqrt(error_squares / squares) : 0};
}

std::string ErrorText(const WeightError& error) {
  if (error.largest == 0) return "none was changed";
  return absl::StrFormat(
      "storing changed them by %.3g %% (root mean square), one by %.3g %% of its channel's largest",
      100 * error.rms, 100 * error.largest);
}

std::span<std::byte> StoredPages(std::span<std::byte> pages, const PackedExtent& packed) {
  const std::uint64_t size = AlignUp(packed.stored, kPageSize).count();
  return packed.runs.empty() ? pages.first(size) : pages.last(size);
}

absl::StatusOr<PackedExtent> PackExtent(Program& program, ExtentIndex extent, WeightStorage storage,
                                        std::span<std::byte> pages) {
  const ExtentInfo& info = program.extents()[Index(extent)];
  SLUICE_CHECK(pages.size() == AlignUp(info.size, kPageSize).count());
  SLUICE_RETURN_IF_ERROR(program.Pack(extent, pages.first(info.size.count())));
  std::ranges::fill(pages.subspan(info.size.count()), std::byte{0});
  PackedExtent packed;
  std::vector<std::size_t> taken;  // Of the program's runs.
  for (std::size_t r = 0; r < info.runs.size(); ++r) {
    const WeightRun& run = info.runs[r];
    const std::optional<EncodedRun> planned = PlannedRun(run, storage);
    if (!planned) continue;
    RunEncoder encoder(run, *planned, pages.data() + run.offset.count());
    if (const std::span<float> folded = encoder.folded(); !folded.empty()) {
      SLUICE_RETURN_IF_ERROR(program.ReadScale(extent, r, folded));
    }
    if (!encoder.TryOut(packed.error)) continue;
    packed.runs.push_back(*planned);
    taken.push_back(r);
  }
  packed.stored = StoredSize(info.size, packed.runs);
  if (!packed.runs.empty()) {
    SLUICE_RETURN_IF_ERROR(Narrow(program, extent, taken, packed, pages));
  }
  return packed;
}

std::uint16_t ToFloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000u);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) {
    // Some bit of the payload must stay set, or it would be infinity.
    const std::uint32_t payload = magnitude >> 13 & 0x3ffu;
    return static_cast<std::uint16_t>(sign | 0x7c00u | (payload == 0 ? 0x200u : payload));
  }
  // 65520 is halfway between the largest number and what would follow it.
  if (magnitude >= 0x477ff000u) return static_cast<std::uint16_t>(sign | 0x7c00u);
  if (magnitude < 0x38800000u) {  // Below the normal numbers: whole steps of 2^-24, exactly.
    const float steps = std::bit_cast<float>(magnitude) * 0x1p24F;
    return static_cast<std::uint16_t>(sign | static_cast<std::uint32_t>(std::nearbyint(steps)));
  }
  const std::uint32_t rounded = magnitude + 0xfffu + (magnitude >> 13 & 1u);
  return static_cast<std::uint16_t>(sign | ((rounded >> 13) - (112u << 10)));
}

std::uint16_t ToBfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) {
    const auto upper = static_cast<std::uint16_t>(bits >> 16);
    return (upper & 0x7fu) == 0 ? static_cast<std::uint16_t>(upper | 0x40u) : upper;
  }
  return static_cast<std::uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

}  // namespace sluice
