// Instances that no greedy order comes near to: from public benchmarks, read from the shared
// folder, and a generated one.

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "planner/instance_families.h"
#include "planner/offset_check.h"
#include "planner/offset_plan.h"
#include "planner/section_map.h"
#include "planner/usage_csv.h"

namespace sluice {
namespace {

std::filesystem::path SharedData() {
  const char* shared = std::getenv("SLUICE_SHARED");
  return shared == nullptr ? std::filesystem::path()
                           : std::filesystem::path(shared) / "data" / "planner";
}

std::vector<UsageRecord> ReadRecords(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  const absl::StatusOr<NamedRecords> problem = ParseUsageCsv(text.str());
  EXPECT_TRUE(problem.ok()) << path << ": " << problem.status();
  return problem.ok() ? problem->records : std::vector<UsageRecord>();
}

// Work bounds the time, so that a slow machine gives the same.
TEST(OffsetHardTest, HardInstancesMeetTheirBounds) {
  const std::filesystem::path folder = SharedData();
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no hard instances under SLUICE_SHARED";
  for (const std::string name :
       {"minimalloc/A.1048576", "minimalloc/C.1048576", "minimalloc/E.1048576",
        "minimalloc/G.1048576", "minimalloc/I.1048576", "minimalloc/K.1048576",
        "idealloc/somas_resnet50", "idealloc/iopddl_G_1", "synthetic/perfect-150-1",
        "synthetic/loose-150-1", "synthetic/loose-250-1"}) {
    SCOPED_TRACE(name);
    const std::vector<UsageRecord> records = ReadRecords(folder / (name + ".csv"));
    const CertifiedPlan plan = PlanOffsets(records, {.work = 300'000'000});
    EXPECT_EQ(CheckOffsets(records, plan.plan), absl::OkStatus());
    EXPECT_EQ(plan.certificate, Certificate::kMeetsBound);
    EXPECT_EQ(plan.plan.height, OffsetLowerBound(records));
  }
}

// This one falls apart into several problems, of which no single one is worth all of the work.
TEST(OffsetHardTest, TheHighestComponentIsAlwaysTheNext) {
  const std::vector<UsageRecord> records = MakeInstance(InstanceFamily::kLoose, 400, 7);
  ASSERT_GT(Components(MapSections(records)).size(), 1u);
  const CertifiedPlan plan = PlanOffsets(records, {.work = 120'000'000});
  EXPECT_EQ(CheckOffsets(records, plan.plan), absl::OkStatus());
  EXPECT_LT(plan.plan.height.count(), kCutHeight.count() * 115 / 100);
}

}  // namespace
}  // namespace sluice
