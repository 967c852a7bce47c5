// Runs the ONNX backend suite and says what passes. Exit code: 0 when nothing is wrong and the page
// that --check names is what the run finds, 1 otherwise, 77 when the suite is not installed.

#include <CLI/CLI.hpp>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "tests/conformance/conformance_case.h"
#include "tests/conformance/conformance_page.h"
#include "tests/conformance/conformance_run.h"

namespace sluice {
namespace {

constexpr int kSkipped = 77;

struct Options {
  std::string data = "/usr/share/libonnx-testdata/data";
  std::string only, write, check;
  bool here = false;
  Tolerance tolerance;
};

const char* Word(Verdict::Kind kind) {
  switch (kind) {
    case Verdict::Kind::kPass:
      return "pass";
    case Verdict::Kind::kOther:
      return "not core";
    case Verdict::Kind::kRefused:
      return "refused";
    case Verdict::Kind::kWrong:
      return "WRONG";
  }
  return "";
}

std::vector<ConformanceResult> RunAll(const std::vector<ConformanceCase>& cases,
                                      const Options& options) {
  std::vector<ConformanceResult> results;
  for (const ConformanceCase& test : cases) {
    const std::string name = test.group + "/" + test.name;
    if (name.find(options.only) == std::string::npos) continue;
    ConformanceResult result{
        test, options.here ? RunHere(test, options.tolerance) : RunApart(test, options.tolerance)};
    const bool fine =
        result.verdict.kind == Verdict::Kind::kPass || result.verdict.kind == Verdict::Kind::kOther;
    if (!fine || !options.only.empty()) {
      std::cout << absl::StrFormat("%-8s %s %s\n", Word(result.verdict.kind), name,
                                   result.verdict.reason)
                << std::flush;
    }
    results.push_back(std::move(result));
  }
  return results;
}

int CheckPage(const std::string& path, const std::string& page) {
  std::ostringstream there;
  there << std::ifstream(path).rdbuf();
  if (there.str() == page) return 0;
  std::cout << absl::StrFormat(
      "\"%s\" is not what this run found; after reading the difference, run with --write %s\n",
      path, path);
  return 1;
}

int Main(const Options& options) {
  const absl::StatusOr<std::vector<ConformanceCase>> cases = FindConformanceCases(options.data);
  if (!cases.ok()) {
    std::cout << "SKIPPED: " << cases.status().message() << " (package libonnx-testdata)\n";
    return kSkipped;
  }
  const std::vector<ConformanceResult> results = RunAll(*cases, options);
  const std::size_t wrong = Count(results, Verdict::Kind::kWrong);
  std::cout << absl::StrFormat("%u core tests: %u pass, %u refused, %u wrong\n",
                               results.size() - Count(results, Verdict::Kind::kOther),
                               Count(results, Verdict::Kind::kPass),
                               Count(results, Verdict::Kind::kRefused), wrong);
  const std::string page = FormatConformancePage(results);
  if (!options.write.empty()) std::ofstream(options.write) << page;
  const int checked = options.check.empty() ? 0 : CheckPage(options.check, page);
  return wrong > 0 ? 1 : checked;
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  CLI::App app("Runs the ONNX backend suite.");
  sluice::Options options;
  app.add_option("--data", options.data, "folder of the suite: node, simple, pytorch-*");
  app.add_option("--only", options.only, "only tests whose group/name has this in it");
  app.add_option("--write", options.write, "write the page there");
  app.add_option("--check", options.check, "fail unless this page is what the run finds");
  app.add_option("--absolute", options.tolerance.absolute,
                 "how far elements may be from wanted ones beside a part in a thousand");
  app.add_flag("--here", options.here, "in this process, for a debugger");
  CLI11_PARSE(app, argc, argv);
  return sluice::Main(options);
}
