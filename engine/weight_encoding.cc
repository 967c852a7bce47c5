#include "engine/weight_encoding.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "engine/widen_loops.h"

namespace sluice {
namespace {

struct StorageName {
  WeightStorage storage;
  std::string_view name;
};

constexpr std::array<StorageName, 4> kStorageNames = {{{WeightStorage::kAsIs, "as_is"},
                                                       {WeightStorage::kFloat16, "fp16"},
                                                       {WeightStorage::kBfloat16, "bf16"},
                                                       {WeightStorage::kInt8, "int8"}}};

// Floats that are widened at a time: their stored form is set aside first, since where it lies may
// be where they go.
constexpr std::size_t kChunk = 4096;
static_assert(kChunk >= kMostPeriod);

constexpr std::uint64_t Width(Encoding encoding) { return encoding == Encoding::kInt8 ? 1 : 2; }

bool HasScales(const EncodedRun& run) { return run.scales.group > 0; }

// Whether groups with scales in front take no more bytes than their floats.
bool GroupsShrink(const ChannelMap& channels, Encoding encoding) {
  return channels.period <= channels.group && channels.period <= kMostPeriod &&
         channels.period * sizeof(float) <= channels.group * (sizeof(float) - Width(encoding));
}

bool CanScale(const WeightRun& run, Encoding encoding) {
  return run.channels.group > 0 && GroupsShrink(run.channels, encoding);
}

EncodedRun Encoded(const WeightRun& run, Encoding encoding, bool scaled) {
  return {.offset = run.offset,
          .floats = run.floats,
          .encoding = encoding,
          .scales = scaled ? run.channels : ChannelMap()};
}

std::optional<Encoding> EncodingOf(DataType source) {
  if (source == DataType::kFloat16) return Encoding::kFloat16;
  if (source == DataType::kBfloat16) return Encoding::kBfloat16;
  return std::nullopt;
}

// Where the reader is: what it has written, and what it has not read yet.
struct Cursor {
  std::byte* to;
  const std::byte* from;
};

void CopyRaw(Cursor& cursor, std::size_t bytes) {
  if (bytes > 0) std::memmove(cursor.to, cursor.from, bytes);
  cursor.to += bytes;
  cursor.from += bytes;
}

template <typename Stored>
class Widener {
 public:
  using Plain = void (*)(const Stored*, float*, std::size_t);
  using Scaled = void (*)(const Stored*, const float*, std::size_t, float*, std::size_t);

  Widener(Plain plain, Scaled scaled) : plain_(plain), scaled_(scaled) {}

  void Run(const EncodedRun& run, Cursor& cursor) {
    if (!HasScales(run)) {
      Values(run.floats, kChunk, 0, cursor);
      return;
    }
    const std::size_t period = run.scales.period;
    for (std::uint64_t done = 0; done < run.floats; done += run.scales.group) {
      std::memcpy(scales_.data(), cursor.from, period * sizeof(float));
      cursor.from += period * sizeof(float);
      Values(run.scales.group, kChunk / period * period, period, cursor);
    }
  }

 private:
  void Values(std::uint64_t count, std::size_t chunk, std::size_t period, Cursor& cursor) {
    for (std::uint64_t done = 0; done < count;) {
      const auto n = static_cast<std::size_t>(std::min<std::uint64_t>(chunk, count - done));
      std::memcpy(stored_.data(), cursor.from, n * sizeof(Stored));
      auto* const to = reinterpret_cast<float*>(cursor.to);
      if (period == 0) {
        plain_(stored_.data(), to, n);
      } else {
        scaled_(stored_.data(), scales_.data(), period, to, n);
      }
      cursor.from += n * sizeof(Stored);
      cursor.to += n * sizeof(float);
      done += n;
    }
  }

