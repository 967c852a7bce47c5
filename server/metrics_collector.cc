#include "server/metrics_collector.h"

#include <prometheus/text_serializer.h>

#include <algorithm>
#include <array>
#include <limits>
#include <sstream>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_split.h"
#include "base/check.h"
#include "server/metrics_table.h"

namespace sluice {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using Labels = std::vector<std::string>;  // Values, in the order of the row's labels.

constexpr std::string_view kReasons[kRejectReasons] = {"budget", "queue", "deadline", "shutdown"};
constexpr ModelState kStates[] = {ModelState::kLoading, ModelState::kReady,
                                  ModelState::kUnavailable};
constexpr std::string_view kLedgerLines[] = {"base",    "headroom", "receive",  "arena", "weights",
                                             "kernels", "metadata", "requests", "import"};
// Codes that are shown before one has been answered.
constexpr absl::StatusCode kUsualCodes[] = {absl::StatusCode::kOk,
                                            absl::StatusCode::kCancelled,
                                            absl::StatusCode::kInvalidArgument,
                                            absl::StatusCode::kDeadlineExceeded,
                                            absl::StatusCode::kNotFound,
                                            absl::StatusCode::kResourceExhausted,
                                            absl::StatusCode::kFailedPrecondition,
                                            absl::StatusCode::kUnimplemented,
                                            absl::StatusCode::kInternal,
                                            absl::StatusCode::kUnavailable,
                                            absl::StatusCode::kDataLoss};

prometheus::MetricType TypeOf(MetricKind kind) {
  switch (kind) {
    case MetricKind::kCounter:
      return prometheus::MetricType::Counter;
    case MetricKind::kGauge:
      return prometheus::MetricType::Gauge;
    case MetricKind::kHistogram:
      return prometheus::MetricType::Histogram;
  }
  return prometheus::MetricType::Untyped;
}

double ToDouble(std::uint64_t value) { return static_cast<double>(value); }
double ToDouble(std::int64_t value) { return static_cast<double>(value); }
double ToDouble(Bytes bytes) { return static_cast<double>(bytes.count()); }
template <typename T>
double ToDouble(const std::atomic<T>& value) {
  return ToDouble(value.load(std::memory_order_relaxed));
}

class Families {
 public:
  Families() {
    for (const MetricRow& row : MetricTable()) {
      MetricFamily family;
      family.name = std::string(row.name);
      family.help = std::string(row.help);
      family.type = TypeOf(row.kind);
      families_.push_back(std::move(family));
    }
  }

  void Set(Metric metric, const Labels& labels, double value) {
    ClientMetric& entry = Add(metric, labels);
    (RowOf(metric).kind == MetricKind::kCounter ? entry.counter.value : entry.gauge.value) = value;
  }

  template <typename Scale>
  void Set(Metric metric, const Labels& labels, const Histogram<Scale>& histogram) {
    const auto snapshot = histogram.Read();
    auto& entry = Add(metric, labels).histogram;
    std::uint64_t cumulative = 0;
    for (std::size_t i = 0; i < snapshot.counts.size(); ++i) {
      cumulative += snapshot.counts[i];
      const bool last = i == Scale::kBounds.size();
      entry.bucket.push_back(
          {cumulative, last ? std::numeric_limits<double>::infinity() : Scale::kBounds[i]});
    }
    // The sum of the buckets, so that the two agree even while somebody observes.
    entry.sample_count = cumulative;
    entry.sample_sum = snapshot.sum;
  }

  std::vector<MetricFamily> Take() { return std::move(families_); }

 private:
  ClientMetric& Add(Metric metric, const Labels& values) {
    const std::string names(RowOf(metric).labels);
    ClientMetric entry;
    std::size_t i = 0;
    for (const auto name : absl::StrSplit(names, ", ", absl::SkipEmpty())) {
      SLUICE_CHECK(i < values.size());
      entry.label.push_back({std::string(name), values[i++]});
    }
    SLUICE_CHECK(i == values.size());
    auto& entries = families_[static_cast<std::size_t>(metric)].metric;
    entries.push_back(std::move(entry));
    return entries.back();
  }

