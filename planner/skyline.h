// planner/skyline.h
//
// The state of a search for offsets: what is placed, how high each section's floor is, how low each
// record may still lie, and what follows from that. Every change can be undone.
//
// Threads: one thread owns a skyline.

#ifndef SLUICE_PLANNER_SKYLINE_H_
#define SLUICE_PLANNER_SKYLINE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "planner/section_map.h"
#include "planner/usage_record.h"

namespace sluice {

class Skyline {
 public:
  using Height = std::uint64_t;  // Bytes from the arena's start.
  using Record = std::uint32_t;
  using Section = std::uint32_t;

  // Owns: borrows both; they outlive this.
  Skyline(std::span<const UsageRecord> records, const SectionMap& map);

  // Nothing placed. False: no plan lies within `capacity`.
  bool Reset(Height capacity);

  // Places the record at its lowest offset. False: no plan contains this; Undo is due.
  bool Place(Record record);
  // Nothing shall start below `height` in the section. False as above.
  bool Raise(Section section, Height height);

  // Where the present state can be returned to.
  std::size_t Mark() const { return trail_.size(); }
  void Undo(std::size_t mark);

  bool complete() const { return placed_count_ == records_.size(); }
  bool placed(Record record) const { return placed_[record] != 0; }
  Height lowest(Record record) const { return lowest_[record]; }  // Its offset, once placed.
  std::span<const Record> open(Section section) const {  // Records of the section to be placed.
    return {members_.data() + first_[section], open_count_[section]};
  }
  std::size_t sections() const { return floor_.size(); }
  bool closed(Section section) const { return open_count_[section] == 0; }
  Height floor(Section section) const { return floor_[section]; }
  // What the section can lose. Requires: an open one.
  Height slack(Section section) const { return capacity_ - floor_[section] - remaining_[section]; }
  // The least height above the floor at which a record of the section could start when none
  // starts on the floor; the largest number when nothing can.
  Height NextStart(Section section) const;
  // Where it showed that there is no plan, when Place, Raise or Reset was last false.
  Section failed() const { return failed_; }
  // Records looked at since it was made: a measure of time that is the same on every machine.
  std::uint64_t work() const { return work_; }
  // Two states with the same numbers have the same future, but for a chance of 2^-128.
  struct Fingerprint {
    std::uint64_t a = 0, b = 0;
    friend bool operator==(const Fingerprint&, const Fingerprint&) = default;
  };
  Fingerprint fingerprint() const { return fingerprint_; }

  // Sections whose floor or records changed since the last call, undone changes included.
  template <typename Visit>
  void TakeChanged(Visit visit) {
    for (const Section s : changed_) {
      is_changed_[s] = 0;
      visit(s);
    }
    changed_.clear();
  }

 private:
  enum class Kind : std::uint32_t { kFloor, kLowest, kPlaced };
  struct Change {
    Kind kind;
    std::uint32_t index;
    Height before;
  };

  void SetFloor(Section section, Height height);
  void MoveFloor(Section section, Height height);
  bool SetLowest(Record record, Height height);
  Height Fitted(Record record, Height height) const;
  bool Propagate();
  bool LiftRecords(Section section);
  bool LiftFloor(Section section);
  bool GapsFit(Section section);
  void Remove(Record record);
  void NoteChanged(Section section);
  void NoteMoved(Record record, Height from, Height to);
  static void Enlist(Section section, std::vector<Section>& list,
                     std::vector<std::uint8_t>& listed);
  void Mix(std::uint64_t kind, std::uint64_t index, std::uint64_t value);

  std::span<const UsageRecord> records_;
  const SectionMap& map_;
  Height capacity_ = 0;
  mutable std::uint64_t work_ = 0;
  std::vector<Record> fixed_;               // Records with a fixed offset.
  std::vector<std::uint32_t> first_;        // By section: into members_.
  std::vector<Record> members_;             // By section; the open ones first.
  std::vector<std::uint32_t> first_place_;  // By record: into places_.
  std::vector<std::uint32_t> places_;       // By record and section: where it is in members_.
  std::vector<std::uint32_t> open_count_;   // By section.
  std::vector<Height> floor_, remaining_;   // By section.
  std::vector<Height> lowest_;              // By record.
  std::vector<std::uint8_t> placed_;
  std::size_t placed_count_ = 0;
  Section failed_ = 0;
  Fingerprint fingerprint_;
  std::vector<Change> trail_;
  // To be propagated: sections whose floor rose, whose lowest record left the floor, and where a
  // record moved so high that there may be a gap too many.
  std::vector<Section> raised_, left_, gapped_;
  std::vector<Section> changed_;
  std::vector<std::uint8_t> is_raised_, is_left_, is_gapped_, is_changed_;  // In the list above.
  std::vector<std::pair<Height, Height>> releases_;
};

}  // namespace sluice

#endif  // SLUICE_PLANNER_SKYLINE_H_
