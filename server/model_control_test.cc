// Loading and unloading at run time, on a real network with right answers.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "server/model_service.h"
#include "server/model_service_fixture.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

// Waits for the answer of a load or an unload.
class PendingControl {
 public:
  ModelService::Answered answered() {
    return [this](const absl::Status& status) {
      MutexLock lock(mutex_);
      EXPECT_FALSE(status_.has_value()) << "answered twice";
      status_ = status;
      come_.NotifyAll();
    };
  }
  absl::Status Wait() {
    MutexLock lock(mutex_);
    while (!status_) come_.Wait(mutex_);
    return *status_;
  }

 private:
  Mutex mutex_;
  CondVar come_;
  std::optional<absl::Status> status_;
};

absl::Status LoadNow(ModelService& service, const std::string& name) {
  PendingControl control;
  service.Load(name, control.answered());
  return control.Wait();
}

absl::Status UnloadNow(ModelService& service, const std::string& name) {
  PendingControl control;
  service.Unload(name, control.answered());
  return control.Wait();
}

TEST_F(ModelServiceTest, LoadsAnExplicitModelWhenAClientAsks) {
  config_.models[0].load = ModelConfig::Load::kExplicit;
  Start();
  ASSERT_TRUE(LoadNow(*service_, "mnist").ok());
  EXPECT_TRUE(InferOnce().ok());
  ASSERT_TRUE(LoadNow(*service_, "mnist").ok()) << "it is loaded already";
  EXPECT_EQ(Status("mnist").statistics->loads_ok, 1u);
  Reload();
  EXPECT_TRUE(InferOnce().ok()) << "a reload leaves what a client asked for";
}

TEST_F(ModelServiceTest, UnloadsAModelAndLoadsItAgain) {
  ASSERT_NO_FATAL_FAILURE(StartReady());
  const Bytes loaded = ReservedBesideHeadroom(service_->memory());
  ASSERT_TRUE(UnloadNow(*service_, "mnist").ok());
  EXPECT_EQ(Status("mnist").state, ModelState::kUnavailable);
  EXPECT_THAT(Status("mnist").reason, HasSubstr("a client unloaded it"));
  EXPECT_EQ(InferOnce().code(), absl::StatusCode::kUnavailable);
  for (const MemoryLedger::Line& line : service_->memory().lines) EXPECT_NE(line.model, "mnist");
  Reload();
  EXPECT_EQ(Status("mnist").state, ModelState::kUnavailable) << "it stays as the client wished";
  ASSERT_TRUE(UnloadNow(*service_, "mnist").ok()) << "unloaded already";
  ASSERT_TRUE(LoadNow(*service_, "mnist").ok());
  EXPECT_TRUE(InferOnce().ok());
  EXPECT_LE(ReservedBesideHeadroom(service_->memory()), loaded + 1_MiB);
}

TEST_F(ModelServiceTest, AnswersWhatWaitsBeforeItUnloads) {
  ASSERT_NO_FATAL_FAILURE(StartReady());
  Holder holder(Digit());
  service_->Infer(holder.Make("mnist"));
  holder.WaitUntilItHolds();
  PendingCall waits(Digit());
  service_->Infer(waits.Make("mnist"));
  PendingControl control;
  service_->Unload("mnist", control.answered());
  WaitUntil([this] { return Status("mnist").state == ModelState::kUnavailable; });
  EXPECT_EQ(InferOnce().code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(holder.LetGo().ok());
  EXPECT_TRUE(waits.Wait().ok());
  EXPECT_TRUE(control.Wait().ok());
}

TEST_F(ModelServiceTest, LoadsAModelThatHasAppearedInTheRepository) {
  fs::create_directories(base_ / "models");
  config_.model_repository = base_ / "models";
  Start();
  EXPECT_EQ(LoadNow(*service_, "digits").code(), absl::StatusCode::kNotFound);
  fs::create_directories(base_ / "models/digits/3");
  fs::copy_file(base_ / "mnist.onnx", base_ / "models/digits/3/model.onnx");
  ASSERT_TRUE(LoadNow(*service_, "digits").ok());
  EXPECT_TRUE(InferOnce("digits", "3").ok());
  fs::create_directories(base_ / "models/digits/4");
  fs::copy_file(base_ / "mnist.onnx", base_ / "models/digits/4/model.onnx");
  ASSERT_TRUE(LoadNow(*service_, "digits").ok());
  EXPECT_TRUE(InferOnce("digits", "4").ok());
  fs::create_directories(base_ / "models/digits/5");
  std::ofstream(base_ / "models/digits/5/model.onnx") << "no network";
  const absl::Status refused = LoadNow(*service_, "digits");
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.message(), HasSubstr("failed to load 'digits'"));
  EXPECT_TRUE(InferOnce("digits", "4").ok()) << "the old one stays";
}

TEST_F(ModelServiceTest, RefusesToLoadWhatIsNowhereDescribed) {
  config_.model_repository = base_ / "models";
  fs::create_directories(base_ / "models");
  fs::create_directories(base_ / "outside/1");
  Start();
  for (const char* name : {"nobody", "", ".", "..", "../outside", "a/b", ".hidden"}) {
    const absl::Status refused = LoadNow(*service_, name);
    EXPECT_EQ(refused.code(), absl::StatusCode::kNotFound) << name;
    EXPECT_THAT(refused.message(), HasSubstr("failed to load"));
    EXPECT_EQ(UnloadNow(*service_, name).code(), absl::StatusCode::kNotFound) << name;
  }
  EXPECT_EQ(service_->models().size(), 1u) << "nothing unknown is kept";
}

TEST_F(ModelServiceTest, AnswersLoadsThatWaitWhenItStops) {
  ASSERT_NO_FATAL_FAILURE(StartReady());
  Holder holder(Digit());
  service_->Infer(holder.Make("mnist"));
  holder.WaitUntilItHolds();
  // The first waits for the call that runs, the others for the first; the last is one too many.
  std::vector<std::unique_ptr<PendingControl>> controls;
  for (int i = 0; i < 100; ++i) {
    controls.push_back(std::make_unique<PendingControl>());
    service_->Unload("mnist", controls.back()->answered());
  }
  EXPECT_EQ(controls.back()->Wait().code(), absl::StatusCode::kUnavailable);
  std::thread drain([&] { service_->Shutdown(SteadyClock().Now()); });
  while (service_->AdmitRequest(1_KiB).ok()) std::this_thread::yield();
  EXPECT_EQ(holder.LetGo().code(), absl::StatusCode::kUnavailable);
  drain.join();
  for (const auto& control : controls) (void)control->Wait();
  EXPECT_EQ(LoadNow(*service_, "mnist").code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace sluice
