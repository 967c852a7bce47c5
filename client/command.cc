#include "client/command.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_format.h"
#include "base/bytes.h"
#include "base/status_macros.h"
#include "client/file.h"
#include "client/progress.h"

namespace sluice {
namespace {

constexpr char kSocket[] = "/run/sluice/sluice.sock";

Duration ToDuration(double seconds) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

// Authorities of a whole system have some 220 KiB.
constexpr Bytes kMaxPem = 1_MiB;

absl::Status ReadPem(const std::string& path, std::string_view kind, std::string& into) {
  SLUICE_ASSIGN_OR_RETURN(into, ReadFile(path, kMaxPem));
  // "RSA PRIVATE KEY" and the like are keys too.
  const std::size_t begin = into.find("-----BEGIN ");
  const std::size_t end = into.find(absl::StrFormat("%s-----", kind), begin);
  if (begin != std::string::npos && end != std::string::npos) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrFormat("%s: got no \"%s\", want one in PEM form", path, kind));
}

}  // namespace

std::string DefaultAddress() {
  const char* address = std::getenv("SLUICE_ADDRESS");
  if (address != nullptr && *address != '\0') return address;
  std::error_code error;
  if (std::filesystem::is_socket(kSocket, error)) return absl::StrFormat("unix:%s", kSocket);
  return "127.0.0.1:8001";
}

absl::Status ReadTlsFiles(CommonOptions& options) {
  if (options.tls_ca.empty()) return absl::OkStatus();
  options.tls.emplace().name = options.tls_name;
  SLUICE_RETURN_IF_ERROR(ReadPem(options.tls_ca, "CERTIFICATE", options.tls->ca));
  if (options.tls_cert.empty()) return absl::OkStatus();
  SLUICE_RETURN_IF_ERROR(ReadPem(options.tls_cert, "CERTIFICATE", options.tls->certificate));
  return ReadPem(options.tls_key, "PRIVATE KEY", options.tls->key);
}

Client Connect(const CommonOptions& options) {
  ClientOptions client{.timeout = {}, .tls = options.tls};
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
                 "SLUICE_ADDRESS.\n%s",
                 options.tls || options.address.starts_with("unix:")
                     ? ""
                     : "An address that other machines can reach speaks TLS: --tls-ca FILE.\n");
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

ExitCode RunLoad(const CommonOptions& options, const std::string& model) {
  Progress progress(absl::StrFormat("loading %s", model));
  const absl::Status loaded = Connect(options).LoadModel(model);
  progress.Clear();
  if (!loaded.ok()) return Fail(options, loaded);
  if (options.json) {
    PrintJson({{"model", model}, {"loaded", true}});
  } else {
    PrintText(absl::StrFormat("model %s is loaded\n", model));
  }
  return kExitOk;
}

ExitCode RunUnload(const CommonOptions& options, const std::string& model) {
  const absl::Status unloaded = Connect(options).UnloadModel(model);
  if (!unloaded.ok()) return Fail(options, unloaded);
  if (options.json) {
    PrintJson({{"model", model}, {"loaded", false}});
  } else {
    PrintText(absl::StrFormat("model %s is unloaded\n", model));
  }
  return kExitOk;
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
