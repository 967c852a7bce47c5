// The daemon without its wire, on a real network with right answers.

#include "server/model_service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "server/model_service_fixture.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using std::chrono::hours;
using std::chrono::seconds;
using testing::HasSubstr;

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
  const Bytes before = ReservedBesideHeadroom(service_->memory());

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
  EXPECT_LE(ReservedBesideHeadroom(service_->memory()), before + 4_MiB);
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
