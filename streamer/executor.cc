#include "streamer/executor.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "engine/dynamic_output.h"
#include "streamer/reader_thread.h"
#include "streamer/self_test.h"

namespace sluice {
namespace {

// How much MeasureReads reads, when the package is large enough.
constexpr Bytes kMeasured = 32_MiB;
// A small package is read this often at most.
constexpr int kMeasuredRounds = 8;
constexpr int kLatencyReads = 9;

template <typename T>
T Median(std::vector<T> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

Duration Since(Instant start) { return SteadyClock().Now() - start; }

}  // namespace

class Executor::Impl {
 public:
  Impl(std::unique_ptr<BlockDevice> device, Bytes read_size)
      : reader_(std::move(device), read_size) {}

  std::string_view device_name() const { return reader_.device().name(); }
  const StorageStatistics& storage() const { return reader_.statistics(); }
  Bytes arena() const { return Bytes::Of(arena_bytes_.load(std::memory_order_relaxed)); }

  absl::Status Resize(Bytes arena);
  absl::Status SetResidents(StreamedModel& model, const std::vector<bool>& resident);
  absl::StatusOr<InferenceStats> Run(StreamedModel& model,
                                     std::span<const std::span<const std::byte>> inputs,
                                     std::span<const std::span<std::byte>> outputs,
                                     const StepGate& gate, std::span<std::int64_t> counts);
  absl::StatusOr<ModelProfile> Profile(StreamedModel& model, int rounds);
  absl::StatusOr<ReadCost> MeasureReads(StreamedModel& model);

 private:
  // What one pass over the steps is told, and what it tells.
  struct Pass {
    const StepGate* gate = nullptr;
    std::span<Duration> compute;  // By step; may be empty.
    InferenceStats stats{};
  };

  std::byte* ArenaStart() { return arena_.span().data(); }
  std::span<std::byte> Buffer(const StreamedModel& model, BufferIndex buffer);
  ExtentTarget Target(const StreamedModel& model, std::size_t extent, std::byte* into) const;
  // Lists the extents that pass through the ring, and finds the ring. Fails: FAILED_PRECONDITION.
  absl::StatusOr<StreamJob> PlanStream(StreamedModel& model);
  StreamJob JobOver(const StreamedModel& model, std::span<std::byte> ring) const;
  absl::StatusOr<const std::byte*> AwaitExtent(std::size_t target, InferenceStats& stats);
  absl::Status RunSteps(StreamedModel& model, Pass& pass);
  // Runs `pass` over the steps while the reader reads ahead; leaves no read in flight.
  absl::StatusOr<StreamCounters> RunPass(StreamedModel& model, const StreamJob& job, Pass& pass);
  // One round of it; `compute` as in Pass.
  absl::StatusOr<std::uint64_t> RunSelfTest(StreamedModel& model, std::span<Duration> compute);
  absl::StatusOr<Duration> MeasureLatency(StreamedModel& model, const ExtentTarget& target);

  ReaderThread reader_;
  PageMemory arena_;
  std::atomic<std::uint64_t> arena_bytes_{0};
  std::vector<ExtentTarget> targets_;  // Of the job; keeps its capacity.
};

absl::Status Executor::Impl::Resize(Bytes arena) {
  reader_.device().RegisterMemory({});
  arena_ = PageMemory();
  arena_bytes_ = 0;
  SLUICE_ASSIGN_OR_RETURN(PageMemory memory, PageMemory::Map(arena));
  SLUICE_RETURN_IF_ERROR(memory.Populate());
  arena_ = std::move(memory);
  arena_bytes_ = arena_.span().size();
  reader_.device().RegisterMemory(arena_.span());
  return absl::OkStatus();
}

std::span<std::byte> Executor::Impl::Buffer(const StreamedModel& model, BufferIndex buffer) {
  return {ArenaStart() + model.activations().offsets[Index(buffer)].count(),
          model.program().buffers()[Index(buffer)].size.count()};
}

ExtentTarget Executor::Impl::Target(const StreamedModel& model, std::size_t extent,
                                    std::byte* into) const {
  const ExtentRecord& record = model.package().extents()[extent];
  return {.extent = At<ExtentIndex>(extent),
          .offset = record.offset,
          .size = model.extent_bytes()[extent],
          .stored = record.stored_pages(),
          .checksum = record.checksum,
          .into = into,
          .runs = record.runs,
          .payload = record.size};
}

StreamJob Executor::Impl::JobOver(const StreamedModel& model, std::span<std::byte> ring) const {
  return {.fd = model.package().fd(),
          .name = model.package().path().native(),
          .drop_page_cache = !model.package().direct(),
          .targets = targets_,
          .ring = ring};
}

absl::StatusOr<StreamJob> Executor::Impl::PlanStream(StreamedModel& model) {
  targets_.clear();
  targets_.reserve(model.extent_bytes_.size());
  reader_.Reserve(model.extent_bytes_.size(), model.weight_bytes());
  Bytes largest;
  for (std::size_t i = 0; i < model.extent_bytes_.size(); ++i) {
    if (!model.last_step_[i] || model.resident(At<ExtentIndex>(i)) != nullptr) continue;
    targets_.push_back(Target(model, i, nullptr));
    largest = std::max(largest, model.extent_bytes_[i]);
  }
  const Bytes activations = AlignUp(model.activations().height, kPageSize);
  if (activations + largest > arena()) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "the arena has %s, and package \"%s\" wants %s: %s of activations and %s for its largest "
        "streamed extent",
        FormatBytes(arena()), model.package().path().native(), FormatBytes(activations + largest),
        FormatBytes(activations), FormatBytes(largest)));
  }
  return JobOver(model, arena_.span().subspan(activations.count()));
}

