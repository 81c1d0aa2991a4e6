// Logging to <run directory>/xpurun.log, through the writer of that file, and, at the chosen level, to
// standard error. Messages below the active level are not formatted. Hides spdlog. Messages that are part of
// the product are printed, not logged. Thread rule: one thread only; the supervisor is single-threaded.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace xpurun::base {

enum class LogLevel { debug, info, warn, error, off };

// By default warnings and errors go to standard error.
void log_to_stderr(LogLevel level);
// Redirects the lines for standard error to `write`. They end with a newline. An empty function restores
// direct writes.
void log_stderr_through(std::function<void(std::string_view)> write);
// Adds a sink for all levels from debug on. It gets whole lines that end in a newline, and must not log. An
// empty function removes the sink.
void log_to(std::function<void(std::string_view)> sink);

bool log_enabled(LogLevel level);
void log_write(LogLevel level, std::string_view text);

template <typename... Args>
void log(LogLevel level, fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(level)) {
    log_write(level, fmt::format(format, std::forward<Args>(args)...));
  }
}
template <typename... Args>
void log_debug(fmt::format_string<Args...> format, Args&&... args) {
  log(LogLevel::debug, format, std::forward<Args>(args)...);
}
template <typename... Args>
void log_info(fmt::format_string<Args...> format, Args&&... args) {
  log(LogLevel::info, format, std::forward<Args>(args)...);
}
template <typename... Args>
void log_warn(fmt::format_string<Args...> format, Args&&... args) {
  log(LogLevel::warn, format, std::forward<Args>(args)...);
}

}  // namespace xpurun::base
