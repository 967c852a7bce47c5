#include "server/grpc_log.h"

#include <grpc/support/log.h>
#include <spdlog/spdlog.h>

#include <string>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/mutex.h"

namespace sluice {
namespace {

void Log(gpr_log_func_args* line) {
  static Mutex mutex;
  static LogLimit limit ABSL_GUARDED_BY(mutex);
  if (line->severity != GPR_LOG_SEVERITY_ERROR) return;
  std::optional<std::uint64_t> left_out;
  {
    MutexLock lock(mutex);
    left_out = limit.Admit(SteadyClock().Now());
  }
  if (!left_out) return;
  if (*left_out > 0) spdlog::warn("gRPC: {} lines were left out", *left_out);
  spdlog::warn("gRPC: {}", line->message);
}

}  // namespace

std::optional<std::uint64_t> LogLimit::Admit(Instant now) {
  if (!begin_ || now - *begin_ >= kInterval) {
    begin_ = now;
    admitted_ = 0;
  }
  if (admitted_ == kMost) {
    ++left_out_;
    return std::nullopt;
  }
  ++admitted_;
  return std::exchange(left_out_, 0);
}

void RouteGrpcLog() { gpr_set_log_function(&Log); }

}  // namespace sluice
