// client/command.h
//
// What the commands of sluicectl share: their common options, exit codes, and how an answer or an
// error is told.

#ifndef SLUICE_CLIENT_COMMAND_H_
#define SLUICE_CLIENT_COMMAND_H_

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "client/client.h"
#include "nlohmann/json.hpp"

namespace sluice {

using Json = nlohmann::ordered_json;

// Part of the command's contract (docs/sluicectl.md).
enum ExitCode : int {
  kExitOk = 0,
  kExitRefused = 1,      // The daemon answered with an error, or not in time.
  kExitUsage = 2,        // The command line is wrong.
  kExitUnreachable = 3,  // No daemon answers at the address.
  kExitFile = 4,         // A file cannot be read, does not fit the model, or cannot be written.
  kExitNotReady = 5,     // `ready`: the daemon answered that it, or the model, is not ready.
};

struct CommonOptions {
  std::string address;
  double timeout_seconds = 60;  // 0: none.
  bool json = false;
  // Files in PEM form; without an authority, no TLS.
  std::string tls_ca = {}, tls_cert = {}, tls_key = {};
  std::string tls_name = {};
  std::optional<TlsOptions> tls = {};  // Their contents.
};

// Reads the files of TLS. Fails: INVALID_ARGUMENT, NOT_FOUND: one that cannot be read, or is not
// what it should be.
absl::Status ReadTlsFiles(CommonOptions& options);

// SLUICE_ADDRESS, else the socket of the systemd unit where there is one, else 127.0.0.1:8001.
std::string DefaultAddress();

// A client as the options say.
Client Connect(const CommonOptions& options);

// "RESOURCE_EXHAUSTED".
std::string CodeName(absl::StatusCode code);

// Tells the error on stderr, with --json as {"error": {"code", "message"}} on stdout, and returns
// the exit code for it.
ExitCode Fail(const CommonOptions& options, const absl::Status& status);
// Likewise for what is wrong with a file or an argument of the caller's.
ExitCode FailHere(const CommonOptions& options, const absl::Status& status, ExitCode code);

void PrintText(std::string_view text);
void PrintJson(const Json& json);

// Each command prints and returns its exit code.
ExitCode RunStatus(const CommonOptions& options);
ExitCode RunModels(const CommonOptions& options);
ExitCode RunMetadata(const CommonOptions& options, const std::string& model,
                     const std::string& version);

ExitCode RunLoad(const CommonOptions& options, const std::string& model);
ExitCode RunUnload(const CommonOptions& options, const std::string& model);

struct ReadyArguments {
  std::string model;  // Empty: the daemon.
  std::string version;
  double wait_seconds = 0;
};
ExitCode RunReady(const CommonOptions& options, const ReadyArguments& arguments);

}  // namespace sluice

#endif  // SLUICE_CLIENT_COMMAND_H_
