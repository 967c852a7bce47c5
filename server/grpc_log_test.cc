#include "server/grpc_log.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(LogLimitTest, LeavesOutWhatIsTooMuchAndSaysHowMuch) {
  LogLimit limit;
  const Instant start{};
  for (std::uint64_t i = 0; i < LogLimit::kMost; ++i) EXPECT_EQ(limit.Admit(start), 0u);
  EXPECT_EQ(limit.Admit(start), std::nullopt);
  EXPECT_EQ(limit.Admit(start + LogLimit::kInterval - Duration(1)), std::nullopt);
  EXPECT_EQ(limit.Admit(start + LogLimit::kInterval), 2u);
  EXPECT_EQ(limit.Admit(start + LogLimit::kInterval), 0u);
}

}  // namespace
}  // namespace sluice
