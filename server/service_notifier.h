// server/service_notifier.h
//
// What systemd is told (sd_notify). Does nothing where no service manager listens.

#ifndef SLUICE_SERVER_SERVICE_NOTIFIER_H_
#define SLUICE_SERVER_SERVICE_NOTIFIER_H_

#include <optional>
#include <string>

#include "base/clock.h"

namespace sluice {

// Threads: callable from anywhere.
class ServiceNotifier {
 public:
  void Ready(const std::string& status) const;
  void Status(const std::string& status) const;
  void Reloading() const;
  void Stopping() const;
  void Watchdog() const;
  // Start or stop takes longer: asks for so much more time.
  void ExtendTimeout(Duration more) const;

  // How often the watchdog wants to hear of us; nullopt when there is none.
  std::optional<Duration> watchdog_interval() const;
};

}  // namespace sluice

#endif  // SLUICE_SERVER_SERVICE_NOTIFIER_H_