absl::StatusOr<const std::byte*> Executor::Impl::AwaitExtent(std::size_t target,
                                                             InferenceStats& stats) {
  ++stats.streamed_extents;
  if (reader_.ready() > target) ++stats.prefetched_extents;
  const Instant waiting = SteadyClock().Now();
  absl::StatusOr<const std::byte*> streamed = reader_.Await(target);
  stats.stall += Since(waiting);
  return streamed;
}

absl::Status Executor::Impl::RunSteps(StreamedModel& model, Pass& pass) {
  StepMemory memory{.arena = ArenaStart(), .offsets = model.activations().offsets};
  std::size_t next_target = 0;  // The first that was not waited for.
  const std::byte* streamed = nullptr;
  std::optional<ExtentIndex> last;  // Of the steps before.
  const std::span<const StepInfo> steps = model.program().steps();
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const StepIndex step = At<StepIndex>(i);
    if (pass.gate != nullptr && *pass.gate) SLUICE_RETURN_IF_ERROR((*pass.gate)(step));
    const std::optional<ExtentIndex> extent = steps[i].extent;
    memory.extent = extent ? model.resident(*extent) : nullptr;
    const bool from_ring = extent && memory.extent == nullptr;
    if (extent && extent != last && !from_ring) ++pass.stats.resident_extents;
    if (extent) last = extent;
    if (from_ring && (next_target == 0 || targets_[next_target - 1].extent != *extent)) {
      SLUICE_ASSIGN_OR_RETURN(streamed, AwaitExtent(next_target, pass.stats));
      ++next_target;
    }
    if (from_ring) memory.extent = streamed;
    const Instant start = SteadyClock().Now();
    SLUICE_RETURN_IF_ERROR(model.program().Run(step, memory));
    if (!pass.compute.empty()) pass.compute[i] = Since(start);
    if (from_ring && model.last_step_[Index(*extent)] == step) reader_.Release(next_target);
  }
  return absl::OkStatus();
}

absl::StatusOr<StreamCounters> Executor::Impl::RunPass(StreamedModel& model, const StreamJob& job,
                                                       Pass& pass) {
  if (job.targets.empty()) {
    SLUICE_RETURN_IF_ERROR(RunSteps(model, pass));
    return StreamCounters{};
  }
  reader_.Start(job);
  const absl::Status status = RunSteps(model, pass);
  const StreamCounters counters = reader_.Finish();
  if (!status.ok()) return status;
  return counters;
}

absl::StatusOr<InferenceStats> Executor::Impl::Run(
    StreamedModel& model, std::span<const std::span<const std::byte>> inputs,
    std::span<const std::span<std::byte>> outputs, const StepGate& gate,
    std::span<std::int64_t> counts) {
  const Program& program = model.program();
  SLUICE_CHECK(inputs.size() == program.inputs().size());
  SLUICE_CHECK(outputs.size() == program.outputs().size());
  SLUICE_CHECK(counts.empty() || counts.size() == outputs.size());
  const Instant start = SteadyClock().Now();
  SLUICE_ASSIGN_OR_RETURN(const StreamJob job, PlanStream(model));
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const std::span<std::byte> buffer = Buffer(model, program.inputs()[i].buffer);
    SLUICE_CHECK(inputs[i].size() <= buffer.size());
    std::ranges::copy(inputs[i], buffer.begin());
  }
  Pass pass{.gate = &gate, .compute = {}};
  SLUICE_ASSIGN_OR_RETURN(const StreamCounters counters, RunPass(model, job, pass));
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const PortInfo& port = program.outputs()[i];
    const std::span<std::byte> buffer = Buffer(model, port.buffer);
    SLUICE_CHECK(outputs[i].size() <= buffer.size());
    if (!port.dynamic) {
      std::ranges::copy(buffer.first(outputs[i].size()), outputs[i].begin());
      continue;
    }
    const std::int64_t count = RealCount(port, Buffer(model, port.dynamic->count).data());
    if (!outputs[i].empty()) CopyReal(port, count, buffer.data(), outputs[i].data());
    if (!counts.empty()) counts[i] = count;
  }
  pass.stats.total = Since(start);
  pass.stats.streamed = counters.read;
  pass.stats.reads = counters.reads;
  return pass.stats;
}

