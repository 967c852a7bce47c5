// server/metrics_collector.h
//
// From what the daemon knows of itself to metric families. Pure functions.

#ifndef SLUICE_SERVER_METRICS_COLLECTOR_H_
#define SLUICE_SERVER_METRICS_COLLECTOR_H_

#include <prometheus/metric_family.h>

#include <string>
#include <vector>

#include "server/model_service.h"
#include "server/process_usage.h"
#include "server/system_pressure.h"
#include "server/wire_statistics.h"

namespace sluice {

struct MetricsInput {
  bool ready = false;
  MemoryReport memory;
  std::vector<ModelStatus> models;
  ProcessUsage process;
  const WireStatistics* wire = nullptr;  // Null: nothing is known of the wire.
  ReloadReport reloads;
  const StorageStatistics* storage = nullptr;  // Never null when collected.
  SystemPressure pressure;
};

// A family for each row of the table, in its order, even when it has no metric yet. Label sets that
// are known start at 0.
std::vector<prometheus::MetricFamily> CollectMetrics(const MetricsInput& input);

// Prometheus' text format, version 0.0.4.
std::string MetricsText(const MetricsInput& input);

}  // namespace sluice

#endif  // SLUICE_SERVER_METRICS_COLLECTOR_H_
