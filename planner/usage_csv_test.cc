#include "planner/usage_csv.h"

#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "planner/plan_picture.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

std::string ErrorOf(std::string_view text) {
  const absl::StatusOr<NamedRecords> parsed = ParseUsageCsv(text);
  EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(parsed.status().message());
}

TEST(UsageCsvTest, ReadsWhatOtherPlannersWrite) {
  const auto parsed = ParseUsageCsv("id,lower,upper,size\nb1,0,3,4\n\nb2, 1 ,2,8\r\n");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->ids, (std::vector<std::string>{"b1", "b2"}));
  ASSERT_EQ(parsed->records.size(), 2u);
  EXPECT_EQ(parsed->records[1].live, (StepRange{StepIndex{1}, StepIndex{2}}));
  EXPECT_EQ(parsed->records[1].size, Bytes::Of(8));
  EXPECT_EQ(parsed->records[1].alignment, Bytes::Of(1));
  EXPECT_FALSE(parsed->records[1].fixed);
}

TEST(UsageCsvTest, TakesColumnsInAnyOrderAndLeavesUnknownOnesOut) {
  const auto parsed =
      ParseUsageCsv("size,note,offset,upper,lower,alignment,id\n8,x,64,2,1,32,a\n8,y,,2,1,,b\n");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->records[0].fixed, Bytes::Of(64));
  EXPECT_EQ(parsed->records[0].alignment, Bytes::Of(32));
  EXPECT_FALSE(parsed->records[1].fixed);
}

TEST(UsageCsvTest, SaysWhatIsWrongAndWhere) {
  EXPECT_EQ(ErrorOf(""), "line 1: got , want a header with id, lower, upper and size");
  EXPECT_THAT(ErrorOf("id,lower,size\n"), HasSubstr("want a header"));
  EXPECT_EQ(ErrorOf("id,lower,upper,size\na,0,1,4\nb,0,x,4\n"),
            "line 3: got x, want a step, 0 to 4294967295");
  EXPECT_THAT(ErrorOf("id,lower,upper,size\na,2,2,4\n"),
              HasSubstr("line 2: got a,2,2,4, want lower"));
  EXPECT_THAT(ErrorOf("id,lower,upper,size\na,0,1\n"), HasSubstr("got nothing, want bytes"));
  EXPECT_THAT(ErrorOf("id,lower,upper,size\na,0,1,-4\n"), HasSubstr("got -4, want bytes"));
  EXPECT_THAT(ErrorOf("id,lower,upper,size\na,0,1,99999999999999999999\n"),
              HasSubstr("want bytes"));
  EXPECT_THAT(ErrorOf("id,lower,upper,size,alignment\na,0,1,4,3\n"), HasSubstr("power of two"));
  EXPECT_THAT(ErrorOf("id,lower,upper,size,alignment,offset\na,0,1,4,4,2\n"), HasSubstr("aligned"));
}

TEST(UsageCsvTest, WhatIsWrittenReadsTheSame) {
  const auto problem = ParseUsageCsv("id,lower,upper,size,alignment\na,0,2,100,64\nb,1,3,8,8\n");
  ASSERT_TRUE(problem.ok());
  const OffsetPlan plan = PlanOffsets(problem->records);
  const std::string text = FormatUsageCsv(*problem, plan.offsets);
  const auto again = ParseUsageCsv(text);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->ids, problem->ids);
  for (std::size_t i = 0; i < plan.offsets.size(); ++i) {
    EXPECT_EQ(again->records[i].fixed, plan.offsets[i]);
    EXPECT_EQ(again->records[i].size, problem->records[i].size);
    EXPECT_EQ(again->records[i].alignment, problem->records[i].alignment);
  }
}

TEST(PlanPictureTest, EveryRecordIsARectangleWithItsName) {
  NamedRecords problem;
  for (std::uint32_t i = 0; i < 20; ++i) {
    problem.ids.push_back(absl::StrFormat("t<%d>", i));
    problem.records.push_back(
        {.size = Bytes::Of(100 + i), .live = {StepIndex{i}, StepIndex{i + 2}}});
  }
  const std::string svg = DrawPlan(problem, PlanOffsets(problem.records, PlanLimits()));
  for (std::uint32_t i = 0; i < 20; ++i) {
    EXPECT_THAT(svg, HasSubstr(absl::StrFormat("<title>t&lt;%d&gt;: ", i)));
  }
  EXPECT_THAT(svg, HasSubstr("peak "));
  EXPECT_THAT(DrawPlan({}, PlanOffsets({}, PlanLimits())), HasSubstr("</svg>"));
}

}  // namespace
}  // namespace sluice
