#include "streamer/testing/test_package.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <random>
#include <utility>

#include "base/check.h"
#include "base/status_macros.h"
#include "model/data_type.h"
#include "planner/offset_plan.h"

namespace sluice {

std::vector<Bytes> ExtentSizes(const Program& program) {
  std::vector<Bytes> sizes;
  for (const ExtentInfo& extent : program.extents()) sizes.push_back(extent.size);
  return sizes;
}

absl::Status BuildPlainPackage(
    const std::filesystem::path& path, const PackageIdentity& identity,
    std::span<const Bytes> extent_sizes,
    const std::function<absl::Status(ExtentIndex, std::span<std::byte>)>& pack,
    const BuildOptions& options) {
  return BuildPackage(
      path, identity, extent_sizes,
      [&](ExtentIndex extent, std::span<std::byte> pages) -> absl::StatusOr<PackedExtent> {
        const Bytes size = extent_sizes[Index(extent)];
        SLUICE_RETURN_IF_ERROR(pack(extent, pages.first(size.count())));
        std::ranges::fill(pages.subspan(size.count()), std::byte{0});
        return PackedExtent{.stored = size};
      },
      options);
}

absl::Status BuildProgramPackage(const std::filesystem::path& path, const PackageIdentity& identity,
                                 Program& program, WeightStorage storage) {
  const std::vector<Bytes> sizes = ExtentSizes(program);
  Bytes largest = kPageSize;
  std::uint64_t runs = 0;
  for (const ExtentInfo& extent : program.extents()) {
    largest = std::max(largest, extent.size);
    runs += PlannedRuns(extent.runs, storage).size();
  }
  SLUICE_ASSIGN_OR_RETURN(const PageMemory staging, PageMemory::Map(largest));
  return BuildPackage(path, identity, sizes,
                      [&program, storage](ExtentIndex extent, std::span<std::byte> pages) {
                        return PackExtent(program, extent, storage, pages);
                      },
                      {.progress = nullptr, .staging = staging.span(), .most_runs = runs});
}

std::unique_ptr<StreamedModel> MakeStreamedModel(std::unique_ptr<Program> program,
                                                 const std::filesystem::path& path,
                                                 WeightStorage storage) {
  const PackageIdentity identity{program->fingerprint()};
  if (!std::filesystem::exists(path)) {
    const absl::Status built = BuildProgramPackage(path, identity, *program, storage);
    SLUICE_CHECK(built.ok());
  }
  absl::StatusOr<std::shared_ptr<const Package>> package =
      Package::Open(path, identity, ExtentSizes(*program));
  SLUICE_CHECK(package.ok());
  std::vector<UsageRecord> records;
  for (const BufferInfo& buffer : program->buffers()) {
    records.push_back({.size = buffer.size, .live = buffer.live});
  }
  OffsetPlan plan = PlanOffsets(records);
  return std::make_unique<StreamedModel>(std::move(program), *std::move(package), std::move(plan));
}

absl::StatusOr<std::vector<std::vector<std::byte>>> RunOnce(
    Executor& executor, StreamedModel& model, const std::vector<std::vector<std::byte>>& inputs,
    InferenceStats* stats, const StepGate& gate) {
  const std::vector<std::span<const std::byte>> in(inputs.begin(), inputs.end());
  std::vector<std::vector<std::byte>> outputs;
  for (const PortInfo& port : model.program().outputs()) {
    outputs.emplace_back(TensorBytes(port.type, port.shape).count());
  }
  const std::vector<std::span<std::byte>> out(outputs.begin(), outputs.end());
  SLUICE_ASSIGN_OR_RETURN(const InferenceStats found, executor.Run(model, in, out, gate));
  if (stats != nullptr) *stats = found;
  return outputs;
}

std::vector<std::byte> AnyBytes(std::uint64_t seed, std::size_t size) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> bytes(size);
  std::ranges::generate(bytes, [&random] { return static_cast<std::byte>(random()); });
  return bytes;
}

void FlipBit(const std::filesystem::path& path, std::uint64_t byte, unsigned bit) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  SLUICE_CHECK(fd >= 0);
  unsigned char value = 0;
  SLUICE_CHECK(::pread(fd, &value, 1, static_cast<off_t>(byte)) == 1);
  value = static_cast<unsigned char>(value ^ (1u << bit));
  SLUICE_CHECK(::pwrite(fd, &value, 1, static_cast<off_t>(byte)) == 1);
  ::close(fd);
}

}  // namespace sluice