absl::Status Executor::Impl::SetResidents(StreamedModel& model, const std::vector<bool>& resident) {
  const std::size_t extents = model.extent_bytes_.size();
  SLUICE_CHECK(resident.size() == extents);
  for (std::size_t i = 0; i < extents; ++i) {
    if (resident[i] || model.resident(At<ExtentIndex>(i)) == nullptr) continue;
    model.resident_bytes_ -= model.extent_bytes_[i].count();
    model.residents_[i] = PageMemory();
  }
  targets_.clear();
  std::vector<PageMemory> memories;
  for (std::size_t i = 0; i < extents; ++i) {
    if (!resident[i] || model.resident(At<ExtentIndex>(i)) != nullptr) continue;
    if (model.extent_bytes_[i] == Bytes()) continue;
    SLUICE_ASSIGN_OR_RETURN(PageMemory memory, PageMemory::Map(model.extent_bytes_[i]));
    targets_.push_back(Target(model, i, memory.span().data()));
    memories.push_back(std::move(memory));
  }
  if (targets_.empty()) return absl::OkStatus();
  reader_.Start(JobOver(model, {}));
  absl::Status status = reader_.Await(targets_.size() - 1).status();
  reader_.Finish();
  for (std::size_t i = 0; i < reader_.ready(); ++i) {
    const std::size_t extent = Index(targets_[i].extent);
    model.residents_[extent] = std::move(memories[i]);
    model.resident_bytes_ += model.extent_bytes_[extent].count();
  }
  return status;
}

absl::StatusOr<std::uint64_t> Executor::Impl::RunSelfTest(StreamedModel& model,
                                                          std::span<Duration> compute) {
  const Program& program = model.program();
  SLUICE_ASSIGN_OR_RETURN(const StreamJob job, PlanStream(model));
  const auto tensor = [&](const PortInfo& port) {
    return Buffer(model, port.buffer).first(TensorBytes(port.type, port.shape).count());
  };
  for (std::size_t i = 0; i < program.inputs().size(); ++i) {
    const PortInfo& input = program.inputs()[i];
    // What lies behind the tensor is whatever the kernels read there.
    std::ranges::fill(Buffer(model, input.buffer), std::byte{0});
    FillSelfTestInput(input, i, tensor(input));
  }
  Pass pass{.gate = nullptr, .compute = compute};
  SLUICE_RETURN_IF_ERROR(RunPass(model, job, pass).status());
  RunningChecksum answer;
  for (const PortInfo& output : program.outputs()) {
    AddSelfTestOutput(output, tensor(output), answer);
  }
  return answer.value();
}

absl::StatusOr<ModelProfile> Executor::Impl::Profile(StreamedModel& model, int rounds) {
  SLUICE_CHECK(rounds >= 1);
  const std::span<const StepInfo> steps = model.program().steps();
  std::vector<std::vector<Duration>> measured(steps.size());
  std::vector<Duration> compute(steps.size());
  ModelProfile profile;
  for (int round = 0; round < rounds; ++round) {
    SLUICE_ASSIGN_OR_RETURN(const std::uint64_t answer, RunSelfTest(model, compute));
    if (round > 0 && answer != profile.answer) {
      return absl::InternalError(
          absl::StrFormat("self-test: the same input gave outputs with checksum %016x, then %016x",
                          profile.answer, answer));
    }
    profile.answer = answer;
    for (std::size_t i = 0; i < steps.size(); ++i) measured[i].push_back(compute[i]);
  }
  for (std::size_t i = 0; i < steps.size(); ++i) {
    profile.costs.push_back({.compute = Median(std::move(measured[i])), .extent = steps[i].extent});
  }
  return profile;
}

