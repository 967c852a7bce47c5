#include "planner/offset_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "planner/draw.h"
#include "planner/skyline.h"

namespace sluice {
namespace {

using Record = Skyline::Record;
using Section = Skyline::Section;
using Height = Skyline::Height;

constexpr Height kNever = std::numeric_limits<Height>::max();
constexpr std::uint64_t kWorkBetweenQuestions = 200'000;

// States that have been refuted. A full table forgets.
class RefutedStates {
 public:
  void Reset(const OffsetSearch::Limits& limits) {
    constexpr std::size_t kMost = std::size_t{1} << 20;
    std::size_t size = 1024;
    while (size < kMost && size < 2 * limits.steps && size < limits.work / 64) size *= 2;
    slots_.assign(size, {});
  }
  bool Contains(const Skyline::Fingerprint& state) const { return Slot(state) == state; }
  void Add(const Skyline::Fingerprint& state) { slots_[Place(state)] = state; }

 private:
  std::size_t Place(const Skyline::Fingerprint& state) const {
    return static_cast<std::size_t>(state.a) & (slots_.size() - 1);
  }
  const Skyline::Fingerprint& Slot(const Skyline::Fingerprint& state) const {
    return slots_[Place(state)];
  }
  std::vector<Skyline::Fingerprint> slots_;
};

// By record: another one with the same lifetime, size and alignment that comes before it. Such
// twins change places freely, so only one order of them is tried.
std::vector<std::optional<Record>> FindTwins(std::span<const UsageRecord> records,
                                             const SectionMap& map) {
  std::map<std::tuple<std::uint32_t, std::uint32_t, Bytes, Bytes>, Record> latest;
  std::vector<std::optional<Record>> twins(records.size());
  for (std::size_t i = 0; i < records.size(); ++i) {
    if (records[i].fixed) continue;
    const auto [found, fresh] = latest.try_emplace(
        {map.spans[i].begin, map.spans[i].end, records[i].size, records[i].alignment},
        static_cast<Record>(i));
    if (fresh) continue;
    twins[i] = found->second;
    found->second = static_cast<Record>(i);
  }
  return twins;
}

}  // namespace

class OffsetSearch::Impl {
 public:
  Impl(std::span<const UsageRecord> records, const SectionMap& map)
      : records_(records), map_(map), skyline_(records, map), twins_(FindTwins(records, map)) {
    const std::vector<Bytes> breadths = Breadths(records, map);
    for (const SectionRange span : map.spans) {
      urgency_.push_back(static_cast<double>(
          std::max_element(breadths.begin() + span.begin, breadths.begin() + span.end)->count()));
    }
    choices_.resize(map.sections);
    failures_.resize(map.sections, 1);
  }

  Outcome Run(Bytes capacity, const SearchRules& rules, const Limits& limits) {
    rule_ = rules.valley;
    RankRecords(rules);
    refuted_.Reset(limits);
    frames_.clear();
    pool_.clear();
    std::uint64_t steps = 0, next_question = work();
    if (!skyline_.Reset(capacity.count())) return Outcome::kRefuted;
    if (skyline_.complete()) return Finish();
    bool entering = true;  // A state that has not been looked at yet.
    for (;;) {
      if (entering) {
        if (steps++ == limits.steps || work() > limits.work) return Outcome::kGaveUp;
        if (limits.stop && work() >= next_question) {
          if (limits.stop()) return Outcome::kGaveUp;
          next_question = work() + kWorkBetweenQuestions;
        }
        if (!refuted_.Contains(skyline_.fingerprint())) PushFrame();
      }
      if (frames_.empty()) return Outcome::kRefuted;
      entering = Advance();
      if (entering && skyline_.complete()) return Finish();
    }
  }

  const std::vector<Bytes>& offsets() const { return offsets_; }
  std::uint64_t work() const { return skyline_.work(); }
  const std::vector<double>& failures() const { return failures_; }
  void set_failures(std::vector<double> failures) { failures_ = std::move(failures); }

 private:
  // One decision: which of the candidates lies on the section's floor, or that none does.
  struct Frame {
    Section section;
    std::size_t pool_begin;  // Candidates, the best first.
    std::size_t tried;       // Of the candidates, and one more for the raised floor.
    std::size_t mark;        // The state before the decision.
    Skyline::Fingerprint state;
  };

  void RankRecords(const SearchRules& rules) {
    Draw draw(rules.seed);
    rank_.clear();
    for (std::size_t i = 0; i < records_.size(); ++i) {
      const double noise = static_cast<double>(draw.Below(1 << 20)) / (1 << 20);
      rank_.push_back(std::pow(static_cast<double>(map_.spans[i].length()), rules.record.lifetime) *
                      std::pow(static_cast<double>(records_[i].size.count()), rules.record.size) *
                      std::pow(urgency_[i], rules.record.urgency) *
                      (1 + rules.record.noise * noise));
    }
  }

  bool IsCandidate(Record record, Section section) const {
    return skyline_.lowest(record) == skyline_.floor(section) &&
           (!twins_[record] || skyline_.placed(*twins_[record]));
  }

  void PushFrame() {
    const Section section = ChooseSection();
    Frame frame{.section = section,
                .pool_begin = pool_.size(),
                .tried = 0,
                .mark = skyline_.Mark(),
                .state = skyline_.fingerprint()};
    for (const Record record : skyline_.open(section)) {
      if (IsCandidate(record, section)) pool_.push_back(record);
    }
    std::sort(
        pool_.begin() + static_cast<std::ptrdiff_t>(frame.pool_begin), pool_.end(),
        [this](Record a, Record b) { return rank_[a] != rank_[b] ? rank_[a] > rank_[b] : a < b; });
    frames_.push_back(frame);
  }

