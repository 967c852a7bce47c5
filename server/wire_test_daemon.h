// server/wire_test_daemon.h
//
// For tests: a daemon's model service behind gRPC, on a Unix socket and on TCP.

#ifndef SLUICE_SERVER_WIRE_TEST_DAEMON_H_
#define SLUICE_SERVER_WIRE_TEST_DAEMON_H_

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "health.grpc.pb.h"
#include "open_inference.grpc.pb.h"
#include "server/grpc_server.h"
#include "server/model_service.h"

namespace sluice {

inline constexpr Bytes kMaxRequest = 1_MiB;

inline std::string ReadBytes(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

inline std::vector<float> Floats(const std::string& bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  return values;
}

inline std::filesystem::path SharedModels() {
  const char* shared = std::getenv("SLUICE_SHARED");
  return std::filesystem::path(shared == nullptr ? "" : shared) / "models";
}

// One daemon for all tests: a handwritten digit's network, a file that is no network, and a network
// that nobody has asked to load.
class TestDaemon {
 public:
  TestDaemon() {
    std::string pattern = testing::TempDir() + "sluice" + std::string(6, 'X');
    folder_ = mkdtemp(pattern.data());
    std::ofstream(folder_ / "broken.onnx") << "this is no network";
    Config config;
    config.server_name = "test server";
    config.listen = {"unix:" + (folder_ / "s.sock").string(), "127.0.0.1:0"};
    config.budget = Bytes::Of(512) * (1 << 20);
    config.cache_dir = folder_ / "cache";
    config.threads = 2;
    config.max_request = kMaxRequest;
    config.models = {Model("mnist", SharedModels() / "mnist_cnn" / "model.onnx"),
                     Model("broken", folder_ / "broken.onnx"),
                     Model("later", SharedModels() / "mnist_cnn" / "model.onnx")};
    config.models[2].load = ModelConfig::Load::kExplicit;
    std::filesystem::create_directories(config.cache_dir);
    auto service = ModelService::Start(config);
    if (!service.ok()) {
      ADD_FAILURE() << service.status();
      return;
    }
    service_ = *std::move(service);
    auto server = GrpcServer::Start(config, *service_);
    if (!server.ok()) {
      ADD_FAILURE() << server.status();
      return;
    }
    server_ = *std::move(server);
    config_ = config;
  }

  ~TestDaemon() {
    const Instant soon = SteadyClock().Now() + std::chrono::seconds(10);
    if (service_ != nullptr) service_->Shutdown(soon);
    if (server_ != nullptr) server_->Shutdown(soon);
    server_.reset();
    service_.reset();
    std::filesystem::remove_all(folder_);
  }

  bool started() const { return server_ != nullptr; }
  ModelService& service() { return *service_; }
  GrpcServer& server() { return *server_; }
  const Config& config() const { return config_; }
  const std::filesystem::path& folder() const { return folder_; }

  std::shared_ptr<grpc::Channel> Channel(std::size_t address = 0) {
    grpc::ChannelArguments arguments;
    arguments.SetMaxSendMessageSize(-1);
    arguments.SetMaxReceiveMessageSize(-1);
    return grpc::CreateCustomChannel(server_->addresses()[address],
                                     grpc::InsecureChannelCredentials(), arguments);
  }

 private:
  static ModelConfig Model(const std::string& name, const std::filesystem::path& path) {
    ModelConfig model;
    model.name = name;
    model.path = path;
    model.root = path.parent_path();
    model.where = "test";
    return model;
  }

  std::filesystem::path folder_;
  Config config_;
  std::unique_ptr<ModelService> service_;
  std::unique_ptr<GrpcServer> server_;
};

// Follows a watch until the health is `wanted`; false when the watch ends before.
inline bool AwaitHealth(const std::shared_ptr<grpc::Channel>& channel, const std::string& name,
                        grpc::health::v1::HealthCheckResponse::ServingStatus wanted) {
  const auto stub = grpc::health::v1::Health::NewStub(channel);
  grpc::ClientContext context;
  grpc::health::v1::HealthCheckRequest request;
  request.set_service(name);
  const auto watch = stub->Watch(&context, request);
  grpc::health::v1::HealthCheckResponse response;
  bool reached = false;
  while (!reached && watch->Read(&response)) reached = response.status() == wanted;
  context.TryCancel();
  (void)watch->Finish();
  return reached;
}

class WireTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (!std::filesystem::exists(SharedModels() / "mnist_cnn" / "model.onnx")) return;
    daemon_ = std::make_unique<TestDaemon>();
    if (!daemon_->started()) daemon_.reset();
  }
  static void TearDownTestSuite() { daemon_.reset(); }

  void SetUp() override {
    if (!std::filesystem::exists(SharedModels() / "mnist_cnn" / "model.onnx")) {
      GTEST_SKIP() << "SLUICE_SHARED has no models/mnist_cnn/model.onnx";
    }
    ASSERT_NE(daemon_, nullptr);
    channel_ = daemon_->Channel();
    stub_ = inference::GRPCInferenceService::NewStub(channel_);
    ASSERT_TRUE(AwaitHealth(channel_, "", grpc::health::v1::HealthCheckResponse::SERVING));
  }

  static inference::ModelInferRequest Digit() {
    inference::ModelInferRequest request;
    request.set_model_name("mnist");
    request.set_id("digit 7");
    auto& input = *request.add_inputs();
    input.set_name("Input3");
    input.set_datatype("FP32");
    for (const int dim : {1, 1, 28, 28}) input.add_shape(dim);
    std::string& raw = *request.add_raw_input_contents();
    for (const char grey : ReadBytes(SharedModels() / "_inputs" / "digit7_28x28.gray")) {
      const auto value = static_cast<float>(static_cast<unsigned char>(grey));
      raw.append(reinterpret_cast<const char*>(&value), sizeof(value));
    }
    return request;
  }

  static void ExpectSeven(const inference::ModelInferResponse& answer) {
    ASSERT_EQ(answer.raw_output_contents_size(), 1);
    const auto got = Floats(answer.raw_output_contents(0));
    const auto want = Floats(ReadBytes(SharedModels() / "mnist_cnn" / "digit.out0.bin"));
    ASSERT_EQ(got.size(), 10u);
    for (std::size_t i = 0; i < want.size(); ++i) {
      EXPECT_NEAR(got[i], want[i], 1.05028 + 0.001 * std::fabs(want[i])) << "class " << i;
    }
  }

  grpc::Status Infer(const inference::ModelInferRequest& request,
                     inference::ModelInferResponse* answer) {
    grpc::ClientContext context;
    return stub_->ModelInfer(&context, request, answer);
  }

  void ExpectRefusal(const inference::ModelInferRequest& request, grpc::StatusCode code,
                     const std::string& text) {
    inference::ModelInferResponse answer;
    const grpc::Status status = Infer(request, &answer);
    EXPECT_EQ(status.error_code(), code) << status.error_message();
    EXPECT_THAT(status.error_message(), testing::HasSubstr(text));
  }

  inline static std::unique_ptr<TestDaemon> daemon_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<inference::GRPCInferenceService::Stub> stub_;
};

}  // namespace sluice

#endif  // SLUICE_SERVER_WIRE_TEST_DAEMON_H_
