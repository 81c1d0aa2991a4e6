#include "common/base/log.h"

#include <spdlog/logger.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <memory>

namespace xpurun::base {

namespace {

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::debug:
      return spdlog::level::debug;
    case LogLevel::info:
      return spdlog::level::info;
    case LogLevel::warn:
      return spdlog::level::warn;
    case LogLevel::error:
      return spdlog::level::err;
    case LogLevel::off:
      break;
  }
  return spdlog::level::off;
}

spdlog::logger& logger() {
  // Leaked on purpose: usable from destructors of static objects.
  static auto* instance = [] {
    auto sink = std::make_shared<spdlog::sinks::stderr_sink_st>();
    sink->set_pattern("xpurun: %l: %v");
    sink->set_level(spdlog::level::warn);
    auto* l = new spdlog::logger("xpurun", sink);
    l->set_level(spdlog::level::warn);
    return l;
  }();
  return *instance;
}

}  // namespace

void log_to_stderr(LogLevel level) {
  auto& l = logger();
  l.sinks().front()->set_level(to_spdlog(level));
  if (to_spdlog(level) < l.level()) {
    l.set_level(to_spdlog(level));
  }
}

void log_to_file(const std::string& path) {
  auto& l = logger();
  try {
    auto sink = std::make_shared<spdlog::sinks::basic_file_sink_st>(path);
    sink->set_pattern("%Y-%m-%dT%H:%M:%S.%e %l %v");
    l.sinks().push_back(sink);
    l.set_level(spdlog::level::debug);
    l.flush_on(spdlog::level::debug);
  } catch (const spdlog::spdlog_ex& e) {
    log_write(LogLevel::warn, fmt::format("no log file: {}", e.what()));
  }
}

bool log_enabled(LogLevel level) {
  return logger().should_log(to_spdlog(level));
}

void log_write(LogLevel level, std::string_view text) {
  logger().log(to_spdlog(level), spdlog::string_view_t(text.data(), text.size()));
}

}  // namespace xpurun::base
