// The daemon without its wire, on a real network with right answers.

#include "server/model_service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <latch>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/mutex.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using std::chrono::hours;
using std::chrono::seconds;
using testing::HasSubstr;

constexpr std::size_t kInputFloats = 28 * 28;
constexpr std::size_t kOutputFloats = 10;

std::string Slurp(const fs::path& path) {
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

class ModelServiceTest : public testing::Test {
 protected:
  void SetUp() override {
    const char* shared = std::getenv("SLUICE_SHARED");
    if (shared == nullptr || !fs::exists(fs::path(shared) / "models/mnist_cnn/model.onnx")) {
      GTEST_SKIP() << "SLUICE_SHARED names no folder with models/mnist_cnn";
    }
    shared_ = shared;
    base_ = fs::path(testing::TempDir()) / "sluice_model_service_test";
    fs::remove_all(base_);
    fs::create_directories(base_);
    fs::copy_file(shared_ / "models/mnist_cnn/model.onnx", base_ / "mnist.onnx");
    config_.budget = 512_MiB;
    config_.cache_dir = base_ / "cache";
    config_.models = {Model("mnist", base_ / "mnist.onnx")};
  }
  void TearDown() override {
    service_.reset();
    fs::remove_all(base_);
  }

  ModelConfig Model(std::string name, fs::path path) {
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
    while (!condition()) changed_.WaitUntil(mutex_, SteadyClock().Now() + seconds(1));
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
    const absl::Status status = call.Wait();
    if (status.ok()) ExpectRightAnswer(call.output);
    return status;
  }
  fs::path PackageFile() {
    for (const auto& entry : fs::directory_iterator(config_.cache_dir)) {
      if (entry.path().extension() == ".sluice") return entry.path();
    }
    ADD_FAILURE() << "no package in " << config_.cache_dir;
    return {};
  }

  fs::path shared_, base_;
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

TEST_F(ModelServiceTest, LoadsAndAnswersRightly) {
  Start();
  const ModelStatus status = Status("mnist");
  ASSERT_EQ(status.state, ModelState::kReady) << status.reason;
  ASSERT_EQ(status.inputs.size(), 1u);
  EXPECT_EQ(status.inputs[0].name, "Input3");
  EXPECT_EQ(status.outputs[0].shape, (Shape{1, 10}));
  EXPECT_EQ(status.resident, status.weights);
  EXPECT_TRUE(InferOnce().ok());
  EXPECT_TRUE(InferOnce("mnist", "1").ok());
  EXPECT_EQ(status.statistics->requests[0], 2u);
  EXPECT_EQ(status.statistics->compute_duration.Read().count, 2u);
  EXPECT_EQ(status.statistics->loads_ok, 1u);
  EXPECT_EQ(status.statistics->queued, 0);
  EXPECT_EQ(status.statistics->running, 0);
}

TEST_F(ModelServiceTest, KeepsTheLedgerAboveTheProcess) {
  Start();
  ASSERT_TRUE(InferOnce().ok());
  const MemoryReport memory = service_->memory();
  EXPECT_EQ(memory.budget, 512_MiB);
  EXPECT_EQ(memory.budget_source, "configuration");
  EXPECT_LE(memory.resident + memory.swapped, memory.reserved);
  Bytes sum;
  for (const MemoryLedger::Line& line : memory.lines) sum += line.reserved;
  EXPECT_EQ(sum, memory.reserved);
}

TEST_F(ModelServiceTest, RefusesWhatItDoesNotKnow) {
  Start();
  const absl::Status unknown = InferOnce("other");
  EXPECT_EQ(unknown.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(unknown.message(), HasSubstr("Request for unknown model: 'other'"));
  const absl::Status version = InferOnce("mnist", "2");
  EXPECT_EQ(version.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(version.message(), HasSubstr("Request for unknown model"));
  const absl::Status text = InferOnce("mnist", "latest");
  EXPECT_EQ(text.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(text.message(),
              HasSubstr("failed to get model version from specified version string 'latest'"));
  PendingCall small(std::vector<float>(3));
  service_->Infer(small.Make("mnist"));
  EXPECT_EQ(small.Wait().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(ModelServiceTest, RefusesWhatTheQueueCannotHold) {
  config_.max_queue = 2;
  ASSERT_NO_FATAL_FAILURE(StartReady());
  Holder holder(Digit());
  service_->Infer(holder.Make("mnist"));
  holder.WaitUntilItHolds();
  PendingCall first(Digit()), second(Digit()), third(Digit());
  service_->Infer(first.Make("mnist"));
  service_->Infer(second.Make("mnist"));
  service_->Infer(third.Make("mnist"));
  const absl::Status full = third.Wait();
  EXPECT_EQ(full.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(full.message(), HasSubstr("is full"));
  EXPECT_FALSE(first.answered());
  EXPECT_TRUE(holder.LetGo().ok());
  EXPECT_TRUE(first.Wait().ok());
  EXPECT_TRUE(second.Wait().ok());
  const ModelStatus status = Status("mnist");
  EXPECT_EQ(status.statistics->rejected[static_cast<std::size_t>(RejectReason::kQueue)], 1u);
}

TEST_F(ModelServiceTest, AnswersExpiredAndCancelledCallsWhileTheyWait) {
  ASSERT_NO_FATAL_FAILURE(StartReady());
  Holder holder(Digit());
  service_->Infer(holder.Make("mnist"));
  holder.WaitUntilItHolds();
  PendingCall late(Digit()), left(Digit()), patient(Digit());
  InferenceCall call = late.Make("mnist");
  call.deadline = SteadyClock().Now() + std::chrono::milliseconds(30);
  service_->Infer(std::move(call));
  call = left.Make("mnist");
  call.cancelled = [] { return true; };
  service_->Infer(std::move(call));
  call = patient.Make("mnist");
  call.deadline = SteadyClock().Now() + hours(1);
  service_->Infer(std::move(call));
  // The slot is still held: only the sweeper can have answered.
  EXPECT_EQ(late.Wait().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(left.Wait().code(), absl::StatusCode::kCancelled);
  EXPECT_FALSE(patient.answered());
  EXPECT_TRUE(holder.LetGo().ok());
  EXPECT_TRUE(patient.Wait().ok());
}

TEST_F(ModelServiceTest, EndsRunningCallsBetweenSteps) {
  ASSERT_NO_FATAL_FAILURE(StartReady());
  PendingCall expires(Digit()), leaves(Digit());
  InferenceCall call = expires.Make("mnist");
  const Instant deadline = SteadyClock().Now() + std::chrono::milliseconds(50);
  call.deadline = deadline;
  call.cancelled = [deadline] {  // The first step takes until the deadline has passed.
    while (SteadyClock().Now() < deadline) continue;
    return false;
  };
  service_->Infer(std::move(call));
  EXPECT_EQ(expires.Wait().code(), absl::StatusCode::kDeadlineExceeded);
  call = leaves.Make("mnist");
  call.cancelled = [asked = 0]() mutable { return ++asked > 2; };
  service_->Infer(std::move(call));
  EXPECT_EQ(leaves.Wait().code(), absl::StatusCode::kCancelled);
  EXPECT_TRUE(InferOnce().ok());  // The next one starts clean.
}

TEST_F(ModelServiceTest, GivesCallsTheModelsDeadline) {
  config_.models[0].deadline = std::chrono::milliseconds(20);
  ASSERT_NO_FATAL_FAILURE(StartReady());
  Holder holder(Digit());
  InferenceCall first = holder.Make("mnist");
  first.deadline = SteadyClock().Now() + hours(1);
  service_->Infer(std::move(first));
  holder.WaitUntilItHolds();
  PendingCall waits(Digit());
  service_->Infer(waits.Make("mnist"));
  EXPECT_EQ(waits.Wait().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(holder.LetGo().ok());
}

TEST_F(ModelServiceTest, OpensThePackageThatItFinds) {
  Start();
  const fs::file_time_type packed = fs::last_write_time(PackageFile());
  service_.reset();
  Start();
  EXPECT_EQ(fs::last_write_time(PackageFile()), packed);
  EXPECT_TRUE(InferOnce().ok());
}

TEST_F(ModelServiceTest, BuildsADamagedPackageAgain) {
  Start();
  const fs::path package = PackageFile();
  const std::string right = Slurp(package);
  service_.reset();
  for (const std::size_t kept : {right.size() / 2, std::size_t{3}}) {
    std::ofstream(package, std::ios::binary) << right.substr(0, kept);
    Start();
    EXPECT_TRUE(InferOnce().ok());
    EXPECT_EQ(fs::file_size(package), right.size());
    service_.reset();
  }
  // Every page once: an extent that is resident is verified as it is read.
  for (std::size_t at = 100; at < right.size(); at += 4096) {
    std::string damaged = right;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    std::ofstream(package, std::ios::binary) << damaged;
    Start();
    EXPECT_TRUE(InferOnce().ok()) << "byte " << at;
    service_.reset();
  }
}

TEST_F(ModelServiceTest, RepairsAModelWhoseFileCannotBeReadAnyMore) {
  fs::copy_file(base_ / "mnist.onnx", base_ / "gone.onnx");
  config_.models.push_back(Model("gone", base_ / "gone.onnx"));
  Start();
  ASSERT_TRUE(InferOnce("gone").ok());
  fs::remove(base_ / "gone.onnx");
  Reload();  // The description is the same; the file's stamp is not.
  EXPECT_TRUE(InferOnce("gone").ok()) << "the old one stays";
  EXPECT_EQ(Status("gone").state, ModelState::kReady);
  EXPECT_EQ(Status("gone").statistics->loads_failed, 1u);
}

TEST_F(ModelServiceTest, ReloadsWhatHasChanged) {
  Start();
  ASSERT_TRUE(InferOnce().ok());
  const Bytes before = service_->memory().reserved;

  config_.models.push_back(Model("second", base_ / "mnist.onnx"));
  Reload();
  EXPECT_TRUE(InferOnce("second").ok());
  EXPECT_TRUE(InferOnce().ok());
  EXPECT_EQ(Status("mnist").statistics->loads_ok, 1u) << "unchanged, so it stays";

  config_.models.erase(config_.models.begin());
  config_.models[0].version = "7";
  Reload();
  EXPECT_EQ(InferOnce("mnist").code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(InferOnce("second", "7").ok());
  EXPECT_EQ(InferOnce("second", "1").code(), absl::StatusCode::kNotFound);
  EXPECT_LE(service_->memory().reserved, before + 4_MiB);
}

TEST_F(ModelServiceTest, FindsTheModelsOfTheRepository) {
  fs::create_directories(base_ / "models/digits/3");
  fs::copy_file(base_ / "mnist.onnx", base_ / "models/digits/3/model.onnx");
  fs::create_directories(base_ / "models/broken/1");
  std::ofstream(base_ / "models/broken/1/model.onnx") << "not a network";
  config_.models.clear();
  config_.model_repository = base_ / "models";
  Start();
  EXPECT_TRUE(InferOnce("digits", "3").ok());
  EXPECT_EQ(Status("broken").state, ModelState::kUnavailable);
  EXPECT_THAT(Status("broken").reason, HasSubstr("INVALID_ARGUMENT"));
  const absl::Status refused = InferOnce("broken");
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(refused.message(), HasSubstr("model 'broken' is not ready"));
}

TEST_F(ModelServiceTest, LeavesExplicitModelsUnloaded) {
  config_.models[0].load = ModelConfig::Load::kExplicit;
  Start();
  EXPECT_EQ(Status("mnist").state, ModelState::kUnavailable);
  EXPECT_EQ(InferOnce().code(), absl::StatusCode::kUnavailable);
}

TEST_F(ModelServiceTest, RefusesABudgetBelowAnEmptyDaemon) {
  config_.budget = 4_MiB;
  const absl::Status refused = ModelService::Start(config_).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(refused.message(), HasSubstr("memory.budget: got 4 MiB"));
}

TEST_F(ModelServiceTest, RefusesACacheThatCannotBeWritten) {
  std::ofstream(base_ / "file") << "x";
  config_.cache_dir = base_ / "file" / "cache";
  EXPECT_EQ(ModelService::Start(config_).status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(ModelServiceTest, AdmitsRequestsWithinBudgetAndNumber) {
  config_.max_in_flight = 2;
  Start();
  EXPECT_EQ(service_->AdmitRequest(1024_MiB, "mnist").status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Status("mnist").statistics->rejected[static_cast<std::size_t>(RejectReason::kBudget)],
            1u);
  const absl::StatusOr<Reservation> first = service_->AdmitRequest(1_KiB);
  {
    const absl::StatusOr<Reservation> second = service_->AdmitRequest(1_KiB);
    ASSERT_TRUE(second.ok());
    EXPECT_EQ(service_->AdmitRequest(1_KiB).status().code(), absl::StatusCode::kUnavailable);
  }
  EXPECT_TRUE(service_->AdmitRequest(1_KiB).ok());
}

TEST_F(ModelServiceTest, DrainsWhatRunsAndRefusesWhatComes) {
  ASSERT_NO_FATAL_FAILURE(StartReady());
  Holder holder(Digit());
  service_->Infer(holder.Make("mnist"));
  holder.WaitUntilItHolds();
  PendingCall waits(Digit());
  service_->Infer(waits.Make("mnist"));
  std::thread drain([&] { service_->Shutdown(SteadyClock().Now() + hours(1)); });
  while (service_->AdmitRequest(1_KiB).ok()) std::this_thread::yield();
  PendingCall refused(Digit());
  service_->Infer(refused.Make("mnist"));
  EXPECT_EQ(refused.Wait().code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(holder.LetGo().ok());
  EXPECT_TRUE(waits.Wait().ok());
  drain.join();
}

TEST_F(ModelServiceTest, CancelsWhatDoesNotEndInTime) {
  ASSERT_NO_FATAL_FAILURE(StartReady());
  Holder holder(Digit());
  service_->Infer(holder.Make("mnist"));
  holder.WaitUntilItHolds();
  PendingCall waits(Digit());
  service_->Infer(waits.Make("mnist"));
  std::thread drain([&] { service_->Shutdown(SteadyClock().Now()); });
  EXPECT_EQ(waits.Wait().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(holder.LetGo().code(), absl::StatusCode::kUnavailable);
  drain.join();
}

TEST_F(ModelServiceTest, ShowsProgressWhileIdleAndNoneWhileTheTeamHangs) {
  ASSERT_NO_FATAL_FAILURE(StartReady());
  std::uint64_t before = service_->Progress();
  while (service_->Progress() == before) std::this_thread::yield();
  Holder holder(Digit());
  service_->Infer(holder.Make("mnist"));
  holder.WaitUntilItHolds();
  before = service_->Progress();
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(service_->Progress(), before);
  EXPECT_TRUE(holder.LetGo().ok());
  while (service_->Progress() == before) std::this_thread::yield();
}

}  // namespace
}  // namespace sluice
