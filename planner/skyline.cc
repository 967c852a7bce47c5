#include "planner/skyline.h"

#include <algorithm>
#include <limits>

#include "base/check.h"

namespace sluice {
namespace {

using Height = Skyline::Height;

constexpr Height kNever = std::numeric_limits<Height>::max();

// A permutation of 64-bit numbers that looks random (the finaliser of SplitMix64, G. Steele,
// D. Lea, C. Flood, 2014).
std::uint64_t Scramble(std::uint64_t x) {
  x ^= x >> 30;
  x *= 0xBF58476D1CE4E5B9;
  x ^= x >> 27;
  x *= 0x94D049BB133111EB;
  return x ^ x >> 31;
}

}  // namespace

Skyline::Skyline(std::span<const UsageRecord> records, const SectionMap& map)
    : records_(records), map_(map) {
  first_.assign(map.sections + 1, 0);
  std::uint32_t place = 0;
  for (std::size_t i = 0; i < records.size(); ++i) {
    const SectionRange span = map.spans[i];
    first_place_.push_back(place);
    place += span.length();
    for (Section s = span.begin; s < span.end; ++s) ++first_[s + 1];
    if (records[i].fixed) fixed_.push_back(static_cast<Record>(i));
  }
  for (std::size_t s = 0; s < map.sections; ++s) first_[s + 1] += first_[s];
  members_.resize(place);
  places_.resize(place);
  floor_.resize(map.sections);
  remaining_.resize(map.sections);
  open_count_.resize(map.sections);
  is_raised_.resize(map.sections);
  is_left_.resize(map.sections);
  is_gapped_.resize(map.sections);
  is_changed_.resize(map.sections);
  lowest_.resize(records.size());
  placed_.resize(records.size());
}

bool Skyline::Reset(Height capacity) {
  capacity_ = capacity;
  trail_.clear();
  placed_count_ = 0;
  work_ += members_.size();
  fingerprint_ = {.a = 1, .b = 1};  // Not what an empty table of states holds.
  std::ranges::fill(floor_, 0);
  std::ranges::fill(remaining_, 0);
  std::ranges::fill(open_count_, 0);
  std::ranges::fill(placed_, 0);
  for (std::size_t i = 0; i < records_.size(); ++i) {
    lowest_[i] = records_[i].fixed ? records_[i].fixed->count() : 0;
    const SectionRange span = map_.spans[i];
    for (Section s = span.begin; s < span.end; ++s) {
      const std::uint32_t place = first_[s] + open_count_[s]++;
      members_[place] = static_cast<Record>(i);
      places_[first_place_[i] + (s - span.begin)] = place;
      remaining_[s] += records_[i].size.count();
    }
  }
  for (std::size_t i = 0; i < records_.size(); ++i) {
    if (!records_[i].fixed) lowest_[i] = Fitted(static_cast<Record>(i), 0);
  }
  for (Section s = 0; s < floor_.size(); ++s) {
    NoteChanged(s);
    Enlist(s, left_, is_left_);
    Enlist(s, gapped_, is_gapped_);
  }
  return Propagate();
}

bool Skyline::Place(Record record) {
  const Height top = lowest_[record] + records_[record].size.count();
  Remove(record);
  const SectionRange span = map_.spans[record];
  for (Section s = span.begin; s < span.end; ++s) {
    if (!closed(s)) SetFloor(s, top);
  }
  return Propagate();
}

bool Skyline::Raise(Section section, Height height) {
  SetFloor(section, height);
  return Propagate();
}

void Skyline::Undo(std::size_t mark) {
  while (trail_.size() > mark) {
    const Change change = trail_.back();
    trail_.pop_back();
    switch (change.kind) {
      case Kind::kFloor:
        Mix(1, change.index, floor_[change.index]);
        floor_[change.index] = change.before;
        Mix(1, change.index, change.before);
        NoteChanged(change.index);
        break;
      case Kind::kLowest: {
        NoteMoved(change.index, lowest_[change.index], change.before);
        lowest_[change.index] = change.before;
        break;
      }
      case Kind::kPlaced: {
        placed_[change.index] = 0;
        --placed_count_;
        Mix(2, change.index, 0);
        const SectionRange span = map_.spans[change.index];
        const Height size = records_[change.index].size.count();
        for (Section s = span.begin; s < span.end; ++s) {
          if (open_count_[s]++ == 0) Mix(1, s, floor_[s]);  // It stands right behind the open ones.
          remaining_[s] += size;
          NoteChanged(s);
        }
        break;
      }
    }
  }
}

Height Skyline::NextStart(Section section) const {
  const Height floor = floor_[section];
  Height next = kNever;
  SectionRange reach = {section, section + 1};  // Of the records that could lie on the floor.
  std::size_t on_floor = 0;
  Record only = 0;
  for (const Record record : open(section)) {
    if (lowest_[record] > floor) {
      next = std::min(next, lowest_[record]);
      continue;
    }
    ++on_floor;
    only = record;
    reach.begin = std::min(reach.begin, map_.spans[record].begin);
    reach.end = std::max(reach.end, map_.spans[record].end);
  }
  if (on_floor == 0) return next;
  // They could also lie on another record that is still to come, but not on themselves.
  for (Section s = reach.begin; s < reach.end; ++s) {
    work_ += open_count_[s];
    for (const Record below : open(s)) {
      if (on_floor == 1 && below == only) continue;
      next = std::min(next, lowest_[below] + records_[below].size.count());
    }
  }
  return next;
}

void Skyline::SetFloor(Section section, Height height) {
  MoveFloor(section, height);
  Enlist(section, raised_, is_raised_);
}

void Skyline::MoveFloor(Section section, Height height) {
  trail_.push_back({Kind::kFloor, section, floor_[section]});
  Mix(1, section, floor_[section]);
  floor_[section] = height;
  Mix(1, section, height);
  NoteChanged(section);
}

// The lowest offset from `height` on that is aligned and clear of fixed records, as far as those
// are still to be placed.
Height Skyline::Fitted(Record record, Height height) const {
  const Height mask = records_[record].alignment.count() - 1;
  const Height size = records_[record].size.count();
  const SectionRange span = map_.spans[record];
  height = (height + mask) & ~mask;
  for (bool moved = true; moved;) {
    moved = false;
    for (const Record other : fixed_) {
      if (other == record || placed_[other]) continue;
      const SectionRange theirs = map_.spans[other];
      if (theirs.begin >= span.end || span.begin >= theirs.end) continue;
      const Height begin = records_[other].fixed->count();
      const Height end = begin + records_[other].size.count();
      if (begin >= height + size || height >= end) continue;
      height = (end + mask) & ~mask;
      moved = true;
    }
  }
  return height;
}

// False: the record cannot lie so high.
bool Skyline::SetLowest(Record record, Height height) {
  if (records_[record].fixed) return height <= lowest_[record];
  const Height before = lowest_[record], fitted = Fitted(record, height);
  trail_.push_back({Kind::kLowest, record, before});
  lowest_[record] = fitted;
  NoteMoved(record, before, fitted);
  const SectionRange span = map_.spans[record];
  for (Section s = span.begin; s < span.end; ++s) {
    if (before == floor_[s]) Enlist(s, left_, is_left_);
    // As long as all that is to come fits above the record, its move opens no gap that matters.
    if (fitted + remaining_[s] > capacity_) Enlist(s, gapped_, is_gapped_);
  }
  return true;
}

// Floors lift records, and the lowest record of a section lifts its floor, until nothing moves.
bool Skyline::Propagate() {
  bool possible = true;
  while (possible && !(raised_.empty() && left_.empty() && gapped_.empty())) {
    const bool raised = !raised_.empty();
    std::vector<Section>& list = raised ? raised_ : !left_.empty() ? left_ : gapped_;
    const Section s = list.back();
    list.pop_back();
    if (raised) {
      is_raised_[s] = 0;
      possible = LiftRecords(s) && LiftFloor(s);
    } else if (&list == &left_) {
      is_left_[s] = 0;
      possible = LiftFloor(s);
    } else {
      is_gapped_[s] = 0;
      possible = GapsFit(s);
    }
    if (!possible) failed_ = s;
  }
  for (const Section s : raised_) is_raised_[s] = 0;
  for (const Section s : left_) is_left_[s] = 0;
  for (const Section s : gapped_) is_gapped_[s] = 0;
  raised_.clear();
  left_.clear();
  gapped_.clear();
  return possible;
}

bool Skyline::LiftRecords(Section section) {
  work_ += open_count_[section];
  for (const Record record : open(section)) {
    if (lowest_[record] < floor_[section] && !SetLowest(record, floor_[section])) return false;
  }
  return true;
}

// False: what is to come does not fit into the section.
bool Skyline::LiftFloor(Section section) {
  if (closed(section)) return true;
  work_ += open_count_[section];
  Height lowest = kNever;
  for (const Record record : open(section)) lowest = std::min(lowest, lowest_[record]);
  if (lowest > floor_[section]) MoveFloor(section, lowest);
  return floor_[section] + remaining_[section] <= capacity_;
}

// Stacks the section's records as early as each may lie, as if no other section mattered: the
// shortest schedule of one machine whose jobs have release dates.
bool Skyline::GapsFit(Section section) {
  work_ += open_count_[section];
  releases_.clear();
  for (const Record record : open(section)) {
    releases_.emplace_back(lowest_[record], records_[record].size.count());
  }
  std::ranges::sort(releases_);
  Height top = 0;
  for (const auto& [release, size] : releases_) top = std::max(top, release) + size;
  return top <= capacity_;
}

void Skyline::Remove(Record record) {
  trail_.push_back({Kind::kPlaced, record, 0});
  placed_[record] = 1;
  ++placed_count_;
  Mix(2, record, 0);
  const SectionRange span = map_.spans[record];
  const Height size = records_[record].size.count();
  for (Section s = span.begin; s < span.end; ++s) {
    remaining_[s] -= size;
    const std::uint32_t last = first_[s] + --open_count_[s];
    std::uint32_t& place = places_[first_place_[record] + (s - span.begin)];
    const Record moved = members_[last];
    std::swap(members_[place], members_[last]);
    places_[first_place_[moved] + (s - map_.spans[moved].begin)] = place;
    place = last;
    if (open_count_[s] == 0) Mix(1, s, floor_[s]);  // What is under it does not matter any more.
    NoteChanged(s);
  }
}

void Skyline::NoteChanged(Section section) { Enlist(section, changed_, is_changed_); }

// Only a record that comes to a floor or leaves it changes what can be chosen there.
void Skyline::NoteMoved(Record record, Height from, Height to) {
  const SectionRange span = map_.spans[record];
  for (Section s = span.begin; s < span.end; ++s) {
    if (floor_[s] == from || floor_[s] == to) NoteChanged(s);
  }
}

void Skyline::Enlist(Section section, std::vector<Section>& list,
                     std::vector<std::uint8_t>& listed) {
  if (!listed[section]) list.push_back(section);
  listed[section] = 1;
}

void Skyline::Mix(std::uint64_t kind, std::uint64_t index, std::uint64_t value) {
  const std::uint64_t key = Scramble(value * 4 + kind) + index * 0x9E3779B97F4A7C15;
  fingerprint_.a ^= Scramble(key);
  fingerprint_.b ^= Scramble(key ^ 0xD1B54A32D192ED03);
}

}  // namespace sluice
