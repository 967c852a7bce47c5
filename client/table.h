// client/table.h
//
// Text in columns, for people.

#ifndef SLUICE_CLIENT_TABLE_H_
#define SLUICE_CLIENT_TABLE_H_

#include <cstddef>
#include <string>
#include <vector>

namespace sluice {

// Columns as wide as their widest cell, two blanks between; the first `left_columns` are flush
// left, the others flush right. The first row is the head.
class Table {
 public:
  explicit Table(std::vector<std::string> head, std::size_t left_columns = 1);
  // Requires: as many cells as the head has.
  void Add(std::vector<std::string> row);
  std::string Format() const;

 private:
  std::vector<std::vector<std::string>> rows_;
  std::size_t left_columns_;
};

// "12.3 ms", "1.20 s", "85 us"; "-" for zero: nothing was measured.
std::string FormatSeconds(double seconds);

}  // namespace sluice

#endif  // SLUICE_CLIENT_TABLE_H_
