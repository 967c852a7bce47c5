#include "server/log_format.h"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdlib>
#include <memory>
#include <string_view>
#include <utility>

namespace sluice {
namespace {

// "<6>": syslog's priority, which journald takes from the start of a line.
class PriorityFlag : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&,
              spdlog::memory_buf_t& destination) override {
    const std::string_view prefix = Prefix(message.level);
    destination.append(prefix.data(), prefix.data() + prefix.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<PriorityFlag>();
  }

 private:
  static std::string_view Prefix(spdlog::level::level_enum level) {
    switch (level) {
      case spdlog::level::critical:
        return "<2>";
      case spdlog::level::err:
        return "<3>";
      case spdlog::level::warn:
        return "<4>";
      case spdlog::level::info:
        return "<6>";
      default:
        return "<7>";
    }
  }
};

}  // namespace

void SetUpLog() {
  auto logger = std::make_shared<spdlog::logger>("sluiced",
                                                 std::make_shared<spdlog::sinks::stderr_sink_mt>());
  if (std::getenv("JOURNAL_STREAM") != nullptr) {
    auto formatter = std::make_unique<spdlog::pattern_formatter>();
    formatter->add_flag<PriorityFlag>('*').set_pattern("%*%v");
    logger->set_formatter(std::move(formatter));
  } else {
    logger->set_pattern("%Y-%m-%dT%H:%M:%S.%e %l %v");
  }
  spdlog::set_default_logger(std::move(logger));
}

void SetLogLevel(const std::string& level) { spdlog::set_level(spdlog::level::from_str(level)); }

}  // namespace sluice
