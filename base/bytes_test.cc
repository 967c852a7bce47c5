#include "base/bytes.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(BytesTest, AdditionSaturatesInsteadOfWrapping) {
  EXPECT_EQ(Bytes::Max() + Bytes::Of(1), Bytes::Max());
  EXPECT_EQ(Bytes::Max() * 3, Bytes::Max());
  EXPECT_EQ(Bytes::Of(3) - Bytes::Of(5), Bytes());
}

TEST(BytesTest, AlignsUpToPowersOfTwo) {
  EXPECT_EQ(AlignUp(Bytes::Of(0), kPageSize), Bytes::Of(0));
  EXPECT_EQ(AlignUp(Bytes::Of(1), kPageSize), kPageSize);
  EXPECT_EQ(AlignUp(kPageSize, kPageSize), kPageSize);
}

TEST(BytesTest, ReadsBinaryAndDecimalUnits) {
  EXPECT_EQ(*ParseBytes("96MiB"), 96_MiB);
  EXPECT_EQ(*ParseBytes("1.5 GiB"), 1536_MiB);
  EXPECT_EQ(*ParseBytes("64MB"), Bytes::Of(64'000'000));
  EXPECT_EQ(*ParseBytes("4096"), Bytes::Of(4096));
  EXPECT_EQ(*ParseBytes("512k"), 512_KiB);
}

TEST(BytesTest, RefusesWhatIsNoAmountAndSaysWhatIsWanted) {
  for (const char* text :
       {"", "MiB", "12 parsecs", "-5MiB", "1e9TiB", "1..5MiB", "9999999999TiB"}) {
    const absl::StatusOr<Bytes> bytes = ParseBytes(text);
    ASSERT_FALSE(bytes.ok()) << text;
    EXPECT_EQ(bytes.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(bytes.status().message().find("96MiB"), absl::string_view::npos);
  }
}

TEST(BytesTest, FormatsForPeople) {
  EXPECT_EQ(FormatBytes(96_MiB), "96 MiB");
  EXPECT_EQ(FormatBytes(Bytes::Of(1536)), "1.5 KiB");
  EXPECT_EQ(FormatBytes(Bytes()), "0 B");
}

}  // namespace
}  // namespace sluice
