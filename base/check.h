// base/check.h
//
// SLUICE_CHECK(condition): guards what only a bug of ours can break. Stays on in release; prints
// the place and aborts. Never reachable from bytes off a socket or a disk.

#ifndef SLUICE_BASE_CHECK_H_
#define SLUICE_BASE_CHECK_H_

#include <cstdio>
#include <cstdlib>

namespace sluice::internal {

[[noreturn]] inline void CheckFailed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "%s:%d: check failed: %s\n", file, line, condition);
  std::abort();
}

}  // namespace sluice::internal

#define SLUICE_CHECK(condition)                                          \
  (__builtin_expect(!(condition), 0)                                     \
       ? ::sluice::internal::CheckFailed(#condition, __FILE__, __LINE__) \
       : static_cast<void>(0))

#endif  // SLUICE_BASE_CHECK_H_
