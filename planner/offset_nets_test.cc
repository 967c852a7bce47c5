// Heights on the networks of the paper. MobileNets are built here from their published shapes; the
// other usage records are read from the shared folder.

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "gtest/gtest.h"
#include "planner/offset_check.h"
#include "planner/offset_plan.h"

namespace sluice {
namespace {

// One operator after the other, each reading the output of the one before.
class Chain {
 public:
  // Appends an operator with an output of `channels` x `side` x `side` floats.
  void Op(std::uint64_t channels, std::uint64_t side) {
    const std::uint64_t bytes = channels * side * side * 4;
    records_.push_back({.size = Bytes::Of(bytes),
                        .live = {At<StepIndex>(step_), At<StepIndex>(step_ + 2)},
                        .alignment = Bytes::Of(1)});
    ++step_;
  }
  // The last output lives on for `steps` more operators, as a residual does.
  void KeepLast(std::size_t steps) {
    records_.back().live.end = At<StepIndex>(Index(records_.back().live.end) + steps);
  }
  const std::vector<UsageRecord>& records() const { return records_; }

 private:
  std::vector<UsageRecord> records_;
  std::size_t step_ = 0;
};

std::vector<UsageRecord> MobileNetV1() {
  Chain chain;
  std::uint64_t side = 112, channels = 32;
  chain.Op(channels, side);
  struct Block {
    std::uint64_t channels, stride;
  };
  for (const Block block : {Block{64, 1},
                            {128, 2},
                            {128, 1},
                            {256, 2},
                            {256, 1},
                            {512, 2},
                            {512, 1},
                            {512, 1},
                            {512, 1},
                            {512, 1},
                            {512, 1},
                            {1024, 2},
                            {1024, 1}}) {
    side /= block.stride;
    chain.Op(channels, side);
    channels = block.channels;
    chain.Op(channels, side);
  }
  chain.Op(channels, 1);
  chain.Op(1001, 1);
  chain.Op(1001, 1);
  return chain.records();
}

std::vector<UsageRecord> MobileNetV2() {
  Chain chain;
  std::uint64_t side = 112, channels = 32;
  chain.Op(channels, side);
  struct Stage {
    std::uint64_t expansion, channels, repeats, stride;
  };
  for (const Stage stage : {Stage{1, 16, 1, 1},
                            {6, 24, 2, 2},
                            {6, 32, 3, 2},
                            {6, 64, 4, 2},
                            {6, 96, 3, 1},
                            {6, 160, 3, 2},
                            {6, 320, 1, 1}}) {
    for (std::uint64_t i = 0; i < stage.repeats; ++i) {
      const bool residual = i > 0;
      if (residual) chain.KeepLast(3);
      const std::uint64_t inner = channels * stage.expansion;
      if (stage.expansion != 1) chain.Op(inner, side);
      if (i == 0) side /= stage.stride;
      chain.Op(inner, side);
      channels = stage.channels;
      chain.Op(channels, side);
      if (residual) chain.Op(channels, side);
    }
  }
  chain.Op(1280, 7);
  chain.Op(1280, 1);
  chain.Op(1001, 1);
  return chain.records();
}

std::string Mebibytes(Bytes bytes) {
  return absl::StrFormat("%.3f", static_cast<double>(bytes.count()) / (1 << 20));
}

TEST(OffsetNetsTest, MobileNetsMeetTheBoundOfThePaper) {
  for (const OffsetStrategy strategy :
       {OffsetStrategy::kGreedyBySize, OffsetStrategy::kGreedyByBreadth}) {
    EXPECT_EQ(Mebibytes(PlanOffsets(MobileNetV1(), strategy).height), "4.594") << Name(strategy);
    EXPECT_EQ(Mebibytes(PlanOffsets(MobileNetV2(), strategy).height), "5.742") << Name(strategy);
  }
  EXPECT_EQ(PlanOffsets(MobileNetV1()).height, OffsetLowerBound(MobileNetV1()));
  EXPECT_EQ(PlanOffsets(MobileNetV2()).height, OffsetLowerBound(MobileNetV2()));
}

// Reads "id,lower,upper,size" lines below a header.
std::vector<UsageRecord> ReadRecords(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  std::vector<UsageRecord> records;
  while (std::getline(file, line)) {
    std::istringstream fields(line);
    std::uint64_t id = 0, lower = 0, upper = 0, size = 0;
    char comma = 0;
    fields >> id >> comma >> lower >> comma >> upper >> comma >> size;
    EXPECT_FALSE(fields.fail()) << path << ": " << line;
    records.push_back({.size = Bytes::Of(size),
                       .live = {At<StepIndex>(lower), At<StepIndex>(upper)},
                       .alignment = Bytes::Of(1)});
  }
  return records;
}

std::filesystem::path SharedData() {
  const char* shared = std::getenv("SLUICE_SHARED");
  return shared == nullptr ? std::filesystem::path()
                           : std::filesystem::path(shared) / "data" / "planner";
}

// What execution order and strip packing reach on networks of the paper, as recomputed from their
// public architectures.
TEST(OffsetNetsTest, PriorStrategiesReachWhatTheyAreKnownFor) {
  const std::filesystem::path nets = SharedData() / "nets";
  if (!std::filesystem::exists(nets)) GTEST_SKIP() << "no usage records under SLUICE_SHARED";
  struct Row {
    const char *name, *size, *breadth, *in_order, *strip;
  };
  for (const Row& row : {Row{"mobilenet_v1_224", "4.594", "4.594", "6.125", "4.594"},
                         Row{"mobilenet_v2_224", "5.742", "5.742", "6.508", "5.742"},
                         Row{"inception_v3_299", "7.913", "8.203", "10.624", "7.913"},
                         Row{"deeplab_v3_257", "4.653", "4.653", nullptr, nullptr}}) {
    SCOPED_TRACE(row.name);
    const auto records = ReadRecords(nets / (std::string(row.name) + ".csv"));
    const auto height = [&](OffsetStrategy strategy) {
      return Mebibytes(PlanOffsets(records, strategy).height);
    };
    EXPECT_EQ(height(OffsetStrategy::kGreedyBySize), row.size);
    EXPECT_EQ(height(OffsetStrategy::kGreedyByBreadth), row.breadth);
    if (row.in_order == nullptr) continue;
    EXPECT_EQ(height(OffsetStrategy::kGreedyInOrder), row.in_order);
    EXPECT_EQ(height(OffsetStrategy::kStripPacking), row.strip);
  }
}

TEST(OffsetNetsTest, EveryNetworkMeetsItsBound) {
  const std::filesystem::path nets = SharedData() / "nets";
  if (!std::filesystem::exists(nets)) GTEST_SKIP() << "no usage records under SLUICE_SHARED";
  const std::map<std::string, std::string> golden = {
      {"mobilenet_v1_224", "4.594"}, {"mobilenet_v2_224", "5.742"}, {"inception_v3_299", "7.913"},
      {"deeplab_v3_257", "4.320"},   {"posenet_353x257", "6.271"},  {"blazeface_128", "1.312"}};
  std::size_t seen = 0;
  for (const auto& entry : std::filesystem::directory_iterator(nets)) {
    SCOPED_TRACE(entry.path().filename());
    const std::vector<UsageRecord> records = ReadRecords(entry.path());
    ASSERT_FALSE(records.empty());
    const OffsetPlan plan = PlanOffsets(records);
    EXPECT_EQ(CheckOffsets(records, plan), absl::OkStatus());
    EXPECT_EQ(plan.height, OffsetLowerBound(records));
    const auto figure = golden.find(entry.path().stem());
    if (figure == golden.end()) continue;
    EXPECT_EQ(Mebibytes(plan.height), figure->second);
    ++seen;
  }
  EXPECT_EQ(seen, golden.size());
}

}  // namespace
}  // namespace sluice
