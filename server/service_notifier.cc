#include "server/service_notifier.h"

#include <systemd/sd-daemon.h>

#include <cstdint>

#include "absl/strings/str_format.h"

namespace sluice {
namespace {

void Send(const std::string& state) { (void)sd_notify(0, state.c_str()); }

std::int64_t Microseconds(Duration duration) {
  return std::chrono::duration_cast<std::chrono::microseconds>(duration).count();
}

}  // namespace

void ServiceNotifier::Ready(const std::string& status) const {
  Send(absl::StrFormat("READY=1\nSTATUS=%s", status));
}

void ServiceNotifier::Status(const std::string& status) const {
  Send(absl::StrFormat("STATUS=%s", status));
}

void ServiceNotifier::Reloading() const {
  // libstdc++'s steady clock is CLOCK_MONOTONIC, the clock that systemd means.
  const Duration now = SteadyClock().Now().time_since_epoch();
  Send(absl::StrFormat("RELOADING=1\nMONOTONIC_USEC=%d\nSTATUS=Reloading", Microseconds(now)));
}

void ServiceNotifier::Stopping() const { Send("STOPPING=1\nSTATUS=Draining"); }

void ServiceNotifier::Watchdog() const { Send("WATCHDOG=1"); }

void ServiceNotifier::ExtendTimeout(Duration more) const {
  Send(absl::StrFormat("EXTEND_TIMEOUT_USEC=%d", Microseconds(more)));
}

std::optional<Duration> ServiceNotifier::watchdog_interval() const {
  std::uint64_t microseconds = 0;
  if (sd_watchdog_enabled(0, &microseconds) <= 0) return std::nullopt;
  return std::chrono::microseconds(static_cast<std::int64_t>(microseconds));
}

}  // namespace sluice
