// The executor on real files: io_uring, the thread pool, and the simulator with real threads.

#include "streamer/executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "streamer/sim_disk.h"
#include "streamer/testing/scratch_folder.h"
#include "streamer/testing/sum_program.h"
#include "streamer/testing/test_package.h"

namespace sluice {
namespace {

using testing::AnyOf;
using testing::HasSubstr;
using Tensors = std::vector<std::vector<std::byte>>;

struct Kind {
  std::string name;
  std::function<std::unique_ptr<Executor>()> open;
  friend void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }
};

std::unique_ptr<Executor> OpenReal(bool io_uring) {
  auto executor = Executor::Open({.io_uring = io_uring, .queue_depth = 4, .read_size = 64_KiB});
  EXPECT_TRUE(executor.ok()) << executor.status();
  return *std::move(executor);
}

std::unique_ptr<Executor> OpenSimulated(const SimDisk::Options& options) {
  return Executor::OpenOn(std::make_unique<SimDisk>(options), {.read_size = 16_KiB});
}

class ExecutorTest : public testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    if (GetParam().name == "IoUring" && !OpenIoUringDevice(4).ok()) {
      GTEST_SKIP() << "the kernel forbids io_uring here: " << OpenIoUringDevice(4).status();
    }
    executor_ = GetParam().open();
    MakeModel({.extents = AnyExtents(5, 20, 200_KiB), .steps_per_extent = 2, .during_step = {}});
  }

  void MakeModel(const SumProgramOptions& options) {
    const std::unique_ptr<Program> whole = MakeSumProgram(options);
    wanted_ = RunWhole(*whole, inputs_);
    model_ = MakeStreamedModel(MakeSumProgram(options), path_);
  }

  void ExpectRightAnswer() {
    const absl::StatusOr<Tensors> outputs = RunOnce(*executor_, *model_, inputs_);
    ASSERT_TRUE(outputs.ok()) << outputs.status();
    EXPECT_EQ(*outputs, wanted_);
  }

  std::vector<bool> Residents(bool all) const {
    return std::vector<bool>(model_->extent_bytes().size(), all);
  }

  ScratchFolder folder_;
  const std::filesystem::path path_ = folder_.path() / "p.sluice";
  const Tensors inputs_ = {AnyBytes(3, 256)};
  Tensors wanted_;
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<StreamedModel> model_;
};

TEST_P(ExecutorTest, GivesTheSameBytesWhateverTheRing) {
  const Bytes least = MinimumArena(*model_);
  for (const Bytes more : {Bytes(), kPageSize, 100_KiB, 500_KiB, model_->weight_bytes()}) {
    SCOPED_TRACE(FormatBytes(least + more));
    ASSERT_TRUE(executor_->Resize(least + more).ok());
    EXPECT_EQ(executor_->arena(), least + more);
    ExpectRightAnswer();
    ExpectRightAnswer();
  }
}

TEST_P(ExecutorTest, GivesTheSameBytesWhateverIsResident) {
  ASSERT_TRUE(executor_->Resize(MinimumArena(*model_)).ok());
  for (std::size_t residents = 0; residents <= model_->extent_bytes().size(); residents += 5) {
    std::vector<bool> resident = Residents(false);
    // Every other one first, so that streamed ones lie between.
    Bytes bytes;
    for (std::size_t i = 0; i < residents; ++i) {
      const std::size_t extent = i < 10 ? 2 * i : 2 * (i - 10) + 1;
      resident[extent] = true;
      bytes += model_->extent_bytes()[extent];
    }
    ASSERT_TRUE(executor_->SetResidents(*model_, resident).ok());
    EXPECT_EQ(model_->resident_bytes(), bytes);
    ExpectRightAnswer();
  }
  ASSERT_TRUE(executor_->SetResidents(*model_, Residents(false)).ok());
  EXPECT_EQ(model_->resident_bytes(), Bytes());
  ExpectRightAnswer();
}

TEST_P(ExecutorTest, NeedsNoRingWhenEverythingIsResident) {
  ASSERT_TRUE(executor_->SetResidents(*model_, Residents(true)).ok());
  ASSERT_TRUE(executor_->Resize(AlignUp(model_->activations().height, kPageSize)).ok());
  InferenceStats stats;
  const absl::StatusOr<Tensors> outputs = RunOnce(*executor_, *model_, inputs_, &stats);
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_EQ(*outputs, wanted_);
  EXPECT_EQ(stats.reads, 0u);
  EXPECT_EQ(stats.streamed, Bytes());
}

