#include "server/setting.h"

#include <gtest/gtest.h>

#include <array>

namespace sluice {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(SettingTest, ReadsDurationsWithAUnit) {
  EXPECT_EQ(ParseDuration("50ms"), milliseconds(50));
  EXPECT_EQ(ParseDuration("1.5 s"), milliseconds(1500));
  EXPECT_EQ(ParseDuration("250us"), microseconds(250));
  EXPECT_EQ(ParseDuration("2m"), seconds(120));
  EXPECT_EQ(ParseDuration("0s"), seconds(0));
  for (const char* text : {"", "50", "ms", "-1s", "1 week", "25h", "1e3s", "nan s", "1s "}) {
    EXPECT_EQ(ParseDuration(text), std::nullopt) << text;
  }
}

TEST(SettingTest, ReadsPercentagesAboveZeroUpToAHundred) {
  EXPECT_EQ(ParsePercentage("40%"), 40);
  EXPECT_EQ(ParsePercentage("100 %"), 100);
  for (const char* text : {"0%", "101%", "40", "%", "-1%", "40%%"}) {
    EXPECT_EQ(ParsePercentage(text), std::nullopt) << text;
  }
}

TEST(SettingTest, ReadsAddresses) {
  EXPECT_EQ(ParseListenAddress("127.0.0.1:8001")->port, 8001);
  EXPECT_EQ(ParseListenAddress("[::1]:0")->host, "::1");
  EXPECT_EQ(ParseListenAddress("unix:/run/s.sock")->path, "/run/s.sock");
  for (const char* text : {"", "8001", ":8001", "host:", "host:65536", "host:-1", "unix:relative",
                           "unix:/", "[zz]:1", "a b:1", "::1:80"}) {
    EXPECT_EQ(ParseListenAddress(text).has_value(), false) << text;
  }
  EXPECT_FALSE(ParseListenAddress("unix:/" + std::string(107, 'x')).has_value());
  EXPECT_TRUE(ParseListenAddress("unix:/" + std::string(106, 'x')).has_value());
}

TEST(SettingTest, KnowsWhichNamesAModelMayHave) {
  EXPECT_TRUE(IsModelName("ppocr_v4.det-2"));
  EXPECT_TRUE(IsModelName(std::string(128, 'a')));
  for (const std::string& text :
       {std::string(), std::string("a/b"), std::string(".."), std::string("a b"),
        std::string(129, 'a'), std::string("\xc3\xa4")}) {
    EXPECT_FALSE(IsModelName(text)) << text;
  }
}

TEST(SettingTest, FindsTheNearestWord) {
  constexpr std::array<std::string_view, 3> kWords = {"listen", "limits", "memory"};
  EXPECT_EQ(Nearest("lisen", kWords), "listen");
  EXPECT_EQ(Nearest("memroy", kWords), "memory");
  EXPECT_EQ(Nearest("unrelated", kWords), std::nullopt);
}

}  // namespace
}  // namespace sluice
