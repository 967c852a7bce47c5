#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "server/metrics_collector.h"
#include "server/metrics_table.h"
#include "server/status_page.h"

namespace sluice {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string ReadText(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// A daemon with two models, one of which has a name and a reason that try to break out.
class MetricsTest : public testing::Test {
 protected:
  MetricsTest() {
    input_.ready = true;
    input_.memory.budget = 96_MiB;
    input_.memory.budget_source = "configuration";
    input_.memory.lines = {{.line = "arena", .model = "a", .reserved = 10_MiB, .used = 10_MiB},
                           {.line = "base", .model = "", .reserved = 20_MiB, .used = 19_MiB}};
    input_.memory.unaccounted = -4096;
    input_.memory.reserved = 30_MiB;
    statistics_->requests[0] = 3;
    statistics_->requests[static_cast<std::size_t>(absl::StatusCode::kOutOfRange)] = 1;
    statistics_->rejected[static_cast<std::size_t>(RejectReason::kQueue)] = 2;
    statistics_->request_duration.Observe(std::chrono::milliseconds(3));
    statistics_->request_duration.Observe(std::chrono::minutes(2));
    statistics_->streamed_bytes = 4096;
    statistics_->loads_ok = 1;
    ModelStatus model;
    model.name = "a";
    model.version = "1";
    model.state = ModelState::kReady;
    model.weights = 5_MiB;
    model.statistics = statistics_;
    input_.models.push_back(model);
    model.name = "<b>\"&'";
    model.state = ModelState::kUnavailable;
    model.reason = "<script>alert(1)</script>";
    model.statistics = std::make_shared<ModelStatistics>();
    input_.models.push_back(model);
    wire_.Refused(absl::StatusCode::kInvalidArgument);
    input_.wire = &wire_;
    storage_.read_bytes = 8192;
    storage_.read_duration.Observe(std::chrono::milliseconds(1));
    input_.storage = &storage_;
    input_.pressure.stalled_seconds[1] = 2.5;
    input_.reloads.failed = 1;
    input_.process = ReadProcessUsage();
  }

  const std::shared_ptr<ModelStatistics> statistics_ = std::make_shared<ModelStatistics>();
  WireStatistics wire_;
  StorageStatistics storage_;
  MetricsInput input_;
};

TEST_F(MetricsTest, EveryRowOfTheTableIsAFamilyWithAMetric) {
  const auto families = CollectMetrics(input_);
  ASSERT_EQ(families.size(), MetricTable().size());
  for (std::size_t i = 0; i < families.size(); ++i) {
    EXPECT_EQ(families[i].name, MetricTable()[i].name);
    EXPECT_FALSE(families[i].metric.empty()) << families[i].name;
  }
}

TEST_F(MetricsTest, NoLabelSetComesTwice) {
  for (const auto& family : CollectMetrics(input_)) {
    std::set<std::vector<std::string>> seen;
    for (const auto& metric : family.metric) {
      std::vector<std::string> values;
      for (const auto& label : metric.label) values.push_back(label.value);
      EXPECT_TRUE(seen.insert(values).second) << family.name;
    }
  }
}

TEST_F(MetricsTest, CountersCarryWhatWasCounted) {
  const std::string text = MetricsText(input_);
  EXPECT_THAT(text, HasSubstr("sluice_requests_total{model=\"a\",version=\"1\",code=\"OK\"} 3"));
  EXPECT_THAT(text, HasSubstr("model=\"a\",version=\"1\",code=\"OUT_OF_RANGE\"} 1"));
  EXPECT_THAT(text,
              HasSubstr("sluice_rejected_total{model=\"a\",version=\"1\",reason=\"queue\"} 2"));
  EXPECT_THAT(text, HasSubstr("sluice_requests_refused_total{code=\"INVALID_ARGUMENT\"} 1"));
  EXPECT_THAT(text, HasSubstr("sluice_model_streamed_bytes_total{model=\"a\",version=\"1\"} 4096"));
  EXPECT_THAT(text, HasSubstr("sluice_memory_reserved_bytes{line=\"arena\",model=\"a\"} 10485760"));
  EXPECT_THAT(text, HasSubstr("sluice_memory_used_bytes{line=\"base\",model=\"\"} 19922944"));
  EXPECT_THAT(text, HasSubstr("sluice_memory_unaccounted_bytes -4096"));
  EXPECT_THAT(text, HasSubstr("sluice_storage_read_bytes_total 8192"));
  EXPECT_THAT(text, HasSubstr("sluice_storage_read_duration_seconds_count 1"));
  EXPECT_THAT(text, HasSubstr("sluice_cgroup_memory_limit_bytes +Inf"));
  EXPECT_THAT(text, HasSubstr("sluice_pressure_stall_seconds_total{resource=\"io\"} 2.5"));
  EXPECT_THAT(text, HasSubstr("sluice_reloads_total{result=\"failed\"} 1"));
  EXPECT_THAT(text, HasSubstr("sluice_models{state=\"READY\"} 1"));
}

TEST_F(MetricsTest, KnownLabelSetsStartAtZero) {
  const std::string text = MetricsText(input_);
  EXPECT_THAT(text,
              HasSubstr("sluice_requests_total{model=\"a\",version=\"1\",code=\"DATA_LOSS\"} 0"));
  EXPECT_THAT(text, HasSubstr("sluice_loads_total{model=\"a\",version=\"1\",result=\"failed\"} 0"));
  EXPECT_THAT(text, HasSubstr("sluice_memory_reserved_bytes{line=\"import\",model=\"\"} 0"));
  EXPECT_THAT(text, HasSubstr("sluice_model_state{model=\"a\",version=\"1\",state=\"LOADING\"} 0"));
}

TEST_F(MetricsTest, AModelThatWasNeverReadyHasItsStateAndLoadsAlone) {
  input_.models.clear();
  ModelStatus model;
  model.name = "cold";
  model.version = "1";
  model.statistics = std::make_shared<ModelStatistics>();
  input_.models.push_back(model);
  std::set<std::string> with_it;
  for (const auto& family : CollectMetrics(input_)) {
    for (const auto& metric : family.metric) {
      for (const auto& label : metric.label) {
        if (label.value == "cold") with_it.insert(family.name);
      }
    }
  }
  EXPECT_THAT(with_it, testing::ElementsAre("sluice_loads_total", "sluice_model_state"));
}

TEST_F(MetricsTest, HistogramsAreCumulativeAndEndWithEverything) {
  const std::string text = MetricsText(input_);
  const std::string series = "sluice_request_duration_seconds_bucket{model=\"a\",version=\"1\",le=";
  EXPECT_THAT(text, HasSubstr(series + "\"0.0025\"} 0"));
  EXPECT_THAT(text, HasSubstr(series + "\"0.005\"} 1"));
  EXPECT_THAT(text, HasSubstr(series + "\"30\"} 1"));
  EXPECT_THAT(text, HasSubstr(series + "\"+Inf\"} 2"));
  EXPECT_THAT(text,
              HasSubstr("sluice_request_duration_seconds_count{model=\"a\",version=\"1\"} 2"));
}

TEST_F(MetricsTest, PassesPrometheusOwnCheck) {
  if (std::system("command -v promtool >/dev/null 2>&1") != 0) {
    GTEST_SKIP() << "promtool is not installed (Debian package prometheus)";
  }
  const std::filesystem::path path =
      std::filesystem::path(testing::TempDir()) / ("metrics" + std::to_string(getpid()));
  std::ofstream(path) << MetricsText(input_);
  EXPECT_EQ(std::system(("promtool check metrics < '" + path.string() + "'").c_str()), 0);
  std::filesystem::remove(path);
}

TEST(MetricsTableTest, NamesFollowPrometheusConventions) {
  for (const MetricRow& row : MetricTable()) {
    EXPECT_TRUE(row.name.starts_with("sluice_") || row.name.starts_with("process_")) << row.name;
    EXPECT_EQ(row.name.ends_with("_total"), row.kind == MetricKind::kCounter) << row.name;
    EXPECT_FALSE(row.help.empty()) << row.name;
    if (row.unit == "bytes" || row.unit == "seconds") {
      EXPECT_THAT(std::string(row.name), HasSubstr("_" + std::string(row.unit)));
    }
  }
}

// SLUICE_UPDATE_DOCS=1 writes the file anew.
TEST(MetricsTableTest, TheDocumentedMetricsAreTheExportedOnes) {
  const std::filesystem::path path =
      std::filesystem::path(SLUICE_SOURCE_DIR) / "docs" / "metrics.md";
  if (std::getenv("SLUICE_UPDATE_DOCS") != nullptr) std::ofstream(path) << MetricsPage();
  EXPECT_EQ(ReadText(path), MetricsPage()) << "run metrics_test with SLUICE_UPDATE_DOCS=1";
}

TEST_F(MetricsTest, ThePageShowsBudgetLinesAndModels) {
  const std::string page = StatusPage(input_);
  EXPECT_THAT(page, HasSubstr("30 MiB of 96 MiB reserved"));
  EXPECT_THAT(page, HasSubstr("width:10.42%"));
  EXPECT_THAT(page, HasSubstr("<td>a</td>"));
  EXPECT_THAT(page, HasSubstr(">READY</span>"));
}

TEST_F(MetricsTest, ThePageEscapesNamesAndReasons) {
  const std::string page = StatusPage(input_);
  EXPECT_THAT(page, Not(HasSubstr("<script")));
  EXPECT_THAT(page, HasSubstr("&lt;script&gt;alert(1)&lt;/script&gt;"));
  EXPECT_THAT(page, HasSubstr("&lt;b&gt;&quot;&amp;&#39;"));
}

TEST(SystemPressureTest, ReadsTheTotalOfSomeTasks) {
  EXPECT_EQ(ParsePressure("some avg10=0.00 avg60=0.00 avg300=0.00 total=1500000\n"
                          "full avg10=0.00 avg60=0.00 avg300=0.00 total=9\n"),
            1.5);
  EXPECT_EQ(ParsePressure("full total=9\nsome total=3\n"), 0);
  EXPECT_EQ(ParsePressure("some total=x"), 0);
  EXPECT_EQ(ParsePressure(""), 0);
}

TEST(ProcessUsageTest, ReadsFieldsAfterAnAwkwardProgramName) {
  const std::string stat = "12 (a b) c) S 1 12 12 0";
  EXPECT_EQ(StatField(stat, 4), 1u);
  EXPECT_EQ(StatField(stat, 5), 12u);
  EXPECT_EQ(StatField(stat, 3), std::nullopt) << "the state is no number";
  EXPECT_EQ(StatField(stat, 40), std::nullopt);
  EXPECT_EQ(StatField("garbage", 4), std::nullopt);
}

TEST(ProcessUsageTest, ReportsThisProcess) {
  const ProcessUsage usage = ReadProcessUsage();
  EXPECT_GT(usage.resident, 1_MiB);
  EXPECT_GT(usage.virtual_size, usage.resident);
  EXPECT_GE(usage.threads, 1u);
  EXPECT_GE(usage.open_fds, 3u);
  EXPECT_GT(usage.max_fds, usage.open_fds);
  EXPECT_GT(usage.start_seconds, 1.5e9);
}

}  // namespace
}  // namespace sluice
