// tests/conformance/conformance_case.h
//
// Tests of the ONNX backend suite, as folders: a model, inputs, and the outputs that are right.

#ifndef SLUICE_TESTS_CONFORMANCE_CONFORMANCE_CASE_H_
#define SLUICE_TESTS_CONFORMANCE_CONFORMANCE_CASE_H_

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "model/graph.h"

namespace sluice {

// What a test is about. Only kCore is what an inference daemon must do.
enum class ConformanceClass {
  kCore,
  kLoss,      // Loss functions.
  kTraining,  // Optimisers, gradients, layers in training mode.
  kSequence,  // Sequences and optional values.
  kString,
  kSignal,    // Fourier transforms and windows.
  kRandom,    // Results that are drawn.
  kBfloat16,  // The suite stores them as 16-bit integers.
};
std::string_view Name(ConformanceClass kind);

struct ConformanceCase {
  std::string group;  // "node", "simple", ...
  std::string name;   // "test_abs"
  std::filesystem::path folder;
};

// All tests below `data`, by group and name. Fails: NOT_FOUND, no such folder.
absl::StatusOr<std::vector<ConformanceCase>> FindConformanceCases(
    const std::filesystem::path& data);

// A test read from its folder. Contents are constants.
struct ConformanceTest {
  ConformanceClass kind = ConformanceClass::kCore;
  std::vector<Value> inputs, outputs;  // Named, in the graph's order; only of core tests.
};
// Fails: DATA_LOSS, a file that cannot be read or parsed. UNIMPLEMENTED, a type.
absl::StatusOr<ConformanceTest> ReadConformanceTest(const ConformanceCase& test);

}  // namespace sluice

#endif  // SLUICE_TESTS_CONFORMANCE_CONFORMANCE_CASE_H_
