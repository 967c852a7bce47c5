// planner/min_cost_assignment.h
//
// Gives each row a column of its own so that the costs sum up to the least.
//
// Source: H. Kuhn, "The Hungarian method for the assignment problem", 1955, in the form with
// potentials and shortest augmenting paths (R. Jonker, A. Volgenant, 1987).

#ifndef SLUICE_PLANNER_MIN_COST_ASSIGNMENT_H_
#define SLUICE_PLANNER_MIN_COST_ASSIGNMENT_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace sluice {

// By row: its column. `cost(row, column)` is empty where the row cannot have the column.
// Requires: some assignment exists; costs below 2^50.
// Cost:     O(rows^2 * columns) time.
std::vector<std::size_t> MinCostAssignment(
    std::size_t rows, std::size_t columns,
    const std::function<std::optional<std::uint64_t>(std::size_t row, std::size_t column)>& cost);

}  // namespace sluice

#endif  // SLUICE_PLANNER_MIN_COST_ASSIGNMENT_H_
