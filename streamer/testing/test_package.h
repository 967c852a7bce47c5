// streamer/testing/test_package.h
//
// Packages of known contents, and the models around them.

#ifndef SLUICE_STREAMER_TESTING_TEST_PACKAGE_H_
#define SLUICE_STREAMER_TESTING_TEST_PACKAGE_H_

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/bytes.h"
#include "streamer/executor.h"
#include "streamer/package.h"

namespace sluice {

std::vector<Bytes> ExtentSizes(const Program& program);

// Builds `path` from what the program packs.
absl::Status BuildProgramPackage(const std::filesystem::path& path, const PackageIdentity& identity,
                                 Program& program);

// The program over a package of its own at `path`, built first unless there is one; activations
// placed by the planner. Dies when that fails.
std::unique_ptr<StreamedModel> MakeStreamedModel(std::unique_ptr<Program> program,
                                                 const std::filesystem::path& path);

// One inference: the outputs, in order.
absl::StatusOr<std::vector<std::vector<std::byte>>> RunOnce(
    Executor& executor, StreamedModel& model, const std::vector<std::vector<std::byte>>& inputs,
    InferenceStats* stats = nullptr, const StepGate& gate = nullptr);

// `size` bytes that differ from seed to seed.
std::vector<std::byte> AnyBytes(std::uint64_t seed, std::size_t size);

// Turns one bit of a file over.
void FlipBit(const std::filesystem::path& path, std::uint64_t byte, unsigned bit);

}  // namespace sluice

#endif  // SLUICE_STREAMER_TESTING_TEST_PACKAGE_H_
