#include "model/onnx/unsupported_list.h"

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace sluice {
namespace {

constexpr std::size_t kPlacesShown = 3;
constexpr std::size_t kEntriesShown = 100;

}  // namespace

void UnsupportedList::Add(const std::string& what, const std::string& where) {
  Places& places = entries_[what];
  ++places.count;
  if (places.first.size() < kPlacesShown) places.first.push_back(where);
}

absl::Status UnsupportedList::ToStatus() const {
  std::vector<std::string> lines;
  for (const auto& [what, places] : entries_) {
    if (lines.size() == kEntriesShown) break;
    lines.push_back(absl::StrFormat("%s (%d: \"%s\"%s)", what, places.count,
                                    absl::StrJoin(places.first, "\", \""),
                                    places.count > places.first.size() ? ", ..." : ""));
  }
  return absl::UnimplementedError(absl::StrFormat("%d things are not supported: %s%s",
                                                  entries_.size(), absl::StrJoin(lines, "; "),
                                                  entries_.size() > lines.size() ? "; ..." : ""));
}

std::vector<UnsupportedThing> UnsupportedList::things() const {
  std::vector<UnsupportedThing> things;
  for (const auto& [what, places] : entries_) {
    things.push_back({.what = what, .count = places.count, .places = places.first});
  }
  return things;
}

}  // namespace sluice
