#include "server/sluice_service.h"

#include <string>

#include "server/wire_message.h"

namespace sluice {
namespace {

double SecondsOf(const std::atomic<std::uint64_t>& nanoseconds) {
  return static_cast<double>(nanoseconds.load(std::memory_order_relaxed)) * 1e-9;
}

void Describe(const ModelStatus& model, v1::ModelMemory& memory) {
  memory.set_name(model.name);
  memory.set_version(model.version);
  memory.set_state(std::string(Name(model.state)));
  memory.set_reason(model.reason);
  memory.set_weight_bytes(model.weights.count());
  memory.set_stored_weight_bytes(model.stored.count());
  memory.set_weight_rms_error(model.weight_error.rms);
  memory.set_weight_largest_error(model.weight_error.largest);
  memory.set_resident_bytes(model.resident.count());
  memory.set_activation_bytes(model.activations.count());
  memory.set_ring_bytes(model.ring.count());
  memory.set_kernel_bytes(model.kernels.count());
  memory.set_predicted_latency_seconds(Seconds(model.predicted));
  const ModelStatistics& statistics = *model.statistics;
  memory.set_inferences(statistics.requests[0].load(std::memory_order_relaxed));
  memory.set_last_latency_seconds(SecondsOf(statistics.last_latency_ns));
  memory.set_last_stall_seconds(SecondsOf(statistics.last_stall_ns));
  memory.set_last_streamed_bytes(statistics.last_streamed_bytes.load(std::memory_order_relaxed));
}

void Fill(const ModelService& service, v1::GetMemoryResponse& response) {
  const MemoryReport report = service.memory();
  response.set_budget_bytes(report.budget.count());
  response.set_budget_source(report.budget_source);
  response.set_reserved_bytes(report.reserved.count());
  response.set_unaccounted_bytes(report.unaccounted);
  response.set_resident_bytes(report.resident.count());
  response.set_peak_resident_bytes(report.peak_resident.count());
  response.set_swapped_bytes(report.swapped.count());
  response.set_uptime_seconds(Seconds(report.uptime));
  response.set_device(report.device);
  for (const MemoryLedger::Line& line : report.lines) {
    v1::LedgerLine& entry = *response.add_ledger();
    entry.set_line(line.line);
    entry.set_model(line.model);
    entry.set_reserved_bytes(line.reserved.count());
    entry.set_used_bytes(line.used.count());
  }
  for (const ModelStatus& model : service.models()) Describe(model, *response.add_models());
}

}  // namespace

grpc::ServerUnaryReactor* SluiceService::GetMemory(grpc::CallbackServerContext* context,
                                                   const grpc::ByteBuffer* request,
                                                   grpc::ByteBuffer* response) {
  return AnswerSmall<v1::GetMemoryRequest, v1::GetMemoryResponse>(
      *context, *request, *response,
      [this](const v1::GetMemoryRequest& /*request*/, v1::GetMemoryResponse& memory) {
        Fill(state_.service, memory);
        return absl::OkStatus();
      });
}

}  // namespace sluice
