// Writes an instance of a family as CSV: make_instance FAMILY COUNT SEED > INSTANCE.csv

#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "planner/instance_families.h"

namespace {

bool ReadNumber(const char* text, std::uint64_t most, std::uint64_t& number) {
  const char* end = text + std::strlen(text);
  const auto [rest, error] = std::from_chars(text, end, number);
  return error == std::errc() && rest == end && number <= most;
}

}  // namespace

int main(int argc, char** argv) {
  std::uint64_t count = 0, seed = 0;
  const auto family = argc == 4 ? sluice::FindInstanceFamily(argv[1]) : std::nullopt;
  if (!family || !ReadNumber(argv[2], 2'000'000, count) || !ReadNumber(argv[3], ~0ull, seed)) {
    std::fputs("usage: make_instance perfect|loose|training|skip|decoder COUNT SEED\n", stderr);
    return 2;
  }
  std::string text = "id,lower,upper,size\n";
  std::size_t id = 0;
  for (const sluice::UsageRecord& record : sluice::MakeInstance(*family, count, seed)) {
    absl::StrAppendFormat(&text, "%d,%d,%d,%d\n", id++, sluice::Index(record.live.begin),
                          sluice::Index(record.live.end), record.size.count());
  }
  return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() ? 0 : 1;
}