  const Plain plain_;
  const Scaled scaled_;
  alignas(64) std::array<Stored, kChunk> stored_;
  alignas(64) std::array<float, kMostPeriod> scales_;
};

void WidenRun(const EncodedRun& run, Cursor& cursor) {
  static const WidenLoops& loops = BestWidenLoops();
  switch (run.encoding) {
    case Encoding::kFloat16:
      return Widener<std::uint16_t>(loops.half, loops.half_scaled).Run(run, cursor);
    case Encoding::kBfloat16:
      return Widener<std::uint16_t>(loops.bfloat, loops.bfloat_scaled).Run(run, cursor);
    case Encoding::kInt8:
      return Widener<std::int8_t>(nullptr, loops.int8_scaled).Run(run, cursor);
  }
}

absl::Status CheckRun(Bytes end_before, Bytes size, const EncodedRun& run) {
  const auto refused = [&](std::string_view wanted) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "a run of %d floats at %d (encoding %d, scales of %d in groups of %d), want %s", run.floats,
        run.offset.count(), static_cast<int>(run.encoding), run.scales.period, run.scales.group,
        wanted));
  };
  if (run.encoding < Encoding::kFloat16 || run.encoding > Encoding::kInt8) {
    return refused("an encoding from 1 to 3");
  }
  const Bytes floats = Bytes::Of(sizeof(float)) * run.floats;
  if (floats < kLeastRun || run.offset.count() % sizeof(float) != 0 || run.offset < end_before ||
      run.offset + floats > size) {
    return refused(absl::StrFormat("at least %d bytes within [%d, %d)", kLeastRun.count(),
                                   end_before.count(), size.count()));
  }
  if (!HasScales(run)) {
    if (run.scales.period != 0 || run.encoding == Encoding::kInt8) return refused("scales");
    return absl::OkStatus();
  }
  // The group is bounded by the floats, so that nothing here overflows.
  if (run.scales.group > run.floats || run.floats % run.scales.group != 0 ||
      run.scales.period == 0 || run.scales.group % run.scales.period != 0 ||
      !GroupsShrink(run.scales, run.encoding)) {
    return refused("whole groups of whole periods that are smaller than their floats");
  }
  return absl::OkStatus();
}

}  // namespace

std::string_view Name(WeightStorage storage) {
  return std::ranges::find(kStorageNames, storage, &StorageName::storage)->name;
}

std::optional<WeightStorage> WeightStorageFromName(std::string_view name) {
  const auto* const found = std::ranges::find(kStorageNames, name, &StorageName::name);
  if (found == kStorageNames.end()) return std::nullopt;
  return found->storage;
}

std::optional<EncodedRun> PlannedRun(const WeightRun& run, WeightStorage storage) {
  if (Bytes::Of(sizeof(float)) * run.floats < kLeastRun) return std::nullopt;
  if (storage == WeightStorage::kInt8 && run.may_change && CanScale(run, Encoding::kInt8)) {
    return Encoded(run, Encoding::kInt8, true);
  }
  if (const std::optional<Encoding> exact = EncodingOf(run.source)) {
    if (!run.scaled) return Encoded(run, *exact, false);
    if (CanScale(run, *exact)) return Encoded(run, *exact, true);
  }
  if (storage == WeightStorage::kAsIs || !run.may_change) return std::nullopt;
  return Encoded(run, storage == WeightStorage::kFloat16 ? Encoding::kFloat16 : Encoding::kBfloat16,
                 false);
}

std::vector<EncodedRun> PlannedRuns(std::span<const WeightRun> runs, WeightStorage storage) {
  std::vector<EncodedRun> planned;
  planned.reserve(runs.size());
  for (const WeightRun& run : runs) {
    if (const std::optional<EncodedRun> one = PlannedRun(run, storage)) planned.push_back(*one);
  }
  return planned;
}

Bytes StoredSize(const EncodedRun& run) {
  const std::uint64_t values = run.floats * Width(run.encoding);
  if (!HasScales(run)) return Bytes::Of(values);
  return Bytes::Of(values + run.floats / run.scales.group * run.scales.period * sizeof(float));
}

Bytes StoredSize(Bytes size, std::span<const EncodedRun> runs) {
  for (const EncodedRun& run : runs) {
    size -= Bytes::Of(run.floats * sizeof(float)) - StoredSize(run);
  }
  return size;
}

absl::Status CheckRuns(Bytes size, std::span<const EncodedRun> runs) {
  Bytes end;
  for (const EncodedRun& run : runs) {
    if (absl::Status status = CheckRun(end, size, run); !status.ok()) return status;
    end = run.offset + Bytes::Of(run.floats * sizeof(float));
  }
  return absl::OkStatus();
}

void Widen(std::span<std::byte> place, Bytes size, std::span<const EncodedRun> runs) {
  const Bytes stored = StoredSize(size, runs);
  SLUICE_CHECK(size.count() <= place.size());
  Cursor cursor{.to = place.data(), .from = place.data() + (place.size() - stored.count())};
  Bytes at;
  for (const EncodedRun& run : runs) {
    CopyRaw(cursor, (run.offset - at).count());
    WidenRun(run, cursor);
    at = run.offset + Bytes::Of(run.floats * sizeof(float));
  }
  CopyRaw(cursor, (size - at).count());
}

}  // namespace sluice
