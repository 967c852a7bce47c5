#include "server/self_test_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <string>

#include "absl/strings/str_format.h"

namespace sluice {
namespace {

using testing::HasSubstr;

class SelfTestRecordTest : public testing::Test {
 protected:
  SelfTestRecordTest()
      : folder_(std::filesystem::path(testing::TempDir()) /
                absl::StrFormat("self-test-%d", getpid())) {
    std::filesystem::create_directories(folder_);
  }
  ~SelfTestRecordTest() override { std::filesystem::remove_all(folder_); }

  absl::Status Check(std::uint64_t answer) const { return CheckSelfTest(package_, answer, code_); }
  std::string Text() const {
    std::ifstream file(record_);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void Write(const std::string& text) const { std::ofstream(record_) << text; }

  const std::filesystem::path folder_;
  const std::filesystem::path package_ = folder_ / "0123456789abcdef.sluice";
  const std::filesystem::path record_ = folder_ / "0123456789abcdef.selftest";
  ComputingCode code_{.builds = 7, .cpu = "Some CPU @ 2 GHz"};
};

TEST_F(SelfTestRecordTest, TheFirstAnswerIsKeptAndTheSameOnePasses) {
  ASSERT_TRUE(Check(42).ok());
  const std::string kept = Text();
  EXPECT_THAT(kept, HasSubstr("outputs 000000000000002a\n"));
  const auto written = std::filesystem::last_write_time(record_);
  ASSERT_TRUE(Check(42).ok());
  EXPECT_EQ(std::filesystem::last_write_time(record_), written);
}

TEST_F(SelfTestRecordTest, AnotherAnswerOfTheSameCodeIsRefusedWithBoth) {
  ASSERT_TRUE(Check(42).ok());
  code_.cpu = "Other CPU";
  const absl::Status status = Check(43);
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  for (const char* part : {"000000000000002b", "000000000000002a", "Some CPU @ 2 GHz", "Other CPU",
                           "0123456789abcdef.selftest"}) {
    EXPECT_THAT(std::string(status.message()), HasSubstr(part));
  }
  EXPECT_TRUE(Check(42).ok());
}

TEST_F(SelfTestRecordTest, AnotherBuildMayAnswerOtherwise) {
  ASSERT_TRUE(Check(42).ok());
  code_.builds = 8;
  ASSERT_TRUE(Check(43).ok());
  EXPECT_FALSE(Check(42).ok());
}

TEST_F(SelfTestRecordTest, ADamagedRecordIsReplaced) {
  ASSERT_TRUE(Check(42).ok());
  const std::string good = Text();
  for (std::size_t i = 0; i < good.size(); ++i) {
    std::string damaged = good;
    damaged[i] = static_cast<char>(damaged[i] ^ 1);
    Write(damaged);
    ASSERT_TRUE(Check(42).ok());
    ASSERT_EQ(Text(), good) << "byte " << i;
  }
  for (const std::string& text :
       {std::string(), good.substr(0, 40), good + "x", std::string(100'000, 'a')}) {
    Write(text);
    ASSERT_TRUE(Check(42).ok());
    EXPECT_EQ(Text(), good);
  }
}

TEST_F(SelfTestRecordTest, AFolderThatCannotBeWrittenIsNoError) {
  std::filesystem::remove_all(folder_);
  EXPECT_TRUE(Check(42).ok());
}

TEST_F(SelfTestRecordTest, KnowsItsOwnCode) {
  EXPECT_NE(ThisComputingCode().builds, 0u);
  EXPECT_FALSE(ThisComputingCode().cpu.empty());
  EXPECT_EQ(ThisComputingCode().cpu.find('\n'), std::string::npos);
}

}  // namespace
}  // namespace sluice
