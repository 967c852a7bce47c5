// server/log_format.h
//
// Logs go to stderr: for people with time and level, for journald with its priority prefix.

#ifndef SLUICE_SERVER_LOG_FORMAT_H_
#define SLUICE_SERVER_LOG_FORMAT_H_

#include <string>

namespace sluice {

// Replaces the process's default logger.
void SetUpLog();
// Requires: a level of config.h.
void SetLogLevel(const std::string& level);

}  // namespace sluice

#endif  // SLUICE_SERVER_LOG_FORMAT_H_
