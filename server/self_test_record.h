// server/self_test_record.h
//
// The answer of a model's self-test, kept in a small file beside its package
// (docs/formats/self-test.md): a model that computes something else today than when it was packed
// is not served.

#ifndef SLUICE_SERVER_SELF_TEST_RECORD_H_
#define SLUICE_SERVER_SELF_TEST_RECORD_H_

#include <cstdint>
#include <filesystem>
#include <string>

#include "absl/status/status.h"

namespace sluice {

// What may change the bits of an answer without anything being wrong, beyond what a package is
// named by: other builds of this program and of the libraries that compute.
struct ComputingCode {
  std::uint64_t builds = 0;  // A checksum of their build ids.
  std::string cpu;           // The processor's name, for people.
};
const ComputingCode& ThisComputingCode();

// Compares `answer` with the record. Where there is none, where it is damaged, or where another
// build of the program or its libraries made it, writes one and returns OK; what cannot be written
// is logged and no error.
// Fails: INTERNAL, the same code gave another answer before: both, and on which processors.
absl::Status CheckSelfTest(const std::filesystem::path& package, std::uint64_t answer,
                           const ComputingCode& code);

}  // namespace sluice

#endif  // SLUICE_SERVER_SELF_TEST_RECORD_H_
