#include "tests/conformance/conformance_page.h"

#include <algorithm>
#include <map>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"

namespace sluice {
namespace {

constexpr const char* kHead =
    R"(# Conformance with ONNX

Every test of the ONNX 1.12 backend suite (Debian's `libonnx-testdata`) is imported, lowered for the
CPU, packed and run on the compute team, with fences around every buffer; an answer passes within a
relative error of 1e-3, integers and booleans exactly. A test is *core* when it is about inference on
numbers and booleans; the others are about what Sluice does not do: they are listed by class.

This page is generated: `build/dev/tests/conformance/sluice_conformance --write docs/conformance.md`;
the test `conformance` fails when it is not what a run finds.

)";

// What may stand in a cell of a table.
std::string Cell(const std::string& text) {
  return absl::StrReplaceAll(text, {{"|", "\\|"}, {"<", "&lt;"}});
}

}  // namespace

std::size_t Count(std::span<const ConformanceResult> results, Verdict::Kind kind) {
  return static_cast<std::size_t>(std::ranges::count_if(
      results, [&](const ConformanceResult& result) { return result.verdict.kind == kind; }));
}

std::string FormatConformancePage(std::span<const ConformanceResult> results) {
  std::vector<std::string> groups;
  std::map<ConformanceClass, int> classes;
  for (const ConformanceResult& result : results) {
    if (groups.empty() || groups.back() != result.test.group) groups.push_back(result.test.group);
    ++classes[result.verdict.test_class];
  }
  std::string page = kHead;
  page += "| folder | core tests | pass | refused | wrong |\n|---|--:|--:|--:|--:|\n";
  const auto add_row = [&](const std::string& name, std::span<const ConformanceResult> rows) {
    const std::size_t other = Count(rows, Verdict::Kind::kOther);
    absl::StrAppendFormat(&page, "| %s | %u | %u | %u | %u |\n", name, rows.size() - other,
                          Count(rows, Verdict::Kind::kPass), Count(rows, Verdict::Kind::kRefused),
                          Count(rows, Verdict::Kind::kWrong));
  };
  for (const std::string& group : groups) {
    std::vector<ConformanceResult> rows;
    std::ranges::copy_if(results, std::back_inserter(rows), [&](const ConformanceResult& result) {
      return result.test.group == group;
    });
    add_row(group, rows);
  }
  add_row("**all**", results);
  page += "\n## Not core\n\n| class | tests |\n|---|--:|\n";
  for (const auto& [kind, count] : classes) {
    if (kind == ConformanceClass::kCore) continue;
    absl::StrAppendFormat(&page, "| %s | %d |\n", Name(kind), count);
  }
  page += "\n## Core tests that do not pass\n\n";
  std::string rows;
  for (const ConformanceResult& result : results) {
    if (result.verdict.kind != Verdict::Kind::kRefused &&
        result.verdict.kind != Verdict::Kind::kWrong) {
      continue;
    }
    const bool wrong = result.verdict.kind == Verdict::Kind::kWrong;
    absl::StrAppendFormat(&rows, "| %s/%s | %s%s |\n", result.test.group, result.test.name,
                          wrong ? "**wrong:** " : "", Cell(result.verdict.reason));
  }
  page += rows.empty() ? "None.\n" : "| test | why |\n|---|---|\n" + rows;
  return page;
}

}  // namespace sluice
