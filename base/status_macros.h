// base/status_macros.h
//
// Passing an error on, in one line:
//   SLUICE_RETURN_IF_ERROR(Flush());
//   SLUICE_ASSIGN_OR_RETURN(const Package package, OpenPackage(path));

#ifndef SLUICE_BASE_STATUS_MACROS_H_
#define SLUICE_BASE_STATUS_MACROS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define SLUICE_RETURN_IF_ERROR(expression)         \
  do {                                             \
    absl::Status sluice_status = (expression);     \
    if (!sluice_status.ok()) return sluice_status; \
  } while (false)

#define SLUICE_ASSIGN_OR_RETURN(declaration, expression) \
  SLUICE_ASSIGN_OR_RETURN_AT(SLUICE_UNIQUE_NAME(sluice_or_, __LINE__), declaration, expression)

// Parentheses around a declaration would make it another one.
// NOLINTBEGIN(bugprone-macro-parentheses)
#define SLUICE_ASSIGN_OR_RETURN_AT(result, declaration, expression) \
  auto result = (expression);                                       \
  if (!result.ok()) return std::move(result).status();              \
  declaration = *std::move(result)
// NOLINTEND(bugprone-macro-parentheses)

#define SLUICE_UNIQUE_NAME(a, b) SLUICE_UNIQUE_NAME_JOIN(a, b)
#define SLUICE_UNIQUE_NAME_JOIN(a, b) a##b

#endif  // SLUICE_BASE_STATUS_MACROS_H_
