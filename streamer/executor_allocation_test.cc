// Counts calls to operator new, in every thread: an inference makes none.

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "streamer/executor.h"
#include "streamer/sim_disk.h"
#include "streamer/testing/scratch_folder.h"
#include "streamer/testing/sum_program.h"
#include "streamer/testing/test_package.h"

namespace {

std::atomic<std::size_t> allocations{0};

void* Allocate(std::size_t size) {
  ++allocations;
  void* const memory = std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) std::abort();
  return memory;
}

}  // namespace

void* operator new(std::size_t size) { return Allocate(size); }
void* operator new[](std::size_t size) { return Allocate(size); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

namespace sluice {
namespace {

class AllocationTest : public testing::TestWithParam<bool> {
 protected:
  AllocationTest() {
    const SumProgramOptions options{.extents = AnyExtents(5, 20, 200_KiB), .during_step = {}};
    model_ = MakeStreamedModel(MakeSumProgram(options), folder_.path() / "p.sluice");
    executor_ = *Executor::Open({.io_uring = GetParam(), .queue_depth = 4, .read_size = 64_KiB});
  }

  std::size_t AllocationsOfOneRun() {
    const std::span<const std::byte> input(input_);
    const std::span<std::byte> output(output_);
    const std::size_t before = allocations;
    const bool ok = executor_->Run(*model_, {&input, 1}, {&output, 1}, gate_).ok();
    const std::size_t after = allocations;
    EXPECT_TRUE(ok);
    return after - before;
  }

  const ScratchFolder folder_;
  std::unique_ptr<StreamedModel> model_;
  std::unique_ptr<Executor> executor_;
  const std::vector<std::byte> input_ = AnyBytes(1, 256);
  std::vector<std::byte> output_ = std::vector<std::byte>(256);
  const StepGate gate_ = [](StepIndex) { return absl::OkStatus(); };
};

TEST_P(AllocationTest, CountsAllocationsAtAll) {
  const std::size_t before = allocations;
  EXPECT_GT(AnyBytes(1, 100).size(), 0u);
  EXPECT_GT(allocations, before);
}

TEST_P(AllocationTest, AnInferenceAfterTheFirstAllocatesNothing) {
  ASSERT_TRUE(executor_->Resize(MinimumArena(*model_) + 100_KiB).ok());
  AllocationsOfOneRun();
  for (int i = 0; i < 5; ++i) EXPECT_EQ(AllocationsOfOneRun(), 0u);
}

TEST_P(AllocationTest, NothingIsAllocatedWhenMoreExtentsAreStreamedThanAtFirst) {
  ASSERT_TRUE(executor_->Resize(MinimumArena(*model_)).ok());
  const std::size_t extents = model_->extent_bytes().size();
  ASSERT_TRUE(executor_->SetResidents(*model_, std::vector<bool>(extents, true)).ok());
  AllocationsOfOneRun();
  ASSERT_TRUE(executor_->SetResidents(*model_, std::vector<bool>(extents, false)).ok());
  EXPECT_EQ(AllocationsOfOneRun(), 0u);
}

INSTANTIATE_TEST_SUITE_P(IoUringAndThreads, AllocationTest, testing::Bool());

}  // namespace
}  // namespace sluice
