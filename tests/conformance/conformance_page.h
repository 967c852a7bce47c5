// tests/conformance/conformance_page.h
//
// What a run of the suite found, as the page docs/conformance.md.

#ifndef SLUICE_TESTS_CONFORMANCE_CONFORMANCE_PAGE_H_
#define SLUICE_TESTS_CONFORMANCE_CONFORMANCE_PAGE_H_

#include <span>
#include <string>

#include "tests/conformance/conformance_case.h"
#include "tests/conformance/conformance_run.h"

namespace sluice {

struct ConformanceResult {
  ConformanceCase test;
  Verdict verdict;
};

std::size_t Count(std::span<const ConformanceResult> results, Verdict::Kind kind);

// The same text for the same verdicts.
std::string FormatConformancePage(std::span<const ConformanceResult> results);

}  // namespace sluice

#endif  // SLUICE_TESTS_CONFORMANCE_CONFORMANCE_PAGE_H_
