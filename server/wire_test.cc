// Inference and the protocol's other calls, over the wire as any client would.

#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include "server/wire_test_daemon.h"
#include "sluice.grpc.pb.h"

namespace sluice {
namespace {

using testing::HasSubstr;

TEST_F(WireTest, AnswersADigitOnAUnixSocket) {
  inference::ModelInferResponse answer;
  const grpc::Status status = Infer(Digit(), &answer);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(answer.id(), "digit 7");
  EXPECT_EQ(answer.model_name(), "mnist");
  EXPECT_EQ(answer.model_version(), "1");
  ASSERT_EQ(answer.outputs_size(), 1);
  EXPECT_EQ(answer.outputs(0).name(), "Plus214_Output_0");
  EXPECT_EQ(answer.outputs(0).datatype(), "FP32");
  EXPECT_THAT(answer.outputs(0).shape(), testing::ElementsAre(1, 10));
  ExpectSeven(answer);
}

TEST_F(WireTest, AnswersOnTcpAndToTypedContentsAlike) {
  channel_ = daemon_->Channel(1);
  stub_ = inference::GRPCInferenceService::NewStub(channel_);
  inference::ModelInferRequest request = Digit();
  const std::vector<float> values = Floats(request.raw_input_contents(0));
  request.clear_raw_input_contents();
  request.mutable_inputs(0)->mutable_contents()->mutable_fp32_contents()->Add(values.begin(),
                                                                              values.end());
  inference::ModelInferResponse answer;
  const grpc::Status status = Infer(request, &answer);
  ASSERT_TRUE(status.ok()) << status.error_message();
  ExpectSeven(answer);
}

TEST_F(WireTest, AcceptsCompressedRequests) {
  for (const auto algorithm : {GRPC_COMPRESS_GZIP, GRPC_COMPRESS_DEFLATE}) {
    grpc::ClientContext context;
    context.set_compression_algorithm(algorithm);
    inference::ModelInferResponse answer;
    const grpc::Status status = stub_->ModelInfer(&context, Digit(), &answer);
    ASSERT_TRUE(status.ok()) << status.error_message();
    ExpectSeven(answer);
  }
}

TEST_F(WireTest, RefusesAMessageThatUnpacksBeyondTheLimit) {
  inference::ModelInferRequest request = Digit();
  request.mutable_raw_input_contents(0)->assign(50'000'000, '\0');
  grpc::ClientContext context;
  context.set_compression_algorithm(GRPC_COMPRESS_GZIP);
  inference::ModelInferResponse answer;
  const grpc::Status status = stub_->ModelInfer(&context, request, &answer);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED) << status.error_message();
}

TEST_F(WireTest, RefusesWithTheProtocolsCodesAndTexts) {
  inference::ModelInferRequest request = Digit();
  request.set_model_name("nobody");
  ExpectRefusal(request, grpc::StatusCode::NOT_FOUND, "Request for unknown model");
  request = Digit();
  request.set_model_version("9");
  ExpectRefusal(request, grpc::StatusCode::NOT_FOUND, "Request for unknown model");
  request.set_model_version("first");
  ExpectRefusal(request, grpc::StatusCode::INVALID_ARGUMENT,
                "failed to get model version from specified version string 'first'");
  request = Digit();
  request.mutable_raw_input_contents(0)->resize(12);
  ExpectRefusal(request, grpc::StatusCode::INVALID_ARGUMENT,
                "got 12 bytes in raw_input_contents, want 3136 for FP32 [1,1,28,28]");
  request = Digit();
  request.add_outputs()->set_name("Plus214");
  ExpectRefusal(request, grpc::StatusCode::INVALID_ARGUMENT, "want \"Plus214_Output_0\"");
}

TEST_F(WireTest, AModelThatCannotBeLoadedIsUnavailableWithItsReason) {
  inference::ModelInferRequest request = Digit();
  request.set_model_name("broken");
  ExpectRefusal(request, grpc::StatusCode::UNAVAILABLE, "model \"broken\" is not ready: ");
  request.set_model_name("later");
  ExpectRefusal(request, grpc::StatusCode::UNAVAILABLE, "model \"later\" is not ready: ");
}

TEST_F(WireTest, RefusesAMessageBeyondTheLimit) {
  inference::ModelInferRequest request = Digit();
  request.mutable_raw_input_contents(0)->resize(kMaxRequest.count() + 1);
  ExpectRefusal(request, grpc::StatusCode::RESOURCE_EXHAUSTED, "larger than max");
  inference::ModelInferResponse answer;
  EXPECT_TRUE(Infer(Digit(), &answer).ok());
}

TEST_F(WireTest, RefusesBytesThatAreNoRequest) {
  grpc::TemplatedGenericStub<grpc::ByteBuffer, grpc::ByteBuffer> stub(channel_);
  const std::string garbage = "\xff\xff\xff\xff garbage";
  const grpc::Slice slice(garbage);
  grpc::ByteBuffer request(&slice, 1), response;
  grpc::ClientContext context;
  std::mutex mutex;
  std::condition_variable done;
  std::optional<grpc::Status> status;
  stub.UnaryCall(&context, "/inference.GRPCInferenceService/ModelInfer", {}, &request, &response,
                 [&](grpc::Status result) {
                   const std::lock_guard lock(mutex);
                   status = std::move(result);
                   done.notify_one();
                 });
  std::unique_lock lock(mutex);
  done.wait(lock, [&] { return status.has_value(); });
  EXPECT_EQ(status->error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status->error_message(), HasSubstr("inference.ModelInferRequest"));
}

TEST_F(WireTest, HonoursTheTimeoutParameter) {
  inference::ModelInferRequest request = Digit();
  (*request.mutable_parameters())["timeout"].set_int64_param(1);
  ExpectRefusal(request, grpc::StatusCode::DEADLINE_EXCEEDED, "");
}

TEST_F(WireTest, SurvivesCallsThatAreCancelledAtAnyPoint) {
  const inference::ModelInferRequest request = Digit();
  for (int i = 0; i < 50; ++i) {
    grpc::ClientContext context;
    grpc::CompletionQueue queue;
    inference::ModelInferResponse answer;
    grpc::Status status;
    const auto call = stub_->AsyncModelInfer(&context, request, &queue);
    call->Finish(&answer, &status, &queue);
    if (i % 2 == 0) std::this_thread::yield();
    context.TryCancel();
    void* tag = nullptr;
    bool ok = false;
    ASSERT_TRUE(queue.Next(&tag, &ok));
    EXPECT_TRUE(status.ok() || status.error_code() == grpc::StatusCode::CANCELLED);
  }
  inference::ModelInferResponse answer;
  ASSERT_TRUE(Infer(request, &answer).ok());
  ExpectSeven(answer);
}

TEST_F(WireTest, TellsWhatItIs) {
  grpc::ClientContext live, ready, metadata;
  inference::ServerLiveResponse live_response;
  ASSERT_TRUE(stub_->ServerLive(&live, {}, &live_response).ok());
  EXPECT_TRUE(live_response.live());
  inference::ServerReadyResponse ready_response;
  ASSERT_TRUE(stub_->ServerReady(&ready, {}, &ready_response).ok());
  EXPECT_TRUE(ready_response.ready());
  inference::ServerMetadataResponse response;
  ASSERT_TRUE(stub_->ServerMetadata(&metadata, {}, &response).ok());
  EXPECT_EQ(response.name(), "test server");
  EXPECT_FALSE(response.version().empty());
  EXPECT_THAT(response.extensions(), testing::Contains("sluice.v1.Sluice"));
}

TEST_F(WireTest, DescribesItsModels) {
  inference::ModelMetadataRequest request;
  request.set_name("mnist");
  inference::ModelMetadataResponse response;
  grpc::ClientContext context;
  ASSERT_TRUE(stub_->ModelMetadata(&context, request, &response).ok());
  EXPECT_EQ(response.platform(), "sluice_onnx");
  EXPECT_THAT(response.versions(), testing::ElementsAre("1"));
  ASSERT_EQ(response.inputs_size(), 1);
  EXPECT_EQ(response.inputs(0).name(), "Input3");
  EXPECT_EQ(response.inputs(0).datatype(), "FP32");
  EXPECT_THAT(response.inputs(0).shape(), testing::ElementsAre(1, 1, 28, 28));
  request.set_name("nobody");
  grpc::ClientContext unknown;
  const grpc::Status status = stub_->ModelMetadata(&unknown, request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_THAT(status.error_message(), testing::StartsWith("Request for unknown model"));
}

TEST_F(WireTest, ModelReadyTellsKnownFromReady) {
  const auto ready = [&](const std::string& name) {
    grpc::ClientContext context;
    inference::ModelReadyRequest request;
    request.set_name(name);
    inference::ModelReadyResponse response;
    const grpc::Status status = stub_->ModelReady(&context, request, &response);
    return std::pair(status.error_code(), response.ready());
  };
  EXPECT_EQ(ready("mnist"), std::pair(grpc::StatusCode::OK, true));
  EXPECT_EQ(ready("broken"), std::pair(grpc::StatusCode::OK, false));
  EXPECT_EQ(ready("nobody"), std::pair(grpc::StatusCode::NOT_FOUND, false));
}

TEST_F(WireTest, IndexesEveryModelAndOnlyTheReadyOnesWhenAsked) {
  inference::RepositoryIndexRequest request;
  inference::RepositoryIndexResponse all, ready;
  grpc::ClientContext first, second;
  ASSERT_TRUE(stub_->RepositoryIndex(&first, request, &all).ok());
  ASSERT_EQ(all.models_size(), 3);
  request.set_ready(true);
  ASSERT_TRUE(stub_->RepositoryIndex(&second, request, &ready).ok());
  ASSERT_EQ(ready.models_size(), 1);
  EXPECT_EQ(ready.models(0).name(), "mnist");
  EXPECT_EQ(ready.models(0).state(), "READY");
  for (const auto& model : all.models()) {
    if (model.name() != "broken") continue;
    EXPECT_EQ(model.state(), "UNAVAILABLE");
    EXPECT_FALSE(model.reason().empty());
  }
}

grpc::Status Load(inference::GRPCInferenceService::Stub& stub,
                  const inference::RepositoryModelLoadRequest& request) {
  grpc::ClientContext context;
  inference::RepositoryModelLoadResponse response;
  return stub.RepositoryModelLoad(&context, request, &response);
}

TEST_F(WireTest, LoadsAndUnloadsOnTheUnixSocket) {
  inference::RepositoryModelLoadRequest load;
  load.set_model_name("later");
  ASSERT_TRUE(Load(*stub_, load).ok());
  inference::ModelInferRequest request = Digit();
  request.set_model_name("later");
  inference::ModelInferResponse answer;
  ASSERT_TRUE(Infer(request, &answer).ok());
  ExpectSeven(answer);
  inference::RepositoryModelUnloadRequest unload;
  unload.set_model_name("later");
  (*unload.mutable_parameters())["unload_dependents"].set_bool_param(true);
  grpc::ClientContext context;
  inference::RepositoryModelUnloadResponse response;
  ASSERT_TRUE(stub_->RepositoryModelUnload(&context, unload, &response).ok());
  ExpectRefusal(request, grpc::StatusCode::UNAVAILABLE, "a client unloaded it");
}

TEST_F(WireTest, RefusesLoadsThatItCannotMake) {
  inference::RepositoryModelLoadRequest load;
  load.set_model_name("nobody");
  grpc::Status status = Load(*stub_, load);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_THAT(status.error_message(), HasSubstr("failed to load 'nobody'"));
  load.set_model_name("broken");
  status = Load(*stub_, load);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("failed to load 'broken'"));
  for (const char* name : {"config", "file:1/model.onnx"}) {
    load.clear_parameters();
    (*load.mutable_parameters())[name].set_string_param("{}");
    status = Load(*stub_, load);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_THAT(status.error_message(), HasSubstr(name));
  }
}

TEST_F(WireTest, RefusesControlOverTcpUnlessItIsConfigured) {
  const auto tcp = inference::GRPCInferenceService::NewStub(daemon_->Channel(1));
  inference::RepositoryModelLoadRequest load;
  load.set_model_name("mnist");
  const grpc::Status status = Load(*tcp, load);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_THAT(status.error_message(), HasSubstr("control.tcp"));
  const auto extensions = [](inference::GRPCInferenceService::Stub& stub) {
    grpc::ClientContext context;
    inference::ServerMetadataResponse response;
    EXPECT_TRUE(stub.ServerMetadata(&context, {}, &response).ok());
    return std::vector<std::string>(response.extensions().begin(), response.extensions().end());
  };
  EXPECT_THAT(extensions(*stub_), testing::Contains("model_repository"));
  EXPECT_THAT(extensions(*tcp), testing::Not(testing::Contains("model_repository")));
}

TEST_F(WireTest, TheMemoryReportAddsUp) {
  const auto stub = v1::Sluice::NewStub(channel_);
  grpc::ClientContext context;
  v1::GetMemoryResponse response;
  ASSERT_TRUE(stub->GetMemory(&context, {}, &response).ok());
  EXPECT_GT(response.budget_bytes(), 0u);
  std::uint64_t sum = 0;
  for (const auto& line : response.ledger()) sum += line.reserved_bytes();
  EXPECT_EQ(response.reserved_bytes(), sum);
  EXPECT_GT(response.resident_bytes(), 0u);
  EXPECT_EQ(response.models_size(), 3);
}

TEST(WireLoadingTest, EveryAnswerBeforeTheModelIsReadyIsUnavailable) {
  if (!std::filesystem::exists(SharedModels() / "mnist_cnn" / "model.onnx")) {
    GTEST_SKIP() << "SLUICE_SHARED has no models/mnist_cnn/model.onnx";
  }
  TestDaemon daemon;
  ASSERT_TRUE(daemon.started());
  const auto stub = inference::GRPCInferenceService::NewStub(daemon.Channel());
  inference::ModelInferRequest request;
  request.set_model_name("mnist");
  // Decoding needs the model's description: without inputs, INVALID_ARGUMENT says it is ready.
  grpc::Status status;
  do {
    grpc::ClientContext context;
    inference::ModelInferResponse answer;
    status = stub->ModelInfer(&context, request, &answer);
    ASSERT_TRUE(status.error_code() == grpc::StatusCode::UNAVAILABLE ||
                status.error_code() == grpc::StatusCode::INVALID_ARGUMENT)
        << status.error_message();
  } while (status.error_code() == grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(status.error_message(), HasSubstr("missing \"Input3\""));
}

}  // namespace
}  // namespace sluice
