// server/verbs.h
//
// The verbs of the program: `sluiced inspect`, `compile` and `plan` (docs/sluiced.md).

#ifndef SLUICE_SERVER_VERBS_H_
#define SLUICE_SERVER_VERBS_H_

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>

namespace sluice {

class Verbs {
 public:
  // Adds the verbs to the command line. Borrows it.
  explicit Verbs(CLI::App& app);
  ~Verbs();

  // After parsing: runs the verb that was given, and returns the program's exit code; nullopt when
  // none was. Starts the program once more first, as RestartWithEnvironment does.
  std::optional<int> Run(char** argv);

 private:
  struct Arguments;
  std::unique_ptr<Arguments> arguments_;
};

}  // namespace sluice

#endif  // SLUICE_SERVER_VERBS_H_
