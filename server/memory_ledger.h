// server/memory_ledger.h
//
// Who has reserved what of the one budget. Every large allocation is a reservation first.

#ifndef SLUICE_SERVER_MEMORY_LEDGER_H_
#define SLUICE_SERVER_MEMORY_LEDGER_H_

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/bytes.h"
#include "base/mutex.h"

namespace sluice {

class MemoryLedger;

// Bytes of the budget, given back when destroyed. Must not outlive its ledger.
class Reservation {
 public:
  Reservation() = default;
  ~Reservation();
  Reservation(Reservation&& other) noexcept;
  Reservation& operator=(Reservation&& other) noexcept;
  Bytes bytes() const { return bytes_; }
  // Changes the amount; on failure it stays as it was. Shrinking cannot fail.
  absl::Status Resize(Bytes bytes);

 private:
  friend class MemoryLedger;
  Reservation(MemoryLedger* ledger, std::string line, std::string model, Bytes bytes)
      : ledger_(ledger), line_(std::move(line)), model_(std::move(model)), bytes_(bytes) {}
  MemoryLedger* ledger_ = nullptr;
  std::string line_, model_;
  Bytes bytes_;
};

// Threads: callable from several at once.
class MemoryLedger {
 public:
  explicit MemoryLedger(Bytes budget) : budget_(budget) {}

  struct Line {
    // "base", "headroom", "receive", "arena", "weights", "kernels", "metadata", "requests",
    // "import"
    std::string line;
    std::string model;  // Empty for what serves all models.
    Bytes reserved;
    Bytes used;                    // All of it, unless somebody knows better: see base_memory.h.
    std::size_t reservations = 0;  // How many it is made of.
  };

  // Fails: RESOURCE_EXHAUSTED, with what was asked, what is free, and the budget.
  absl::StatusOr<Reservation> Reserve(std::string_view line, std::string_view model, Bytes bytes);
  // The same, for a line that may consist of at most `most` reservations.
  // Fails: also UNAVAILABLE, there are that many.
  absl::StatusOr<Reservation> Reserve(std::string_view line, std::string_view model, Bytes bytes,
                                      std::size_t most);

  // From here on the line, over all models, gets no more than `most`, or than it has by now when
  // that is more. Returns which; nobody can take the rest of the budget from under a plan then.
  Bytes LimitLine(std::string_view line, Bytes most);
  // The most that the line may have: its limit, or the budget.
  Bytes limit(std::string_view line) const;

  Bytes budget() const;
  Bytes reserved() const;
  Bytes free() const;
  Bytes peak() const;               // The most that was reserved at a time.
  std::vector<Line> lines() const;  // In order of line, then model.

 private:
  friend class Reservation;
  struct Entry {
    Bytes reserved;
    std::size_t reservations = 0;
  };
  absl::Status Change(const std::string& line, const std::string& model, Bytes from, Bytes to);
  void Release(const std::string& line, const std::string& model, Bytes bytes);
  Bytes LineTotal(std::string_view line) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What one line may still take.
  Bytes FreeFor(std::string_view line) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Bytes budget_;
  mutable Mutex mutex_;
  Bytes reserved_ ABSL_GUARDED_BY(mutex_);
  Bytes peak_ ABSL_GUARDED_BY(mutex_);
  std::map<std::pair<std::string, std::string>, Entry> lines_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Bytes, std::less<>> limits_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace sluice

#endif  // SLUICE_SERVER_MEMORY_LEDGER_H_
