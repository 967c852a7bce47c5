#include "base/markup.h"

#include "gtest/gtest.h"

namespace sluice {
namespace {

TEST(MarkupTest, LeavesNothingThatMeansSomething) {
  EXPECT_EQ(EscapeMarkup("<a href=\"x\" b='&'>"), "&lt;a href=&quot;x&quot; b=&#39;&amp;&#39;&gt;");
  EXPECT_EQ(EscapeMarkup("one\ntwo\x01"), "one two ");
  EXPECT_EQ(EscapeMarkup("gr\xc3\xbc\xc3\x9f dich"), "gr\xc3\xbc\xc3\x9f dich");
}

TEST(MarkupTest, WhatIsNoCharacterIsAQuestionMark) {
  EXPECT_EQ(EscapeMarkup("\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"),
            "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80");
  EXPECT_EQ(EscapeMarkup("a\xff"
                         "b\xc3"),
            "a?b?");
  EXPECT_EQ(EscapeMarkup("\xc0\x80"), "??");            // Longer than it need be.
  EXPECT_EQ(EscapeMarkup("\xed\xa0\x80"), "???");       // Half of a pair.
  EXPECT_EQ(EscapeMarkup("\xef\xbf\xbf"), "???");       // U+FFFF.
  EXPECT_EQ(EscapeMarkup("\xf5\x80\x80\x80"), "????");  // Above U+10FFFF.
}

}  // namespace
}  // namespace sluice