  // Makes the next decision of the last frame; a frame without another one is refuted and goes.
  // True: the decision stands, and its state has to be looked at.
  bool Advance() {
    Frame& frame = frames_.back();
    skyline_.Undo(frame.mark);
    const std::size_t candidates = pool_.size() - frame.pool_begin;
    while (frame.tried <= candidates) {
      const std::size_t choice = frame.tried++;
      const bool possible = choice < candidates ? skyline_.Place(pool_[frame.pool_begin + choice])
                                                : RaiseFloor(frame.section);
      if (possible) return true;
      failures_[skyline_.failed()] += 1;
      skyline_.Undo(frame.mark);
    }
    refuted_.Add(frame.state);
    pool_.resize(frame.pool_begin);
    frames_.pop_back();
    return false;
  }

  bool RaiseFloor(Section section) {
    const Height next = skyline_.NextStart(section);
    return next != kNever && skyline_.Raise(section, next);
  }

  Section ChooseSection() {
    skyline_.TakeChanged([this](Section s) {
      std::uint32_t count = 0;
      for (const Record record : skyline_.open(s)) count += IsCandidate(record, s) ? 1 : 0;
      choices_[s] = count;
    });
    Section best = 0;
    std::optional<std::tuple<double, double, double>> least;
    const auto sections = static_cast<Section>(skyline_.sections());
    for (Section begin = 0; begin < sections;) {
      if (skyline_.closed(begin)) {
        ++begin;
        continue;
      }
      const Height floor = skyline_.floor(begin);
      Section end = begin + 1;
      while (end < sections && !skyline_.closed(end) && skyline_.floor(end) == floor) ++end;
      if (IsWall(begin, -1, floor) && IsWall(end - 1, 1, floor)) {
        for (Section s = begin; s < end; ++s) {
          const auto score = Score(s, end - begin);
          if (least && score >= *least) continue;
          least = score;
          best = s;
        }
      }
      begin = end;
    }
    SLUICE_CHECK(least.has_value());  // The lowest floor is a valley.
    return best;
  }

  // Nothing to the side of `section` lies lower than `floor`.
  bool IsWall(Section section, int side, Height floor) const {
    const std::int64_t neighbour = std::int64_t{section} + side;
    if (neighbour < 0 || neighbour >= static_cast<std::int64_t>(skyline_.sections())) return true;
    const auto s = static_cast<Section>(neighbour);
    return skyline_.closed(s) || skyline_.floor(s) > floor;
  }

  std::tuple<double, double, double> Score(Section s, Section width) const {
    const auto choices = static_cast<double>(choices_[s]);
    const auto slack = static_cast<double>(skyline_.slack(s));
    const auto floor = static_cast<double>(skyline_.floor(s));
    switch (rule_) {
      case ValleyRule::kLowest:
        return {floor, choices, 0};
      case ValleyRule::kFewestChoicesLeastSlack:
        return {choices, slack, 0};
      case ValleyRule::kFewestChoicesLowest:
        return {choices, floor, 0};
      case ValleyRule::kFewestChoicesNarrowest:
        return {choices, width, slack};
      case ValleyRule::kLeastSlack:
        return {slack, choices, 0};
      case ValleyRule::kChoicesTimesSlack:
        return {choices * (slack + 1), 0, 0};
      case ValleyRule::kChoicesPerFailure:
        return {choices / failures_[s], slack, 0};
      case ValleyRule::kChoicesTimesSlackPerFailure:
        return {choices * (slack + 1) / failures_[s], 0, 0};
    }
    return {};
  }

  Outcome Finish() {
    offsets_.clear();
    for (std::size_t i = 0; i < records_.size(); ++i) {
      offsets_.push_back(Bytes::Of(skyline_.lowest(static_cast<Record>(i))));
    }
    return Outcome::kFound;
  }

  std::span<const UsageRecord> records_;
  const SectionMap& map_;
  Skyline skyline_;
  const std::vector<std::optional<Record>> twins_;
  std::vector<double> urgency_, rank_;  // By record.
  std::vector<std::uint32_t> choices_;  // By section: records that may lie on its floor.
  std::vector<double> failures_;        // By section.
  ValleyRule rule_{};
  RefutedStates refuted_;
  std::vector<Frame> frames_;
  std::vector<Record> pool_;
  std::vector<Bytes> offsets_;
};

OffsetSearch::OffsetSearch(std::span<const UsageRecord> records, const SectionMap& map)
    : impl_(std::make_unique<Impl>(records, map)) {}

OffsetSearch::~OffsetSearch() = default;

OffsetSearch::Outcome OffsetSearch::Run(Bytes capacity, const SearchRules& rules,
                                        const Limits& limits) {
  return impl_->Run(capacity, rules, limits);
}

const std::vector<Bytes>& OffsetSearch::offsets() const { return impl_->offsets(); }
std::uint64_t OffsetSearch::work() const { return impl_->work(); }
const std::vector<double>& OffsetSearch::failures() const { return impl_->failures(); }
void OffsetSearch::set_failures(std::vector<double> failures) {
  impl_->set_failures(std::move(failures));
}

}  // namespace sluice
