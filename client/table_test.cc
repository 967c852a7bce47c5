#include "client/table.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(TableTest, AlignsNamesLeftAndNumbersRight) {
  Table table({"MODEL", "BYTES"});
  table.Add({"a", "7"});
  table.Add({"detector", "123456"});
  EXPECT_EQ(table.Format(),
            "MODEL      BYTES\n"
            "a              7\n"
            "detector  123456\n");
}

TEST(TableTest, TellsTimesInTheUnitThatFits) {
  EXPECT_EQ(FormatSeconds(0), "-");
  EXPECT_EQ(FormatSeconds(0.0000851), "85 us");
  EXPECT_EQ(FormatSeconds(0.01234), "12.3 ms");
  EXPECT_EQ(FormatSeconds(1.2), "1.20 s");
}

}  // namespace
}  // namespace sluice