TEST_P(ExecutorTest, CountsWhatItReadAndHowLongItTook) {
  ASSERT_TRUE(executor_->Resize(MinimumArena(*model_)).ok());
  InferenceStats stats;
  ASSERT_TRUE(RunOnce(*executor_, *model_, inputs_, &stats).ok());
  EXPECT_EQ(stats.streamed, model_->weight_bytes());
  EXPECT_GE(stats.reads, model_->extent_bytes().size());
  EXPECT_GT(stats.stall, Duration::zero());
  EXPECT_LT(stats.stall, stats.total);
}

TEST_P(ExecutorTest, ReadsWeightsOf16BitsInHalfTheBytesAndComputesWithTheSameBits) {
  std::filesystem::remove(path_);
  MakeModel({.extents = std::vector<Bytes>(9, Bytes::Of(150'001)),
             .half_floats = true,
             .during_step = {}});
  Bytes stored;
  for (const ExtentRecord& extent : model_->package().extents()) {
    EXPECT_EQ(extent.runs.size(), 1u);
    stored += extent.stored_pages();
  }
  EXPECT_LT(stored.count(), model_->weight_bytes().count() * 53 / 100);
  ASSERT_TRUE(executor_->Resize(MinimumArena(*model_)).ok());
  InferenceStats stats;
  const absl::StatusOr<Tensors> outputs = RunOnce(*executor_, *model_, inputs_, &stats);
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_EQ(*outputs, wanted_);
  EXPECT_EQ(stats.streamed, stored);
  EXPECT_TRUE(executor_->MeasureReads(*model_).ok());
  std::vector<bool> some = Residents(false);
  some[2] = some[3] = some[8] = true;
  ASSERT_TRUE(executor_->SetResidents(*model_, some).ok());
  ExpectRightAnswer();
  ASSERT_TRUE(executor_->SetResidents(*model_, Residents(true)).ok());
  ExpectRightAnswer();
  EXPECT_EQ(model_->resident_bytes(), model_->weight_bytes());
}

TEST_P(ExecutorTest, WidensNothingThatIsDamaged) {
  std::filesystem::remove(path_);
  MakeModel({.extents = std::vector<Bytes>(4, 100_KiB), .half_floats = true, .during_step = {}});
  ASSERT_TRUE(executor_->Resize(MinimumArena(*model_) + 150_KiB).ok());
  const ExtentRecord record = model_->package().extents()[2];
  for (const std::uint64_t byte :
       {std::uint64_t{0}, record.stored_pages().count() / 2, record.stored_pages().count() - 1}) {
    FlipBit(path_, record.offset.count() + byte, 3);
    EXPECT_EQ(RunOnce(*executor_, *model_, inputs_).status().code(), absl::StatusCode::kDataLoss);
    FlipBit(path_, record.offset.count() + byte, 3);
    ExpectRightAnswer();
  }
}

TEST_P(ExecutorTest, SaysWhatAnArenaThatIsTooSmallLacks) {
  ASSERT_TRUE(executor_->Resize(MinimumArena(*model_) - kPageSize).ok());
  const absl::Status status = RunOnce(*executor_, *model_, inputs_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr(FormatBytes(MinimumArena(*model_))));
  ASSERT_TRUE(executor_->Resize(Bytes()).ok());
  EXPECT_EQ(RunOnce(*executor_, *model_, inputs_).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_P(ExecutorTest, RunsOnAfterAnArenaThatCannotBeHad) {
  EXPECT_EQ(executor_->Resize(Bytes::Of(std::uint64_t{1} << 60)).code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(executor_->arena(), Bytes());
  ASSERT_TRUE(executor_->Resize(MinimumArena(*model_)).ok());
  ExpectRightAnswer();
}

TEST_P(ExecutorTest, EndsWithWhatTheGateSaysAtAnyStepAndStartsCleanAgain) {
  ASSERT_TRUE(executor_->Resize(MinimumArena(*model_) + 300_KiB).ok());
  const std::size_t steps = model_->program().steps().size();
  for (std::size_t stop = 0; stop < steps; stop += 3) {
    std::size_t asked = 0;
    std::vector<std::byte> output(256, std::byte{7});
    const std::span<const std::byte> input(inputs_[0]);
    const std::span<std::byte> out(output);
    const absl::Status status = executor_
                                    ->Run(*model_, {&input, 1}, {&out, 1},
                                          [&](StepIndex step) {
                                            EXPECT_EQ(Index(step), asked++);
                                            return Index(step) == stop
                                                       ? absl::DeadlineExceededError("late")
                                                       : absl::OkStatus();
                                          })
                                    .status();
    EXPECT_EQ(status, absl::DeadlineExceededError("late"));
    EXPECT_EQ(output, std::vector<std::byte>(256, std::byte{7})) << "written without an answer";
    ExpectRightAnswer();
  }
}

TEST_P(ExecutorTest, LeavesOutOutputsThatNobodyWants) {
  ASSERT_TRUE(executor_->Resize(MinimumArena(*model_)).ok());
  const std::span<const std::byte> input(inputs_[0]);
  const std::span<std::byte> none;
  EXPECT_TRUE(executor_->Run(*model_, {&input, 1}, {&none, 1}, nullptr).ok());
}

TEST_P(ExecutorTest, NamesPackageExtentAndBytesOfEveryFlippedBit) {
  ASSERT_TRUE(executor_->Resize(MinimumArena(*model_) + 300_KiB).ok());
  for (std::size_t extent = 0; extent < model_->extent_bytes().size(); ++extent) {
    const ExtentRecord& record = model_->package().extents()[extent];
    const std::uint64_t whole = model_->extent_bytes()[extent].count();
    // The first and the last bit, one inside, and one in the padding where there is any.
    for (const std::uint64_t byte : {std::uint64_t{0}, whole / 2, whole - 1}) {
      const auto bit = static_cast<unsigned>(extent % 8);
      FlipBit(path_, record.offset.count() + byte, bit);
      const std::string name =
          absl::StrFormat("package \"%s\": extent %d, bytes [%d, %d)", path_.native(), extent,
                          record.offset.count(), record.offset.count() + whole);
      const absl::Status streamed = RunOnce(*executor_, *model_, inputs_).status();
      EXPECT_EQ(streamed.code(), absl::StatusCode::kDataLoss) << "extent " << extent;
      EXPECT_THAT(std::string(streamed.message()), HasSubstr(name));
      const absl::Status resident = executor_->SetResidents(*model_, Residents(true));
      EXPECT_EQ(resident.code(), absl::StatusCode::kDataLoss);
      for (std::size_t i = 0; i < model_->extent_bytes().size(); ++i) {
        EXPECT_EQ(model_->resident(At<ExtentIndex>(i)) != nullptr, i < extent) << i;
      }
      ASSERT_TRUE(executor_->SetResidents(*model_, Residents(false)).ok());
      FlipBit(path_, record.offset.count() + byte, bit);
    }
  }
  ExpectRightAnswer();
}

TEST_P(ExecutorTest, ReportsAPackageThatWasCutAfterItWasOpened) {
  ASSERT_TRUE(executor_->Resize(MinimumArena(*model_)).ok());
  const ExtentRecord& last = model_->package().extents().back();
  std::filesystem::resize_file(path_, last.offset.count());
  EXPECT_EQ(RunOnce(*executor_, *model_, inputs_).status().code(), absl::StatusCode::kDataLoss);
}

TEST_P(ExecutorTest, RunsTwoModelsInTurnInOneArena) {
  std::unique_ptr<StreamedModel> first = std::move(model_);
  const Tensors first_wanted = wanted_;
  std::filesystem::remove(path_);
  MakeModel({.seed = 9, .extents = AnyExtents(6, 7, 300_KiB), .during_step = {}});
  ASSERT_TRUE(executor_->Resize(std::max(MinimumArena(*first), MinimumArena(*model_))).ok());
  for (int i = 0; i < 3; ++i) {
    ExpectRightAnswer();
    const absl::StatusOr<Tensors> outputs = RunOnce(*executor_, *first, inputs_);
    ASSERT_TRUE(outputs.ok()) << outputs.status();
    EXPECT_EQ(*outputs, first_wanted);
  }
}

TEST_P(ExecutorTest, ProfilesEveryStepAndTheReads) {
  ASSERT_TRUE(executor_->Resize(MinimumArena(*model_)).ok());
  const absl::StatusOr<ModelProfile> profile = executor_->Profile(*model_, 3);
  ASSERT_TRUE(profile.ok()) << profile.status();
  ASSERT_EQ(profile->costs.size(), model_->program().steps().size());
  for (std::size_t i = 0; i < profile->costs.size(); ++i) {
    EXPECT_EQ(profile->costs[i].extent, model_->program().steps()[i].extent);
    EXPECT_GT(profile->costs[i].compute, Duration::zero());
  }
  const absl::StatusOr<ReadCost> read = executor_->MeasureReads(*model_);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_GT(read->bytes_per_second, 0);
  EXPECT_GT(read->latency, Duration::zero());
  ExpectRightAnswer();
}

TEST_P(ExecutorTest, TheSelfTestsAnswerDependsOnTheWeightsAlone) {
  ASSERT_TRUE(executor_->Resize(MinimumArena(*model_)).ok());
  const absl::StatusOr<ModelProfile> streamed = executor_->Profile(*model_, 1);
  ASSERT_TRUE(streamed.ok()) << streamed.status();
  const std::vector<bool> all(model_->extent_bytes().size(), true);
  ASSERT_TRUE(executor_->SetResidents(*model_, all).ok());
  const absl::StatusOr<ModelProfile> resident = executor_->Profile(*model_, 2);
  ASSERT_TRUE(resident.ok()) << resident.status();
  EXPECT_EQ(resident->answer, streamed->answer);

  std::filesystem::remove(path_);
  MakeModel({.seed = 9, .extents = AnyExtents(6, 7, 300_KiB), .during_step = {}});
  ASSERT_TRUE(executor_->Resize(MinimumArena(*model_)).ok());
  const absl::StatusOr<ModelProfile> other = executor_->Profile(*model_, 1);
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_NE(other->answer, streamed->answer);
}

TEST_P(ExecutorTest, MeasuresReadsOnlyThroughAnArena) {
  EXPECT_EQ(executor_->MeasureReads(*model_).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_P(ExecutorTest, LeavesNothingInThePageCache) {
  if (!model_->package().direct()) GTEST_LOG_(INFO) << "reads pass through the page cache here";
  ASSERT_TRUE(executor_->Resize(MinimumArena(*model_)).ok());
  ExpectRightAnswer();
  ASSERT_TRUE(executor_->SetResidents(*model_, Residents(true)).ok());
  EXPECT_LT(CachedBytes(path_), (1_MiB).count());
}

INSTANTIATE_TEST_SUITE_P(Devices, ExecutorTest,
                         testing::Values(Kind{"IoUring", [] { return OpenReal(true); }},
                                         Kind{"ThreadPool", [] { return OpenReal(false); }},
                                         Kind{"Simulator",
                                              [] {
                                                return OpenSimulated(
                                                    {.seed = 4,
                                                     .short_read_percent = 20,
                                                     .latency_max = std::chrono::milliseconds(2),
                                                     .queue_depth = 3});
                                              }}),
                         [](const testing::TestParamInfo<Kind>& info) { return info.param.name; });

class ExecutorSim : public testing::TestWithParam<std::uint64_t> {};

// Threads are real here, so a seed is not one run; what must hold does so in all of them.
TEST_P(ExecutorSim, AnswersRightOrReportsAnErrorAndStartsCleanAgain) {
  const ScratchFolder folder;
  const Tensors inputs = {AnyBytes(GetParam(), 256)};
  const SumProgramOptions options{.seed = GetParam(),
                                  .extents = AnyExtents(GetParam(), 12, 60_KiB),
                                  .steps_per_extent = 1 + GetParam() % 3,
                                  .half_floats = GetParam() % 2 == 0,
                                  .during_step = {}};
  const Tensors wanted = RunWhole(*MakeSumProgram(options), inputs);
  const auto model = MakeStreamedModel(MakeSumProgram(options), folder.path() / "p.sluice");
  const auto executor = OpenSimulated({.seed = GetParam(),
                                       .short_read_percent = 20,
                                       .eio_percent = 12,
                                       .flip_percent = 6,
                                       .refuse_percent = 10,
                                       .latency_max = std::chrono::milliseconds(3),
                                       .queue_depth = 1 + GetParam() % 5});
  ASSERT_TRUE(executor->Resize(MinimumArena(*model) + kPageSize * (GetParam() * 3 % 17)).ok());
  int answers = 0;
  for (int i = 0; i < 40 && answers < 3; ++i) {
    const absl::StatusOr<Tensors> outputs = RunOnce(*executor, *model, inputs);
    if (outputs.ok()) {
      ASSERT_EQ(*outputs, wanted);
      ++answers;
    } else {
      ASSERT_THAT(outputs.status().code(),
                  AnyOf(absl::StatusCode::kUnavailable, absl::StatusCode::kDataLoss));
    }
  }
  EXPECT_GT(answers, 0);
}

INSTANTIATE_TEST_SUITE_P(Seeds, ExecutorSim, testing::Range<std::uint64_t>(0, 60));

TEST(ExecutorMemoryTest, ReturnsTheArenaToTheSystem) {
  const auto resident_kib = [] {
    std::ifstream status("/proc/self/statm");
    std::size_t total = 0, pages = 0;
    status >> total >> pages;
    return pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)) / 1024;
  };
  const std::unique_ptr<Executor> executor = OpenReal(true);
  const ScratchFolder folder;
  const auto model = MakeStreamedModel(
      MakeSumProgram({.extents = std::vector<Bytes>(16, 1_MiB), .during_step = {}}),
      folder.path() / "p.sluice");
  const std::size_t before = resident_kib();
  ASSERT_TRUE(executor->Resize(MinimumArena(*model) + 16_MiB).ok());
  ASSERT_TRUE(RunOnce(*executor, *model, {AnyBytes(1, 256)}).ok());
  const std::size_t during = resident_kib();
  EXPECT_GT(during, before + 14 * 1024);
  ASSERT_TRUE(executor->Resize(Bytes()).ok());
  EXPECT_LT(resident_kib(), during - 14 * 1024);
}

}  // namespace
}  // namespace sluice
