#include "streamer/extent_stream.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/status_macros.h"

namespace sluice {
namespace {

// Of one piece, before the extent is given up: reads that bring nothing or an error, and reads that
// bring less than a page, which is allowed but must end.
constexpr int kMaxFailures = 4;
constexpr int kMaxScraps = 64;

Bytes PageFloor(Bytes size) { return Bytes::Of(size.count() & ~(kPageSize.count() - 1)); }

}  // namespace

ExtentStream::ExtentStream(BlockDevice& device, Bytes read_size, StorageStatistics* statistics)
    : device_(device),
      read_size_(PageFloor(read_size)),
      statistics_(statistics),
      requests_(device.queue_depth()),
      completions_(device.queue_depth()) {
  SLUICE_CHECK(read_size_ >= kPageSize);
}

std::size_t ExtentStream::Pieces(Bytes size) const {
  return (size.count() + read_size_.count() - 1) / read_size_.count();
}

void ExtentStream::Reserve(std::size_t targets, Bytes bytes) {
  done_.reserve(Pieces(bytes) + targets);
  if (targets <= reserved_) return;
  reserved_ = targets;
  targets_.reserve(targets);
  // The layout keeps the memory that it once had.
  ring_.Reset(Bytes());
  for (std::size_t i = 0; i < targets; ++i) ring_.Place(At<ExtentIndex>(i), Bytes());
}

void ExtentStream::Begin(const StreamJob& job) {
  SLUICE_CHECK(in_flight_ == 0);
  job_ = job;
  targets_.clear();
  ring_.Reset(Bytes::Of(job.ring.size()));
  std::size_t pieces = 0;
  for (const ExtentTarget& wanted : job.targets) {
    SLUICE_CHECK(
        wanted.size == PageFloor(wanted.size) && wanted.stored == PageFloor(wanted.stored) &&
        (wanted.runs.empty() ? wanted.stored == wanted.size : wanted.stored <= wanted.size));
    SLUICE_CHECK(wanted.into != nullptr || wanted.size.count() <= job.ring.size());
    Target target{.extent = wanted.extent,
                  .offset = wanted.offset,
                  .size = wanted.size,
                  .stored = wanted.stored,
                  .checksum = wanted.checksum,
                  .into = wanted.into,
                  .runs = wanted.runs,
                  .payload = wanted.payload,
                  .first_piece = pieces,
                  .pieces = Pieces(wanted.stored)};
    if (wanted.into == nullptr) {
      const RingPlace place = ring_.Place(At<ExtentIndex>(targets_.size()), wanted.size);
      target.into = job.ring.data() + place.offset.count();
      if (place.after) target.after = Index(*place.after) + 1;
    }
    pieces += target.pieces;
    targets_.push_back(target);
  }
  done_.assign(pieces, 0);
  for (Request& request : requests_) request.active = false;
  issue_target_ = issue_piece_ = 0;
  again_piece_.reset();
  ready_ = verified_pieces_ = released_ = 0;
  checksum_.Reset();
  counters_ = {};
}

bool ExtentStream::Release(std::size_t count) {
  SLUICE_CHECK(count >= released_ && count <= ready_);
  const bool grew = count > released_;
  released_ = count;
  return grew;
}

bool ExtentStream::blocked() const {
  return in_flight_ == 0 && waits_for_room() && ready_ == issue_target_ && !again_piece_ &&
         std::ranges::none_of(requests_, &Request::active);
}

absl::Status ExtentStream::Turn(Duration wait) {
  Issue();
  bool worked = false;
  SLUICE_RETURN_IF_ERROR(Verify(worked));
  if (in_flight_ == 0) return absl::OkStatus();
  const std::size_t count = device_.Reap(completions_, worked ? Duration::zero() : wait);
  absl::Status status;
  for (std::size_t i = 0; i < count; ++i) {
    const absl::Status one = Complete(completions_[i]);
    if (status.ok()) status = one;
  }
  return status;
}

void ExtentStream::Drain() {
  while (in_flight_ > 0) in_flight_ -= device_.Reap(completions_, std::chrono::seconds(1));
  for (Request& request : requests_) request.active = false;
}

ExtentStream::Request* ExtentStream::FreeRequest() {
  const auto free = std::ranges::find(requests_, false, &Request::active);
  return free == requests_.end() ? nullptr : &*free;
}

bool ExtentStream::Submit(std::size_t slot) {
  Request& request = requests_[slot];
  const Target& target = targets_[request.target];
  const Read read{
      .tag = slot,
      .fd = job_.fd,
      .offset = target.offset + request.begin,
      .into = {target.read_into() + request.begin.count(), (request.end - request.begin).count()}};
  if (statistics_ != nullptr) request.submitted_at = SteadyClock().Now();
  request.submitted = device_.TrySubmit(read);
  if (request.submitted) ++in_flight_;
  return request.submitted;
}

bool ExtentStream::IssuePiece(std::size_t target, std::size_t piece) {
  Request* const request = FreeRequest();
  if (request == nullptr) return false;
  const Bytes begin = read_size_ * piece;
  *request = {.active = true,
              .target = target,
              .piece = piece,
              .begin = begin,
              .end = std::min(begin + read_size_, targets_[target].stored)};
  // When the device's queue is full the request stays, and goes first in the next turn.
  return Submit(static_cast<std::size_t>(request - requests_.data()));
}

// What is needed first goes first: rests of short reads, then an extent that is read again, then
// what comes next.
void ExtentStream::Issue() {
  for (std::size_t slot = 0; slot < requests_.size(); ++slot) {
    if (requests_[slot].active && !requests_[slot].submitted && !Submit(slot)) return;
  }
  while (again_piece_) {
    if (FreeRequest() == nullptr) return;
    const std::size_t piece = *again_piece_;
    again_piece_.reset();
    if (piece + 1 < targets_[ready_].pieces) again_piece_ = piece + 1;
    if (!IssuePiece(ready_, piece)) return;
  }
  while (issue_target_ < targets_.size()) {
    const Target& target = targets_[issue_target_];
    if (waits_for_room() || (issue_piece_ < target.pieces && FreeRequest() == nullptr)) return;
    if (issue_piece_ == target.pieces) {
      ++issue_target_;
      issue_piece_ = 0;
      continue;
    }
    const std::size_t piece = issue_piece_++;
    const std::size_t index = issue_target_;
    if (issue_piece_ == target.pieces) {
      ++issue_target_;
      issue_piece_ = 0;
    }
    if (!IssuePiece(index, piece)) return;
  }
}

absl::Status ExtentStream::Verify(bool& worked) {
  while (ready_ < targets_.size()) {
    Target& target = targets_[ready_];
    // An extent of no bytes is issued when the cursor has passed it.
    const bool issued = ready_ < issue_target_ || (ready_ == issue_target_ && issue_piece_ > 0);
    if (!issued) return absl::OkStatus();
    if (verified_pieces_ == target.pieces) {
      SLUICE_RETURN_IF_ERROR(FinishTarget(target));
      continue;
    }
    if (worked || done_[target.first_piece + verified_pieces_] == 0) return absl::OkStatus();
    const std::size_t begin = verified_pieces_ * read_size_.count();
    const std::size_t size = std::min(read_size_.count(), target.stored.count() - begin);
    checksum_.Add({target.read_into() + begin, size});
    ++verified_pieces_;
    worked = true;
  }
  return absl::OkStatus();
}

absl::Status ExtentStream::FinishTarget(Target& target) {
  const std::uint64_t found = checksum_.value();
  checksum_.Reset();
  verified_pieces_ = 0;
  if (job_.drop_page_cache && target.stored > Bytes()) {
    ::posix_fadvise(job_.fd, static_cast<off_t>(target.offset.count()),
                    static_cast<off_t>(target.stored.count()), POSIX_FADV_DONTNEED);
  }
  if (found == target.checksum || target.stored == Bytes()) {
    if (!target.runs.empty()) {
      Widen({target.into, target.size.count()}, target.payload, target.runs);
    }
    ++ready_;
    return absl::OkStatus();
  }
  if (!target.read_again) {
    target.read_again = true;
    std::fill_n(done_.begin() + static_cast<std::ptrdiff_t>(target.first_piece), target.pieces,
                std::uint8_t{0});
    again_piece_ = 0;
    Issue();
    return absl::OkStatus();
  }
  return absl::DataLossError(absl::StrFormat(
      "package \"%s\": extent %d, bytes [%d, %d): found checksum %016x, want %016x, twice",
      job_.name, Index(target.extent), target.offset.count(),
      (target.offset + target.stored).count(), found, target.checksum));
}

absl::Status ExtentStream::Complete(const Completion& completion) {
  SLUICE_CHECK(completion.tag < requests_.size() && in_flight_ > 0);
  Request& request = requests_[completion.tag];
  SLUICE_CHECK(request.active && request.submitted);
  --in_flight_;
  request.submitted = false;
  if (completion.result < 0) {
    if (++request.failures == kMaxFailures) return Failure(request, -completion.result);
    return absl::OkStatus();
  }
  const Bytes wanted = request.end - request.begin;
  const Bytes got = std::min(Bytes::Of(static_cast<std::uint64_t>(completion.result)), wanted);
  ++counters_.reads;
  if (statistics_ != nullptr) {
    statistics_->read_bytes.fetch_add(got.count(), std::memory_order_relaxed);
    statistics_->read_duration.Observe(SteadyClock().Now() - request.submitted_at);
  }
  if (got == wanted) {
    counters_.read += got;
    request.active = false;
    done_[targets_[request.target].first_piece + request.piece] = 1;
    return absl::OkStatus();
  }
  // The rest is asked for from the last whole page on, as the device wants it.
  const Bytes whole = PageFloor(got);
  counters_.read += whole;
  request.begin += whole;
  if (got == Bytes() && ++request.failures == kMaxFailures) return Failure(request, 0);
  if (whole == Bytes() && ++request.scraps == kMaxScraps) return Failure(request, 0);
  return absl::OkStatus();
}

absl::Status ExtentStream::Failure(const Request& request, int error) const {
  const Target& target = targets_[request.target];
  const std::string where = absl::StrFormat(
      "package \"%s\": extent %d, bytes [%d, %d)", job_.name, Index(target.extent),
      (target.offset + request.begin).count(), (target.offset + request.end).count());
  if (error == 0) return absl::DataLossError(where + ": the file ends before them");
  return absl::UnavailableError(
      absl::StrFormat("%s: cannot read: %s", where, std::strerror(error)));
}

}  // namespace sluice
