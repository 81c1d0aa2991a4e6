#include "common/base/log.h"

#include "common/base/strings.h"

#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <cstdio>
#include <fcntl.h>
#include <memory>

namespace xpurun::base {

namespace {

using FileSink = spdlog::sinks::stdout_sink_base<spdlog::details::console_nullmutex>;

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
  // Opened here, not by spdlog: the command must not inherit it, and others must not read it.
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  FILE* file = fd >= 0 ? ::fdopen(fd, "a") : nullptr;
  if (file == nullptr) {
    log_write(LogLevel::warn, fmt::format("no log file {}", path));
    return;
  }
  try {
    // Lives as long as the process.
    auto sink = std::make_shared<FileSink>(file);
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
  const std::string safe = sanitize(text);
  logger().log(to_spdlog(level), spdlog::string_view_t(safe.data(), safe.size()));
}

}  // namespace xpurun::base
