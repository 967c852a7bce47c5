// tests/conformance/conformance_run.h
//
// Runs one test of the suite on the CPU backend and compares its outputs.

#ifndef SLUICE_TESTS_CONFORMANCE_CONFORMANCE_RUN_H_
#define SLUICE_TESTS_CONFORMANCE_CONFORMANCE_RUN_H_

#include <string>

#include "tests/conformance/conformance_case.h"

namespace sluice {

struct Verdict {
  enum class Kind {
    kPass,
    kOther,    // Not of the core; not run.
    kRefused,  // The model is refused with an error, which is `reason`.
    kWrong,    // Another answer, a crash, or no end: `reason` says which.
  };
  Kind kind = Kind::kPass;
  ConformanceClass test_class = ConformanceClass::kCore;
  std::string reason;
};

// How far an element may be from the wanted one: as the suite's own runner compares.
struct Tolerance {
  double relative = 1e-3, absolute = 1e-7;
};

// In a process of its own, which a crash or an endless loop ends alone.
// Requires: no other thread runs in this process.
Verdict RunApart(const ConformanceCase& test, Tolerance tolerance = {});

// In this process.
Verdict RunHere(const ConformanceCase& test, Tolerance tolerance = {});

}  // namespace sluice

#endif  // SLUICE_TESTS_CONFORMANCE_CONFORMANCE_RUN_H_