  std::vector<MetricFamily> families_;
};

template <typename Counts>
void SetCodes(Metric metric, const Labels& prefix, const Counts& counts, Families& families) {
  for (std::size_t code = 0; code < counts.size(); ++code) {
    const auto name = static_cast<absl::StatusCode>(code);
    const double value = ToDouble(counts[code]);
    if (value == 0 && std::ranges::find(kUsualCodes, name) == std::end(kUsualCodes)) continue;
    Labels labels = prefix;
    labels.push_back(absl::StatusCodeToString(name));
    families.Set(metric, labels, value);
  }
}

void SetMemory(const MemoryReport& memory, Families& families) {
  families.Set(Metric::kMemoryBudget, {}, ToDouble(memory.budget));
  families.Set(Metric::kMemoryResident, {}, ToDouble(memory.resident));
  families.Set(Metric::kMemoryPeakResident, {}, ToDouble(memory.peak_resident));
  families.Set(Metric::kMemorySwapped, {}, ToDouble(memory.swapped));
  for (const std::string_view known : kLedgerLines) {
    const bool reserved = std::ranges::any_of(memory.lines, [&](const MemoryLedger::Line& line) {
      return line.line == known && line.model.empty();
    });
    if (reserved) continue;
    families.Set(Metric::kMemoryReserved, {std::string(known), ""}, 0);
    families.Set(Metric::kMemoryUsed, {std::string(known), ""}, 0);
  }
  for (const MemoryLedger::Line& line : memory.lines) {
    families.Set(Metric::kMemoryReserved, {line.line, line.model}, ToDouble(line.reserved));
    families.Set(Metric::kMemoryUsed, {line.line, line.model}, ToDouble(line.used));
  }
  families.Set(Metric::kMemoryUnaccounted, {}, ToDouble(memory.unaccounted));
}

void SetTraffic(const ModelStatus& model, Families& families) {
  const Labels labels = {model.name, model.version};
  const ModelStatistics& statistics = *model.statistics;
  SetCodes(Metric::kRequests, labels, statistics.requests, families);
  for (std::size_t i = 0; i < kRejectReasons; ++i) {
    families.Set(Metric::kRejected, {model.name, model.version, std::string(kReasons[i])},
                 ToDouble(statistics.rejected[i]));
  }
  families.Set(Metric::kRequestDuration, labels, statistics.request_duration);
  families.Set(Metric::kRequestSize, labels, statistics.request_size);
  families.Set(Metric::kQueueDuration, labels, statistics.queue_duration);
  families.Set(Metric::kComputeDuration, labels, statistics.compute_duration);
  families.Set(Metric::kStallDuration, labels, statistics.stall_duration);
  families.Set(Metric::kInFlight, labels, ToDouble(statistics.running));
  families.Set(Metric::kQueueDepth, labels, ToDouble(statistics.queued));
  families.Set(Metric::kModelStreamed, labels, ToDouble(statistics.streamed_bytes));
  families.Set(Metric::kResidencyHits, labels, ToDouble(statistics.residency_hits));
  families.Set(Metric::kResidencyMisses, labels, ToDouble(statistics.residency_misses));
  families.Set(Metric::kPrefetchHits, labels, ToDouble(statistics.prefetch_hits));
  families.Set(Metric::kEvictions, labels, ToDouble(statistics.evictions));
  families.Set(Metric::kLoadDuration, labels, statistics.load_duration);
}

// A repository may have thousands that nobody has loaded; they have their state and loads alone, so
// that the page stays small.
bool HasBeenUsed(const ModelStatus& model) {
  const ModelStatistics& statistics = *model.statistics;
  const auto any = [](const auto& counts) {
    return std::ranges::any_of(counts, [](const auto& count) { return count.load() != 0; });
  };
  return statistics.loads_ok != 0 || any(statistics.requests) || any(statistics.rejected);
}

void SetModel(const ModelStatus& model, Families& families) {
  const Labels labels = {model.name, model.version};
  for (const ModelState state : kStates) {
    families.Set(Metric::kModelState, {model.name, model.version, std::string(Name(state))},
                 model.state == state ? 1 : 0);
  }
  families.Set(Metric::kLoads, {model.name, model.version, "ok"},
               ToDouble(model.statistics->loads_ok));
  families.Set(Metric::kLoads, {model.name, model.version, "failed"},
               ToDouble(model.statistics->loads_failed));
  if (!HasBeenUsed(model)) return;
  families.Set(Metric::kModelWeights, labels, ToDouble(model.weights));
  families.Set(Metric::kModelStored, labels, ToDouble(model.stored));
  families.Set(Metric::kModelWeightError, {model.name, model.version, "rms"},
               model.weight_error.rms);
  families.Set(Metric::kModelWeightError, {model.name, model.version, "largest"},
               model.weight_error.largest);
  families.Set(Metric::kModelResident, labels, ToDouble(model.resident));
  families.Set(Metric::kModelActivations, labels, ToDouble(model.activations));
  families.Set(Metric::kModelRing, labels, ToDouble(model.ring));
  families.Set(Metric::kModelKernels, labels, ToDouble(model.kernels));
  families.Set(Metric::kModelPredicted, labels, Seconds(model.predicted));
  SetTraffic(model, families);
}

void SetProcess(const ProcessUsage& process, Families& families) {
  families.Set(Metric::kProcessResident, {}, ToDouble(process.resident));
  families.Set(Metric::kProcessVirtual, {}, ToDouble(process.virtual_size));
  families.Set(Metric::kProcessCpu, {}, process.cpu_seconds);
  families.Set(Metric::kProcessThreads, {}, ToDouble(process.threads));
  families.Set(Metric::kProcessOpenFds, {}, ToDouble(process.open_fds));
  families.Set(Metric::kProcessMaxFds, {}, ToDouble(process.max_fds));
  families.Set(Metric::kProcessStart, {}, process.start_seconds);
}

void SetSurroundings(const MetricsInput& input, Families& families) {
  const SystemPressure& pressure = input.pressure;
  families.Set(Metric::kCgroupLimit, {},
               pressure.cgroup_limit ? ToDouble(*pressure.cgroup_limit)
                                     : std::numeric_limits<double>::infinity());
  for (std::size_t i = 0; i < kPressureResources.size(); ++i) {
    families.Set(Metric::kPressure, {std::string(kPressureResources[i])},
                 pressure.stalled_seconds[i]);
  }
  families.Set(Metric::kStorageRead, {}, ToDouble(input.storage->read_bytes));
  families.Set(Metric::kStorageReadDuration, {}, input.storage->read_duration);
  const ReloadReport& reloads = input.reloads;
  families.Set(Metric::kReloads, {"ok"}, ToDouble(reloads.succeeded));
  families.Set(Metric::kReloads, {"failed"}, ToDouble(reloads.failed));
  families.Set(Metric::kReloadSuccess, {}, reloads.last_succeeded ? 1 : 0);
  families.Set(Metric::kReloadTime, {}, reloads.last_success_seconds);
}

}  // namespace

std::vector<MetricFamily> CollectMetrics(const MetricsInput& input) {
  Families families;
  families.Set(Metric::kReady, {}, input.ready ? 1 : 0);
  families.Set(Metric::kBuildInfo, {SLUICE_VERSION, __VERSION__}, 1);
  SetMemory(input.memory, families);
  for (const ModelState state : kStates) {
    families.Set(Metric::kModels, {std::string(Name(state))},
                 static_cast<double>(std::ranges::count(input.models, state, &ModelStatus::state)));
  }
  for (const ModelStatus& model : input.models) SetModel(model, families);
  if (input.wire != nullptr) {
    SetCodes(Metric::kRequestsRefused, {}, input.wire->refused, families);
    families.Set(Metric::kHealthWatches, {}, ToDouble(input.wire->watchers));
  }
  SetSurroundings(input, families);
  SetProcess(input.process, families);
  return families.Take();
}

std::string MetricsText(const MetricsInput& input) {
  std::ostringstream text;
  prometheus::TextSerializer().Serialize(text, CollectMetrics(input));
  return text.str();
}

}  // namespace sluice
