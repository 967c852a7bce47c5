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

absl::Status BuildProgramPackage(const std::filesystem::path& path, const PackageIdentity& identity,
                                 Program& program) {
  const std::vector<Bytes> sizes = ExtentSizes(program);
  Bytes largest = kPageSize;
  for (const Bytes size : sizes) largest = std::max(largest, size);
  SLUICE_ASSIGN_OR_RETURN(const PageMemory staging, PageMemory::Map(largest));
  return BuildPackage(path, identity, sizes,
                      [&program](ExtentIndex extent, std::span<std::byte> into) {
                        return program.Pack(extent, into);
                      },
                      {.progress = nullptr, .staging = staging.span()});
}

std::unique_ptr<StreamedModel> MakeStreamedModel(std::unique_ptr<Program> program,
                                                 const std::filesystem::path& path) {
  const PackageIdentity identity{program->fingerprint()};
  if (!std::filesystem::exists(path)) {
    const absl::Status built = BuildProgramPackage(path, identity, *program);
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
