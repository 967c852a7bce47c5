#include "tests/networks/networks.h"

#include <array>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/networks/weights.h"
#include "tests/networks/wire.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

// A folder of its own that goes with the test.
class Folder {
 public:
  Folder() {
    std::string pattern = testing::TempDir() + "/networks_" + std::string(6, 'X');
    path_ = mkdtemp(pattern.data());
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::filesystem::path operator/(std::string_view name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

std::string Sha256(const std::filesystem::path& path) {
  FILE* pipe = popen(("sha256sum < '" + path.string() + "'").c_str(), "r");
  std::array<char, 65> digits{};
  const char* line = fgets(digits.data(), digits.size(), pipe);
  pclose(pipe);
  return line == nullptr ? "" : line;
}

// What the kernel counts of this process, in KiB.
std::uint64_t PeakMemory() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (absl::StartsWith(line, "VmHWM:")) return std::stoull(line.substr(6));
  }
  return 0;
}

// The files of seed 1, as the generator of the shared answers writes them, digest by digest.
struct Golden {
  const char* name;
  std::uint64_t bytes;
  const char* sha256;
};
constexpr Golden kGolden[] = {
    {"mobilenet_v2", 14181862, "f23d1be2874587bbe8c9c209198d2d71570abf2339ee1be955fe262f41a2ca37"},
    {"resnet50", 102467414, "e8ad9c52975175a2ea3681d13c6d4771f163bf8c6827fc15ee4d209399360c88"},
    {"resnet152", 241455679, "2efe9651a85dfa1221dcaa0bc484e6cc357142ff7bb7c805248e6f31f9a077bc"},
    {"vgg16", 553434809, "0795399aac57d12dc5e8111581f1f6633eb196357646284d7fb28d0bee07ded4"},
    {"densenet201", 81092259, "b2da08d6179c02568b80fa6690bfce49443c8d8017737346f524eceaeabc8ac7"},
    {"inception_v3", 95525131, "e7560ab4bf19044e269f332546cfdaef736545db32739578e27978a3057f7059"},
    {"yolo_like", 257782481, "7452e0fe3732ee20b6c3c81e2dac9b9abb6375a2367f75c32d99e4886bc72010"},
    {"unet", 124208225, "397aa16ff74c3715ab8202227f5f82ef0802b8982efb8c0bf0260a8fe4c6584a"},
    {"bert_base", 437979813, "75f33b72921067b9acbdecdb26567a11c42f6b97648e79e3e3d7f2e62e7e372d"},
};

class NetworkFile : public testing::TestWithParam<Golden> {};

TEST_P(NetworkFile, HasTheBytesThatTheSharedAnswersWereComputedFrom) {
  const Folder folder;
  const std::filesystem::path path = folder / "network.onnx";
  ASSERT_EQ(WriteNetwork(GetParam().name, {}, path), absl::OkStatus());
  EXPECT_EQ(std::filesystem::file_size(path), GetParam().bytes);
  EXPECT_EQ(Sha256(path), GetParam().sha256);
}

std::string NameOf(const testing::TestParamInfo<Golden>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(Unit, NetworkFile, testing::Values(kGolden[0], kGolden[1]), NameOf);
INSTANTIATE_TEST_SUITE_P(Slow, NetworkFile,
                         testing::ValuesIn(std::begin(kGolden) + 2, std::end(kGolden)), NameOf);

TEST(NetworksTest, EveryNetworkHasAGoldenFile) {
  std::vector<std::string_view> golden;
  for (const Golden& file : kGolden) golden.push_back(file.name);
  EXPECT_THAT(NetworkNames(), testing::UnorderedElementsAreArray(golden));
}

TEST(NetworksTest, MemoryDoesNotGrowWithTheWeights) {
  const Folder folder;
  ASSERT_EQ(WriteNetwork("mobilenet_v2", {}, folder / "small.onnx"), absl::OkStatus());
  const std::uint64_t before = PeakMemory();
  ASSERT_GT(before, 0u);
  ASSERT_EQ(WriteNetwork("resnet50", {}, folder / "large.onnx"), absl::OkStatus());
  EXPECT_LT(PeakMemory() - before, 16u * 1024) << "KiB more for 102 MB of weights";
}

TEST(NetworksTest, AnotherSeedGivesOtherWeightsInAFileOfTheSameSize) {
  const Folder folder;
  ASSERT_EQ(WriteNetwork("mobilenet_v2", {.seed = 1}, folder / "a"), absl::OkStatus());
  ASSERT_EQ(WriteNetwork("mobilenet_v2", {.seed = 2}, folder / "b"), absl::OkStatus());
  EXPECT_EQ(std::filesystem::file_size(folder / "a"), std::filesystem::file_size(folder / "b"));
  EXPECT_NE(Sha256(folder / "a"), Sha256(folder / "b"));
}

TEST(NetworksTest, RefusesWhatItDoesNotKnow) {
  const Folder folder;
  const absl::Status unknown = WriteNetwork("resnet51", {}, folder / "x.onnx");
  EXPECT_EQ(unknown.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(unknown.message()), HasSubstr("\"resnet51\" is not known"));
  EXPECT_THAT(std::string(unknown.message()), HasSubstr("resnet152"));
  const absl::Status batch = WriteNetwork("resnet50", {.batch = 0}, folder / "x.onnx");
  EXPECT_EQ(batch.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(batch.message()), HasSubstr("batch is 0"));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(NetworksTest, AFileThatCannotBeWrittenLeavesNothing) {
  const Folder folder;
  const absl::Status nowhere = WriteNetwork("mobilenet_v2", {}, folder / "none/x.onnx");
  EXPECT_EQ(nowhere.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(nowhere.message()), HasSubstr("none/x.onnx"));
  // A folder stands where the file should go: all is written, and then not kept.
  std::filesystem::create_directories(folder / "taken" / "inside");
  EXPECT_FALSE(WriteNetwork("mobilenet_v2", {}, folder / "taken").ok());
  EXPECT_FALSE(std::filesystem::exists(folder / "taken.part"));
}

TEST(WeightsTest, AreTheSameHoweverTheyAreCut) {
  const UniformWeights weights{.stream = WeightStream(1, 7), .low = -0.5, .high = 0.25};
  std::vector<float> whole(1000), part(300);
  FillWeights(weights, 0, whole);
  FillWeights(weights, 450, part);
  for (std::size_t i = 0; i < part.size(); ++i) ASSERT_EQ(part[i], whole[450 + i]);
  for (const float value : whole) {
    ASSERT_GE(value, -0.5f);
    ASSERT_LT(value, 0.25f);
  }
}

TEST(WeightsTest, ScaleInSinglePrecision) {
  UniformWeights weights{.stream = WeightStream(3, 1), .low = 0.8, .high = 1.2};
  std::array<float, 64> plain{}, scaled{};
  FillWeights(weights, 0, plain);
  weights.scale = 0.3f;
  FillWeights(weights, 0, scaled);
  for (std::size_t i = 0; i < plain.size(); ++i) EXPECT_EQ(scaled[i], plain[i] * 0.3f);
}

TEST(WireTest, WritesTheFormsOfTheFormat) {
  std::string message;
  wire::AppendInt(message, 1, 300);
  wire::AppendInt(message, 2, -1);
  wire::AppendBytes(message, 4, "ab");
  wire::AppendFloat(message, 20, 1.0f);
  EXPECT_EQ(message, std::string("\x08\xac\x02"
                                 "\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"
                                 "\x22\x02"
                                 "ab"
                                 "\xa5\x01\x00\x00\x80\x3f",
                                 24));
}

}  // namespace
}  // namespace sluice
