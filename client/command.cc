#include "client/command.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_format.h"
#include "client/progress.h"

namespace sluice {
namespace {

constexpr char kSocket[] = "/run/sluice/sluice.sock";

Duration ToDuration(double seconds) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

}  // namespace

std::string DefaultAddress() {
  const char* address = std::getenv("SLUICE_ADDRESS");
  if (address != nullptr && *address != '\0') return address;
  std::error_code error;
  if (std::filesystem::is_socket(kSocket, error)) return absl::StrFormat("unix:%s", kSocket);
  return "127.0.0.1:8001";
}

Client Connect(const CommonOptions& options) {
  ClientOptions client;
  if (options.timeout_seconds > 0) client.timeout = ToDuration(options.timeout_seconds);
  return Client(options.address, client);
}

std::string CodeName(absl::StatusCode code) { return absl::StatusCodeToString(code); }

ExitCode FailHere(const CommonOptions& options, const absl::Status& status, ExitCode code) {
  const std::string message(status.message());
  if (options.json) {
    PrintJson({{"error", {{"code", CodeName(status.code())}, {"message", message}}}});
  }
  std::fprintf(stderr, "sluicectl: %s\n", message.c_str());
  return code;
}

ExitCode Fail(const CommonOptions& options, const absl::Status& status) {
  if (IsUnreachable(status)) {
    const ExitCode code = FailHere(options, status, kExitUnreachable);
    std::fprintf(stderr,
                 "Is sluiced running? Another address: --address HOST:PORT or unix:/PATH, or "
                 "SLUICE_ADDRESS.\n");
    return code;
  }
  const absl::Status told(status.code(), absl::StrFormat("%s: %s", CodeName(status.code()),
                                                         std::string(status.message())));
  if (options.json) return FailHere(options, status, kExitRefused);
  return FailHere(options, told, kExitRefused);
}

void PrintText(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stdout); }

void PrintJson(const Json& json) {
  PrintText(json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

ExitCode RunReady(const CommonOptions& options, const ReadyArguments& arguments) {
  Client client = Connect(options);
  const std::string what =
      arguments.model.empty() ? "the daemon" : absl::StrFormat("model %s", arguments.model);
  const Instant until = SteadyClock().Now() + ToDuration(arguments.wait_seconds);
  Progress progress(absl::StrFormat("waiting for %s", what));
  while (true) {
    const absl::StatusOr<bool> ready = arguments.model.empty()
                                           ? client.ServerReady()
                                           : client.ModelReady(arguments.model, arguments.version);
    const Instant now = SteadyClock().Now();
    const bool again = ready.ok() ? !*ready
                                  : IsUnreachable(ready.status()) ||
                                        ready.status().code() == absl::StatusCode::kUnavailable;
    if (again && now < until) {
      client.WaitForChange(std::min<Duration>(std::chrono::milliseconds(100), until - now));
      continue;
    }
    progress.Clear();
    if (!ready.ok()) return Fail(options, ready.status());
    if (options.json) {
      Json answer = {{"ready", *ready}};
      if (!arguments.model.empty()) answer["model"] = arguments.model;
      PrintJson(answer);
    } else {
      PrintText(absl::StrFormat("%s is %sready\n", what, *ready ? "" : "not "));
    }
    return *ready ? kExitOk : kExitNotReady;
  }
}

}  // namespace sluice
