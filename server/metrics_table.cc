#include "server/metrics_table.h"

#include <array>

#include "absl/strings/str_format.h"
#include "server/statistics.h"

namespace sluice {
namespace {

using enum MetricKind;

constexpr std::string_view kModel = "model, version";

constexpr MetricRow kTable[] = {
    {Metric::kReady, "sluice_ready", kGauge, "0 or 1", "",
     "1 when every model that loads at start has been loaded or refused"},
    {Metric::kBuildInfo, "sluice_build_info", kGauge, "1", "version, compiler",
     "Always 1; the labels say what runs"},
    {Metric::kRequests, "sluice_requests_total", kCounter, "requests", "model, version, code",
     "Inference requests that reached a model's queue, by the status they were answered with"},
    {Metric::kRequestsRefused, "sluice_requests_refused_total", kCounter, "requests", "code",
     "Inference requests answered before they reached a model's queue: malformed, unknown model, "
     "over the budget"},
    {Metric::kRejected, "sluice_rejected_total", kCounter, "requests", "model, version, reason",
     "Requests to a model that were turned away for lack of room or time"},
    {Metric::kRequestDuration, "sluice_request_duration_seconds", kHistogram, "seconds", kModel,
     "Time from a request's arrival to its answer"},
    {Metric::kRequestSize, "sluice_request_size_bytes", kHistogram, "bytes", kModel,
     "Size of a request's input tensors"},
    {Metric::kQueueDuration, "sluice_queue_duration_seconds", kHistogram, "seconds", kModel,
     "Time that requests waited for the compute slot"},
    {Metric::kComputeDuration, "sluice_compute_duration_seconds", kHistogram, "seconds", kModel,
     "Time of the inference itself, waiting for weights included"},
    {Metric::kStallDuration, "sluice_stall_duration_seconds", kHistogram, "seconds", kModel,
     "Time within an inference that ready steps waited for their weights"},
    {Metric::kInFlight, "sluice_requests_in_flight", kGauge, "requests", kModel,
     "Requests that are being computed now"},
    {Metric::kQueueDepth, "sluice_queue_depth", kGauge, "requests", kModel,
     "Requests that wait for the compute slot now"},
    {Metric::kHealthWatches, "sluice_health_watches", kGauge, "watches", "",
     "Open watches of grpc.health.v1"},
    {Metric::kMemoryBudget, "sluice_memory_budget_bytes", kGauge, "bytes", "",
     "The budget of the whole process"},
    {Metric::kMemoryReserved, "sluice_memory_reserved_bytes", kGauge, "bytes", "line, model",
     "What is reserved of the budget; an empty model serves all"},
    {Metric::kMemoryUsed, "sluice_memory_used_bytes", kGauge, "bytes", "line, model",
     "What is in use of each reservation"},
    {Metric::kMemoryUnaccounted, "sluice_memory_unaccounted_bytes", kGauge, "bytes", "",
     "Resident and swapped memory of the process less the sum of sluice_memory_used_bytes: what no "
     "line explains, or, below zero, what lines claim and do not hold"},
    {Metric::kMemoryResident, "sluice_memory_resident_bytes", kGauge, "bytes", "",
     "Memory of the process in RAM, as the kernel counts it, to compare with the reservations"},
    {Metric::kMemoryPeakResident, "sluice_memory_peak_resident_bytes", kGauge, "bytes", "",
     "Most memory in RAM since the process started"},
    {Metric::kMemorySwapped, "sluice_memory_swapped_bytes", kGauge, "bytes", "",
     "Memory of the process in swap"},
    {Metric::kCgroupLimit, "sluice_cgroup_memory_limit_bytes", kGauge, "bytes", "",
     "The tightest memory limit of the control groups around the process now; +Inf without one"},
    {Metric::kPressure, "sluice_pressure_stall_seconds_total", kCounter, "seconds", "resource",
     "Time that some task of the machine waited for the resource, as the kernel's pressure "
     "information counts it; 0 where it does not"},
    {Metric::kModels, "sluice_models", kGauge, "models", "state", "Models by their state"},
    {Metric::kModelState, "sluice_model_state", kGauge, "0 or 1", "model, version, state",
     "1 for the state that the model is in"},
    {Metric::kModelWeights, "sluice_model_weight_bytes", kGauge, "bytes", kModel,
     "All packed weights of the model, as they lie in memory"},
    {Metric::kModelStored, "sluice_model_stored_weight_bytes", kGauge, "bytes", kModel,
     "All packed weights of the model, as the disk has them"},
    {Metric::kModelWeightError, "sluice_model_weight_error_ratio", kGauge, "ratio",
     "model, version, measure",
     "What the model's `weights` key changed its weights by when they were packed"},
    {Metric::kModelResident, "sluice_model_resident_bytes", kGauge, "bytes", kModel,
     "Packed weights that stay in memory"},
    {Metric::kModelActivations, "sluice_model_activation_bytes", kGauge, "bytes", kModel,
     "Activations' part of the model's arena"},
    {Metric::kModelRing, "sluice_model_ring_bytes", kGauge, "bytes", kModel,
     "Memory that streamed weights pass through"},
    {Metric::kModelKernels, "sluice_model_kernel_bytes", kGauge, "bytes", kModel,
     "Memory that the model's kernels hold for themselves"},
    {Metric::kModelStreamed, "sluice_model_streamed_bytes_total", kCounter, "bytes", kModel,
     "Weights read from the disk for inferences"},
    {Metric::kResidencyHits, "sluice_residency_hits_total", kCounter, "extents", kModel,
     "Extents of weights that steps found in memory"},
    {Metric::kResidencyMisses, "sluice_residency_misses_total", kCounter, "extents", kModel,
     "Extents of weights that were streamed for steps"},
    {Metric::kPrefetchHits, "sluice_prefetch_hits_total", kCounter, "extents", kModel,
     "Streamed extents that were there before their step was ready"},
    {Metric::kEvictions, "sluice_evictions_total", kCounter, "extents", kModel,
     "Resident extents that gave way to other memory and stream since"},
    {Metric::kStorageRead, "sluice_storage_read_bytes_total", kCounter, "bytes", "",
     "Read from packages, for inferences, residents and measurements"},
    {Metric::kStorageReadDuration, "sluice_storage_read_duration_seconds", kHistogram, "seconds",
     "", "Time of one read, of 1 MiB at most, waiting in the device's queue included"},
    {Metric::kModelPredicted, "sluice_model_predicted_duration_seconds", kGauge, "seconds", kModel,
     "Predicted time of an inference, to compare with sluice_compute_duration_seconds"},
    {Metric::kLoads, "sluice_loads_total", kCounter, "loads", "model, version, result",
     "Loads of the model"},
    {Metric::kLoadDuration, "sluice_load_duration_seconds", kHistogram, "seconds", kModel,
     "Time of a load, import and packing included"},
    {Metric::kReloads, "sluice_reloads_total", kCounter, "reloads", "result",
     "Readings of the configuration on SIGHUP; one with errors changes nothing, and a refused "
     "certificate counts as failed"},
    {Metric::kReloadSuccess, "sluice_config_last_reload_success", kGauge, "0 or 1", "",
     "1 when the configuration was right when it was last read"},
    {Metric::kReloadTime, "sluice_config_last_reload_timestamp_seconds", kGauge, "seconds", "",
     "When a right configuration was last read, in seconds since 1970"},
    {Metric::kProcessResident, "process_resident_memory_bytes", kGauge, "bytes", "",
     "Resident memory size"},
    {Metric::kProcessVirtual, "process_virtual_memory_bytes", kGauge, "bytes", "",
     "Virtual memory size"},
    {Metric::kProcessCpu, "process_cpu_seconds_total", kCounter, "seconds", "",
     "User and system CPU time"},
    {Metric::kProcessThreads, "process_threads", kGauge, "threads", "", "Threads of the process"},
    {Metric::kProcessOpenFds, "process_open_fds", kGauge, "file descriptors", "",
     "Open file descriptors"},
    {Metric::kProcessMaxFds, "process_max_fds", kGauge, "file descriptors", "",
     "Most file descriptors that may be open"},
    {Metric::kProcessStart, "process_start_time_seconds", kGauge, "seconds", "",
     "When the process started, in seconds since 1970"},
};

consteval bool InOrder() {
  std::size_t i = 0;
  for (const MetricRow& row : kTable) {
    if (static_cast<std::size_t>(row.metric) != i++) return false;
  }
  return i == static_cast<std::size_t>(Metric::kProcessStart) + 1;
}
static_assert(InOrder());

}  // namespace

std::string_view Name(MetricKind kind) {
  switch (kind) {
    case kCounter:
      return "counter";
    case kGauge:
      return "gauge";
    case kHistogram:
      return "histogram";
  }
  return "untyped";
}

std::span<const MetricRow> MetricTable() { return kTable; }

const MetricRow& RowOf(Metric metric) { return kTable[static_cast<std::size_t>(metric)]; }

std::string MetricsPage() {
  std::string page =
      "# Metrics\n\n"
      "`metrics.listen` serves these on `/metrics` in Prometheus' text format, and a page for "
      "people on `/`.\nA scrape reads counters and never waits for a model. This file is made from "
      "the table in\n`server/metrics_table.cc`.\n\n"
      "| name | type | unit | labels | meaning |\n|---|---|---|---|---|\n";
  for (const MetricRow& row : kTable) {
    page += absl::StrFormat("| `%s` | %s | %s | %s | %s |\n", row.name, Name(row.kind), row.unit,
                            row.labels.empty() ? "-" : row.labels, row.help);
  }
  page += "\nHistograms of seconds have the buckets";
  for (const double bound : DurationHistogram::kBounds) page += absl::StrFormat(" %g", bound);
  page += ";\nthose of bytes";
  for (const double bound : SizeHistogram::kBounds) page += absl::StrFormat(" %.0f", bound);
  page +=
      ".\n\n"
      "What is counted in `sluice_memory_unaccounted_bytes`, and what each line of the ledger "
      "is, says\n[ARCHITECTURE.md](../ARCHITECTURE.md). There is no histogram of batch sizes: "
      "requests are not batched.\n\n"
      "Labels: `code` is a gRPC status code by its name (`OK`, `INVALID_ARGUMENT`, ...); `reason` "
      "is `budget`,\n`queue`, `deadline` or `shutdown`; `state` is `LOADING`, `READY` or "
      "`UNAVAILABLE`; `result` is `ok` or `failed`;\n`line` is a line of the memory ledger: "
      "`base`,\n`headroom`, `receive`, `arena`, `weights`, `kernels`, `metadata`, `requests` or "
      "`import`.\n"
      "`measure` is `rms` (root of the mean square, relative to that of the weights) or `largest` "
      "(of one weight,\nrelative to the largest in its channel).\n"
      "`resource` is `cpu`, `io` or `memory`.\n"
      "Known values start at 0. A model that was never ready or asked has its state and loads "
      "alone. No label carries\na client's text.\n";
  return page;
}

}  // namespace sluice
