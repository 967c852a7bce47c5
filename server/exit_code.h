// server/exit_code.h
//
// Exit codes of the program; docs/configuration.md lists them.

#ifndef SLUICE_SERVER_EXIT_CODE_H_
#define SLUICE_SERVER_EXIT_CODE_H_

namespace sluice {

enum class ExitCode {
  kOk = 0,
  kFailure = 1,
  kUsage = 2,
  kConfiguration = 3,
  kUnavailable = 4,
  kBudget = 5,
};

}  // namespace sluice

#endif  // SLUICE_SERVER_EXIT_CODE_H_
