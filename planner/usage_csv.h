// planner/usage_csv.h
//
// Usage records and plans as text, in the form that planners exchange:
//
//   id,lower,upper,size[,alignment][,offset]
//   conv1,0,2,4816896
//
// `lower` and `upper` are steps, upper exclusive; sizes, alignments and offsets are bytes. Columns
// may come in any order; others are ignored. In a problem, an offset fixes the record there.
//
// Threads: pure functions, callable from anywhere.

#ifndef SLUICE_PLANNER_USAGE_CSV_H_
#define SLUICE_PLANNER_USAGE_CSV_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/bytes.h"
#include "planner/usage_record.h"

namespace sluice {

struct NamedRecords {
  std::vector<std::string> ids;  // By record, as written.
  std::vector<UsageRecord> records;
};

// The alignment of records that name none is a byte.
// Fails: INVALID_ARGUMENT, naming the line, what was found and what was wanted.
absl::StatusOr<NamedRecords> ParseUsageCsv(std::string_view text);

// The same columns, with alignment where one is above a byte, and the offset. Commas and line ends
// in an id become underscores.
std::string FormatUsageCsv(const NamedRecords& problem, std::span<const Bytes> offsets);

}  // namespace sluice

#endif  // SLUICE_PLANNER_USAGE_CSV_H_
