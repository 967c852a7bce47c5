#include "planner/min_cost_assignment.h"

#include <limits>

#include "base/check.h"

namespace sluice {
namespace {

constexpr std::int64_t kFar = std::numeric_limits<std::int64_t>::max() / 4;

// Rows join one at a time; each takes the shortest path, in reduced costs, to a column that nobody
// has, and those on the path move over by one.
class Assignment {
 public:
  using Cost = std::function<std::optional<std::uint64_t>(std::size_t row, std::size_t column)>;

  Assignment(std::size_t rows, std::size_t columns, const Cost& cost)
      : cost_(cost), row_potential_(rows), column_potential_(columns), owner_(columns) {}

  void Join(std::size_t row) {
    const std::size_t columns = owner_.size();
    std::vector<std::int64_t> distance(columns, kFar);
    std::vector<std::optional<std::size_t>> before(columns);  // Column on the path before this.
    std::vector<bool> settled(columns);
    std::size_t at = row;
    std::optional<std::size_t> from;
    std::int64_t reached = 0;
    std::optional<std::size_t> end;
    while (!end) {
      std::optional<std::size_t> nearest;
      for (std::size_t c = 0; c < columns; ++c) {
        if (settled[c]) continue;
        if (const std::optional<std::uint64_t> direct = cost_(at, c)) {
          const std::int64_t length = reached + static_cast<std::int64_t>(*direct) -
                                      row_potential_[at] - column_potential_[c];
          if (length < distance[c]) {
            distance[c] = length;
            before[c] = from;
          }
        }
        if (distance[c] < kFar && (!nearest || distance[c] < distance[*nearest])) nearest = c;
      }
      SLUICE_CHECK(nearest.has_value());
      reached = distance[*nearest];
      settled[*nearest] = true;
      from = nearest;
      if (owner_[*nearest]) {
        at = *owner_[*nearest];
      } else {
        end = nearest;
      }
    }
    row_potential_[row] += reached;
    for (std::size_t c = 0; c < columns; ++c) {
      if (!settled[c] || c == *end) continue;
      row_potential_[*owner_[c]] += reached - distance[c];
      column_potential_[c] -= reached - distance[c];
    }
    for (std::optional<std::size_t> c = end; c; c = before[*c]) {
      owner_[*c] = before[*c] ? owner_[*before[*c]] : std::optional<std::size_t>(row);
    }
  }

  std::vector<std::size_t> Columns() const {
    std::vector<std::size_t> columns(row_potential_.size());
    for (std::size_t c = 0; c < owner_.size(); ++c) {
      if (owner_[c]) columns[*owner_[c]] = c;
    }
    return columns;
  }

 private:
  const Cost& cost_;
  std::vector<std::int64_t> row_potential_, column_potential_;
  std::vector<std::optional<std::size_t>> owner_;  // By column: the row that has it.
};

}  // namespace

std::vector<std::size_t> MinCostAssignment(
    std::size_t rows, std::size_t columns,
    const std::function<std::optional<std::uint64_t>(std::size_t row, std::size_t column)>& cost) {
  Assignment assignment(rows, columns, cost);
  for (std::size_t row = 0; row < rows; ++row) assignment.Join(row);
  return assignment.Columns();
}

}  // namespace sluice
