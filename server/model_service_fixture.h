// server/model_service_fixture.h
//
// For tests: a model service with a network of handwritten digits, whose right answers are known.

#ifndef SLUICE_SERVER_MODEL_SERVICE_FIXTURE_H_
#define SLUICE_SERVER_MODEL_SERVICE_FIXTURE_H_

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <latch>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/mutex.h"
#include "server/model_service.h"

namespace sluice {

inline constexpr std::size_t kInputFloats = 28 * 28;
inline constexpr std::size_t kOutputFloats = 10;

inline std::string Slurp(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// A call whose buffers live here, and whose answer can be waited for.
class PendingCall {
 public:
  explicit PendingCall(std::vector<float> input) : input_(std::move(input)) {}

  InferenceCall Make(std::string model, std::string version = "") {
    InferenceCall call;
    call.model = std::move(model);
    call.version = std::move(version);
    call.inputs = {std::as_bytes(std::span(input_))};
    call.outputs = {std::as_writable_bytes(std::span(output))};
    call.arrival = SteadyClock().Now();
    call.done = [this](absl::Status status) {
      MutexLock lock(mutex_);
      EXPECT_FALSE(answer_.has_value()) << "answered twice";
      answer_ = std::move(status);
      answered_.NotifyAll();
    };
    return call;
  }
  absl::Status Wait() {
    MutexLock lock(mutex_);
    while (!answer_) answered_.Wait(mutex_);
    return *answer_;
  }
  bool answered() {
    MutexLock lock(mutex_);
    return answer_.has_value();
  }

  std::vector<float> output = std::vector<float>(kOutputFloats, -1);

 private:
  std::vector<float> input_;
  Mutex mutex_;
  CondVar answered_;
  std::optional<absl::Status> answer_;
};

// The headroom follows what the allocator keeps.
inline Bytes ReservedBesideHeadroom(const MemoryReport& memory) {
  Bytes sum;
  for (const MemoryLedger::Line& line : memory.lines) {
    if (line.line != "headroom") sum += line.reserved;
  }
  return sum;
}

class ModelServiceTest : public testing::Test {
 protected:
  void SetUp() override {
    const char* shared = std::getenv("SLUICE_SHARED");
    if (shared == nullptr ||
        !std::filesystem::exists(std::filesystem::path(shared) / "models/mnist_cnn/model.onnx")) {
      GTEST_SKIP() << "SLUICE_SHARED names no folder with models/mnist_cnn";
    }
    shared_ = shared;
    base_ = std::filesystem::path(testing::TempDir()) / "sluice_model_service_test";
    std::filesystem::remove_all(base_);
    std::filesystem::create_directories(base_);
    std::filesystem::copy_file(shared_ / "models/mnist_cnn/model.onnx", base_ / "mnist.onnx");
    config_.budget = 512_MiB;
    config_.cache_dir = base_ / "cache";
    config_.models = {Model("mnist", base_ / "mnist.onnx")};
  }
  void TearDown() override {
    service_.reset();
    std::filesystem::remove_all(base_);
  }

  ModelConfig Model(std::string name, std::filesystem::path path) {
    ModelConfig model;
    model.name = std::move(name);
    model.path = std::move(path);
    model.root = base_;
    model.where = "test:1";
    return model;
  }

  void Start() {
    absl::StatusOr<std::unique_ptr<ModelService>> started = ModelService::Start(config_);
    ASSERT_TRUE(started.ok()) << started.status();
    service_ = *std::move(started);
    service_->OnChange([this] {
      MutexLock lock(mutex_);
      changed_.NotifyAll();
    });
    WaitUntil([this] { return service_->ready(); });
  }
  void StartReady() {
    Start();
    ASSERT_EQ(Status("mnist").state, ModelState::kReady) << Status("mnist").reason;
  }
  // Looks again after each change that the service announces.
  template <typename Condition>
  void WaitUntil(const Condition& condition) {
    MutexLock lock(mutex_);
    while (!condition()) changed_.WaitUntil(mutex_, SteadyClock().Now() + std::chrono::seconds(1));
  }
  void Reload() {
    service_->Reload(config_);
    WaitUntil([this] { return !service_->loading(); });
  }

  ModelStatus Status(std::string_view name) {
    const absl::StatusOr<ModelStatus> status = service_->Find(name, "");
    EXPECT_TRUE(status.ok()) << status.status();
    return status.ok() ? *status : ModelStatus();
  }

  std::vector<float> Digit() {
    const std::string pixels = Slurp(shared_ / "models/_inputs/digit7_28x28.gray");
    std::vector<float> input;
    for (const char pixel : pixels) input.push_back(static_cast<unsigned char>(pixel));
    EXPECT_EQ(input.size(), kInputFloats);
    return input;
  }
  void ExpectRightAnswer(const std::vector<float>& output) {
    const std::string bytes = Slurp(shared_ / "models/mnist_cnn/digit.out0.bin");
    ASSERT_EQ(bytes.size(), kOutputFloats * sizeof(float));
    std::vector<float> wanted(kOutputFloats);
    std::memcpy(wanted.data(), bytes.data(), bytes.size());
    for (std::size_t i = 0; i < kOutputFloats; ++i) {
      EXPECT_NEAR(output[i], wanted[i], 1.05 + 0.001 * std::abs(wanted[i])) << i;
    }
  }
  absl::Status InferOnce(std::string model = "mnist", std::string version = "") {
    PendingCall call(Digit());
    service_->Infer(call.Make(std::move(model), std::move(version)));
    absl::Status status = call.Wait();
    if (status.ok()) ExpectRightAnswer(call.output);
    return status;
  }
  std::filesystem::path PackageFile() {
    for (const auto& entry : std::filesystem::directory_iterator(config_.cache_dir)) {
      if (entry.path().extension() == ".sluice") return entry.path();
    }
    ADD_FAILURE() << "no package in " << config_.cache_dir;
    return {};
  }

  std::filesystem::path shared_, base_;
  Config config_;
  std::unique_ptr<ModelService> service_;
  Mutex mutex_;
  CondVar changed_;
};

// Holds the compute slot from its first step until it is let go.
class Holder {
 public:
  explicit Holder(std::vector<float> input) : call_(std::move(input)) {}
  InferenceCall Make(std::string model) {
    InferenceCall call = call_.Make(std::move(model));
    call.cancelled = [this] {
      if (!holding_) {
        holding_ = true;
        begun_.count_down();
        release_.wait();
      }
      return false;
    };
    return call;
  }
  void WaitUntilItHolds() { begun_.wait(); }
  absl::Status LetGo() {
    release_.count_down();
    return call_.Wait();
  }

 private:
  PendingCall call_;
  bool holding_ = false;  // The compute team's.
  std::latch begun_{1}, release_{1};
};

}  // namespace sluice

#endif  // SLUICE_SERVER_MODEL_SERVICE_FIXTURE_H_
