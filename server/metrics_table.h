// server/metrics_table.h
//
// Every metric that Sluice exports, once: the families on /metrics and docs/metrics.md are made
// from this table.

#ifndef SLUICE_SERVER_METRICS_TABLE_H_
#define SLUICE_SERVER_METRICS_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace sluice {

enum class MetricKind : std::uint8_t { kCounter, kGauge, kHistogram };
std::string_view Name(MetricKind kind);  // "counter", "gauge", "histogram"

// In the order of the table.
enum class Metric : std::uint8_t {
  kReady,
  kBuildInfo,
  kRequests,
  kRequestsRefused,
  kRejected,
  kRequestDuration,
  kRequestSize,
  kQueueDuration,
  kComputeDuration,
  kStallDuration,
  kInFlight,
  kQueueDepth,
  kHealthWatches,
  kMemoryBudget,
  kMemoryReserved,
  kMemoryUsed,
  kMemoryUnaccounted,
  kMemoryResident,
  kMemoryPeakResident,
  kMemorySwapped,
  kCgroupLimit,
  kPressure,
  kModels,
  kModelState,
  kModelWeights,
  kModelStored,
  kModelWeightError,
  kModelResident,
  kModelActivations,
  kModelRing,
  kModelKernels,
  kModelStreamed,
  kResidencyHits,
  kResidencyMisses,
  kPrefetchHits,
  kEvictions,
  kStorageRead,
  kStorageReadDuration,
  kModelPredicted,
  kLoads,
  kLoadDuration,
  kReloads,
  kReloadSuccess,
  kReloadTime,
  kProcessResident,
  kProcessVirtual,
  kProcessCpu,
  kProcessThreads,
  kProcessOpenFds,
  kProcessMaxFds,
  kProcessStart,
};

struct MetricRow {
  Metric metric{};
  std::string_view name;  // With its unit last, and _total for a counter.
  MetricKind kind{};
  std::string_view unit;    // "bytes", "seconds", or what is counted.
  std::string_view labels;  // Separated by ", "; empty for none.
  std::string_view help;
};

// table[i].metric == Metric(i).
std::span<const MetricRow> MetricTable();
const MetricRow& RowOf(Metric metric);

// docs/metrics.md, whole.
std::string MetricsPage();

}  // namespace sluice

#endif  // SLUICE_SERVER_METRICS_TABLE_H_
