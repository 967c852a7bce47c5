#include "client/fake_daemon.h"

#include <chrono>
#include <cstring>
#include <limits>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/mutex.h"

namespace sluice {
namespace {

constexpr std::size_t kWidth = 16, kHeight = 8;

grpc::Status UnknownModel(const std::string& name) {
  return {grpc::StatusCode::NOT_FOUND,
          absl::StrFormat("Request for unknown model: '%s' is not found", name)};
}

std::string TextMap() {
  std::vector<float> values(kWidth * kHeight);
  for (std::size_t y = 2; y < 6; ++y) {
    for (std::size_t x = 3; x < 13; ++x) values[y * kWidth + x] = 1;
  }
  std::string bytes(values.size() * sizeof(float), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

}  // namespace

FakeDaemon::FakeDaemon()
    : address_(absl::StrFormat("unix:%s", (folder_.path() / "daemon.sock").string())) {
  grpc::ServerBuilder builder;
  builder.SetMaxReceiveMessageSize(std::numeric_limits<int>::max());
  builder.AddListeningPort(address_, grpc::InsecureServerCredentials());
  builder.RegisterService(static_cast<inference::GRPCInferenceService::Service*>(this));
  builder.RegisterService(static_cast<v1::Sluice::Service*>(this));
  server_ = builder.BuildAndStart();
  SLUICE_CHECK(server_ != nullptr);
}

FakeDaemon::~FakeDaemon() { server_->Shutdown(std::chrono::system_clock::now()); }

grpc::Status FakeDaemon::ServerReady(grpc::ServerContext*, const inference::ServerReadyRequest*,
                                     inference::ServerReadyResponse* response) {
  response->set_ready(ready_after-- <= 0);
  return grpc::Status::OK;
}

grpc::Status FakeDaemon::ModelReady(grpc::ServerContext*,
                                    const inference::ModelReadyRequest* request,
                                    inference::ModelReadyResponse* response) {
  if (request->name() != "detector") return UnknownModel(request->name());
  response->set_ready(true);
  return grpc::Status::OK;
}

grpc::Status FakeDaemon::ModelMetadata(grpc::ServerContext*,
                                       const inference::ModelMetadataRequest* request,
                                       inference::ModelMetadataResponse* response) {
  if (request->name() == "unknown") return UnknownModel(request->name());
  response->set_name(request->name());
  response->add_versions(std::string("1"));
  response->set_platform("onnx");
  auto& input = *response->add_inputs();
  input.set_name("x");
  auto& output = *response->add_outputs();
  output.set_name("map");
  for (auto* tensor : {&input, &output}) {
    tensor->set_datatype("FP32");
    const std::int64_t channels = tensor == &input ? 3 : 1;
    for (const std::int64_t dimension :
         {std::int64_t{1}, channels, std::int64_t{kHeight}, std::int64_t{kWidth}}) {
      tensor->add_shape(dimension);
    }
  }
  return grpc::Status::OK;
}

grpc::Status FakeDaemon::ModelInfer(grpc::ServerContext* context,
                                    const inference::ModelInferRequest* request,
                                    inference::ModelInferResponse* response) {
  last_request = *request;
  if (request->model_name() == "broken") {
    return {grpc::StatusCode::RESOURCE_EXHAUSTED, "got 9 bytes, want 3"};
  }
  if (request->model_name() == "slow") {
    // Until the caller has gone away.
    Mutex mutex;
    CondVar never;
    MutexLock lock(mutex);
    while (!context->IsCancelled()) {
      never.WaitUntil(mutex, SteadyClock().Now() + std::chrono::milliseconds(5));
    }
    return grpc::Status::CANCELLED;
  }
  response->set_model_name(request->model_name());
  response->set_model_version("1");
  response->set_id(request->id());
  auto& output = *response->add_outputs();
  output.set_name("map");
  output.set_datatype("FP32");
  for (const std::size_t dimension : {std::size_t{1}, std::size_t{1}, kHeight, kWidth}) {
    output.add_shape(static_cast<std::int64_t>(dimension));
  }
  response->add_raw_output_contents(raw_answer.empty() ? TextMap() : raw_answer);
  return grpc::Status::OK;
}

grpc::Status FakeDaemon::RepositoryIndex(grpc::ServerContext*,
                                         const inference::RepositoryIndexRequest*,
                                         inference::RepositoryIndexResponse* response) {
  auto& ready = *response->add_models();
  ready.set_name("detector");
  ready.set_version("1");
  ready.set_state("READY");
  auto& refused = *response->add_models();
  refused.set_name("chat");
  refused.set_version("2");
  refused.set_state("UNAVAILABLE");
  refused.set_reason("operator Attention 23 of node \"a\" has no kernel");
  return grpc::Status::OK;
}

grpc::Status FakeDaemon::RepositoryModelLoad(grpc::ServerContext*,
                                             const inference::RepositoryModelLoadRequest* request,
                                             inference::RepositoryModelLoadResponse*) {
  if (request->model_name() == "detector") return grpc::Status::OK;
  return {grpc::StatusCode::NOT_FOUND,
          absl::StrFormat("failed to load '%s'", request->model_name())};
}

grpc::Status FakeDaemon::RepositoryModelUnload(
    grpc::ServerContext*, const inference::RepositoryModelUnloadRequest* request,
    inference::RepositoryModelUnloadResponse*) {
  return request->model_name() == "detector" ? grpc::Status::OK
                                             : UnknownModel(request->model_name());
}

grpc::Status FakeDaemon::GetMemory(grpc::ServerContext*, const v1::GetMemoryRequest*,
                                   v1::GetMemoryResponse* response) {
  response->set_budget_bytes(96u << 20);
  response->set_budget_source("configuration");
  response->set_reserved_bytes(48u << 20);
  response->set_resident_bytes(40u << 20);
  response->set_peak_resident_bytes(50u << 20);
  response->set_uptime_seconds(12);
  response->set_device("io_uring");
  auto& line = *response->add_ledger();
  line.set_line("weights");
  line.set_model("detector");
  line.set_reserved_bytes(5u << 20);
  auto& model = *response->add_models();
  model.set_name("detector");
  model.set_version("1");
  model.set_state("READY");
  model.set_weight_bytes(4u << 20);
  model.set_resident_bytes(3u << 20);
  model.set_inferences(7);
  model.set_last_latency_seconds(0.0125);
  return grpc::Status::OK;
}

}  // namespace sluice
