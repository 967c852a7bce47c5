#include "server/memory_ledger.h"

#include <algorithm>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "base/check.h"

namespace sluice {
namespace {

absl::Status OverBudget(std::string_view line, std::string_view model, Bytes asked, Bytes free,
                        Bytes budget) {
  return absl::ResourceExhaustedError(absl::StrFormat(
      "memory for %s%s%s: got %s free, want %s (budget %s)", line, model.empty() ? "" : " of ",
      model, FormatBytes(free), FormatBytes(asked), FormatBytes(budget)));
}

}  // namespace

Reservation::~Reservation() {
  if (ledger_ != nullptr) ledger_->Release(line_, model_, bytes_);
}

Reservation::Reservation(Reservation&& other) noexcept
    : ledger_(std::exchange(other.ledger_, nullptr)),
      line_(std::move(other.line_)),
      model_(std::move(other.model_)),
      bytes_(std::exchange(other.bytes_, Bytes())) {}

Reservation& Reservation::operator=(Reservation&& other) noexcept {
  if (this == &other) return *this;
  if (ledger_ != nullptr) ledger_->Release(line_, model_, bytes_);
  ledger_ = std::exchange(other.ledger_, nullptr);
  line_ = std::move(other.line_);
  model_ = std::move(other.model_);
  bytes_ = std::exchange(other.bytes_, Bytes());
  return *this;
}

absl::Status Reservation::Resize(Bytes bytes) {
  if (ledger_ == nullptr) {
    return absl::FailedPreconditionError("a reservation that was given back cannot be resized");
  }
  absl::Status changed = ledger_->Change(line_, model_, bytes_, bytes);
  if (changed.ok()) bytes_ = bytes;
  return changed;
}

absl::StatusOr<Reservation> MemoryLedger::Reserve(std::string_view line, std::string_view model,
                                                  Bytes bytes) {
  return Reserve(line, model, bytes, std::numeric_limits<std::size_t>::max());
}

absl::StatusOr<Reservation> MemoryLedger::Reserve(std::string_view line, std::string_view model,
                                                  Bytes bytes, std::size_t most) {
  std::pair<std::string, std::string> key(line, model);
  MutexLock lock(mutex_);
  const auto found = lines_.find(key);
  if (found != lines_.end() && found->second.reservations >= most) {
    return absl::UnavailableError(absl::StrFormat("%s: got %d at once, want at most %d", line,
                                                  found->second.reservations + 1, most));
  }
  if (const Bytes free = FreeFor(line); bytes > free) {
    return OverBudget(line, model, bytes, free, budget_);
  }
  Entry& entry = lines_[std::move(key)];
  entry.reserved += bytes;
  ++entry.reservations;
  reserved_ += bytes;
  peak_ = std::max(peak_, reserved_);
  return Reservation(this, std::string(line), std::string(model), bytes);
}

absl::Status MemoryLedger::Change(const std::string& line, const std::string& model, Bytes from,
                                  Bytes to) {
  MutexLock lock(mutex_);
  if (const Bytes free = FreeFor(line); to > from && to - from > free) {
    return OverBudget(line, model, to - from, free, budget_);
  }
  Entry& entry = lines_[{line, model}];
  SLUICE_CHECK(entry.reserved >= from && reserved_ >= from);
  entry.reserved = entry.reserved - from + to;
  reserved_ = reserved_ - from + to;
  peak_ = std::max(peak_, reserved_);
  return absl::OkStatus();
}

void MemoryLedger::Release(const std::string& line, const std::string& model, Bytes bytes) {
  MutexLock lock(mutex_);
  const auto found = lines_.find({line, model});
  SLUICE_CHECK(found != lines_.end() && found->second.reserved >= bytes && reserved_ >= bytes);
  found->second.reserved -= bytes;
  reserved_ -= bytes;
  if (--found->second.reservations == 0) lines_.erase(found);
}

Bytes MemoryLedger::LineTotal(std::string_view line) const {
  Bytes total;
  for (const auto& [key, entry] : lines_) {
    if (key.first == line) total += entry.reserved;
  }
  return total;
}

Bytes MemoryLedger::FreeFor(std::string_view line) const {
  const Bytes free = budget_ - reserved_;
  const auto limit = limits_.find(line);
  return limit == limits_.end() ? free : std::min(free, limit->second - LineTotal(line));
}

Bytes MemoryLedger::LimitLine(std::string_view line, Bytes most) {
  MutexLock lock(mutex_);
  const Bytes limit = std::max(most, LineTotal(line));
  limits_[std::string(line)] = limit;
  return limit;
}

Bytes MemoryLedger::limit(std::string_view line) const {
  MutexLock lock(mutex_);
  const auto found = limits_.find(line);
  return found == limits_.end() ? budget_ : found->second;
}

Bytes MemoryLedger::budget() const { return budget_; }

Bytes MemoryLedger::reserved() const {
  MutexLock lock(mutex_);
  return reserved_;
}

Bytes MemoryLedger::free() const {
  MutexLock lock(mutex_);
  return budget_ - reserved_;
}

Bytes MemoryLedger::peak() const {
  MutexLock lock(mutex_);
  return peak_;
}

std::vector<MemoryLedger::Line> MemoryLedger::lines() const {
  MutexLock lock(mutex_);
  std::vector<Line> lines;
  lines.reserve(lines_.size());
  for (const auto& [key, entry] : lines_) {
    lines.push_back({key.first, key.second, entry.reserved, entry.reserved, entry.reservations});
  }
  return lines;
}

}  // namespace sluice