// The time of one small read alone: what no read-ahead can hide.
absl::StatusOr<Duration> Executor::Impl::MeasureLatency(StreamedModel& model,
                                                        const ExtentTarget& target) {
  BlockDevice& device = reader_.device();
  std::vector<Duration> times;
  for (int i = 0; i < kLatencyReads; ++i) {
    const Bytes page = kPageSize * (static_cast<std::uint64_t>(i) * 7919 %
                                    (target.stored.count() / kPageSize.count()));
    const Instant start = SteadyClock().Now();
    const Read read{.fd = model.package().fd(),
                    .offset = target.offset + page,
                    .into = arena_.span().first(kPageSize.count())};
    SLUICE_CHECK(device.TrySubmit(read));
    Completion completion;
    while (device.Reap({&completion, 1}, std::chrono::seconds(1)) == 0) {
    }
    if (completion.result < 0) {
      return absl::UnavailableError(absl::StrFormat("cannot read package \"%s\": %s",
                                                    model.package().path().native(),
                                                    std::strerror(-completion.result)));
    }
    times.push_back(Since(start));
  }
  return Median(std::move(times));
}

absl::StatusOr<ReadCost> Executor::Impl::MeasureReads(StreamedModel& model) {
  targets_.clear();
  Bytes bytes;
  for (std::size_t i = 0; i < model.extent_bytes_.size() && bytes < kMeasured; ++i) {
    const Bytes size = model.extent_bytes_[i];
    if (size == Bytes() || size > arena()) continue;
    targets_.push_back(Target(model, i, nullptr));
    bytes += targets_.back().stored;
  }
  if (targets_.empty()) {
    return absl::FailedPreconditionError(
        absl::StrFormat("the arena has %s, and no extent of package \"%s\" fits it",
                        FormatBytes(arena()), model.package().path().native()));
  }
  ReadCost cost;
  SLUICE_ASSIGN_OR_RETURN(cost.latency, MeasureLatency(model, targets_.front()));
  Bytes measured;
  Duration elapsed{};
  for (int round = 0; round < kMeasuredRounds && measured < kMeasured; ++round) {
    const Instant start = SteadyClock().Now();
    reader_.Start(JobOver(model, arena_.span()));
    absl::Status status;
    for (std::size_t i = 0; i < targets_.size() && status.ok(); ++i) {
      status = reader_.Await(i).status();
      if (status.ok()) reader_.Release(i + 1);
    }
    reader_.Finish();
    SLUICE_RETURN_IF_ERROR(status);
    elapsed += Since(start);
    measured += bytes;
  }
  cost.bytes_per_second = static_cast<double>(measured.count()) / std::max(Seconds(elapsed), 1e-9);
  return cost;
}

Executor::Executor(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Executor::~Executor() = default;

absl::StatusOr<std::unique_ptr<Executor>> Executor::Open(const Options& options) {
  std::unique_ptr<BlockDevice> device;
  if (options.io_uring) {
    absl::StatusOr<std::unique_ptr<BlockDevice>> io_uring = OpenIoUringDevice(options.queue_depth);
    if (io_uring.ok()) device = *std::move(io_uring);
  }
  if (device == nullptr) {
    device = OpenThreadPoolDevice(std::max<std::size_t>(options.queue_depth / 2, 1));
  }
  return OpenOn(std::move(device), options);
}

std::unique_ptr<Executor> Executor::OpenOn(std::unique_ptr<BlockDevice> device,
                                           const Options& options) {
  return std::unique_ptr<Executor>(
      new Executor(std::make_unique<Impl>(std::move(device), options.read_size)));
}

std::string_view Executor::device_name() const { return impl_->device_name(); }
const StorageStatistics& Executor::storage() const { return impl_->storage(); }
absl::Status Executor::Resize(Bytes arena) { return impl_->Resize(arena); }
Bytes Executor::arena() const { return impl_->arena(); }

absl::Status Executor::SetResidents(StreamedModel& model, const std::vector<bool>& resident) {
  return impl_->SetResidents(model, resident);
}

absl::StatusOr<InferenceStats> Executor::Run(StreamedModel& model,
                                             std::span<const std::span<const std::byte>> inputs,
                                             std::span<const std::span<std::byte>> outputs,
                                             const StepGate& gate, std::span<std::int64_t> counts) {
  return impl_->Run(model, inputs, outputs, gate, counts);
}

absl::StatusOr<ModelProfile> Executor::Profile(StreamedModel& model, int rounds) {
  return impl_->Profile(model, rounds);
}

absl::StatusOr<ReadCost> Executor::MeasureReads(StreamedModel& model) {
  return impl_->MeasureReads(model);
}

}  // namespace sluice
