// streamer/testing/test_package.h
//
// Packages of known contents, and the models around them.

#ifndef SLUICE_STREAMER_TESTING_TEST_PACKAGE_H_
#define SLUICE_STREAMER_TESTING_TEST_PACKAGE_H_

#include <cstddef>
#include <filesystem>
#include <functional>
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

// BuildPackage, with everything stored as it is: `pack` fills its span with one extent's payload.
absl::Status BuildPlainPackage(
    const std::filesystem::path& path, const PackageIdentity& identity,
    std::span<const Bytes> extent_sizes,
    const std::function<absl::Status(ExtentIndex, std::span<std::byte>)>& pack,
    const BuildOptions& options);

// Builds `path` from what the program packs, its runs stored as they may be.
absl::Status BuildProgramPackage(const std::filesystem::path& path, const PackageIdentity& identity,
                                 Program& program, WeightStorage storage = WeightStorage::kAsIs);

// The program over a package of its own at `path`, built first unless there is one; activations
// placed by the planner. Dies when that fails.
std::unique_ptr<StreamedModel> MakeStreamedModel(std::unique_ptr<Program> program,
                                                 const std::filesystem::path& path,
                                                 WeightStorage storage = WeightStorage::kAsIs);

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
