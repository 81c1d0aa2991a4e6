#include "common/base/output/log.h"

#include "common/base/os/io.h"
#include "common/base/strings.h"

#include <spdlog/details/null_mutex.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <memory>
#include <unistd.h>
#include <utility>

namespace xpurun::base {

namespace {

class FunctionSink final : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
 public:
  explicit FunctionSink(std::function<void(std::string_view)> take) : take_(std::move(take)) {}

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    take_(std::string_view(line.data(), line.size()));
  }
  void flush_() override {}

 private:
  std::function<void(std::string_view)> take_;
};

// Writes to standard error until log_stderr_through() names another writer.
class ErrorSink : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
 public:
  std::function<void(std::string_view)> write;

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    const std::string_view text(line.data(), line.size());
    if (write) {
      write(text);
    } else {
      (void)write_all(STDERR_FILENO, text);
    }
  }
  void flush_() override {}
};

ErrorSink& error_sink() {
  static auto* instance = new ErrorSink;
  return *instance;
}

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
  // Leaked on purpose, so that destructors of static objects can log.
  static auto* instance = [] {
    // Leaked with the logger, which must not free the sink.
    auto sink = std::shared_ptr<ErrorSink>(&error_sink(), [](ErrorSink*) {});
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

void log_to(std::function<void(std::string_view)> sink) {
  auto& l = logger();
  l.sinks().resize(1);
  if (sink) {
    auto added = std::make_shared<FunctionSink>(std::move(sink));
    added->set_pattern("%Y-%m-%dT%H:%M:%S.%e %l %v");
    l.sinks().push_back(added);
    l.set_level(spdlog::level::debug);
  }
}

void log_stderr_through(std::function<void(std::string_view)> write) {
  (void)logger();
  error_sink().write = std::move(write);
}

bool log_enabled(LogLevel level) {
  return logger().should_log(to_spdlog(level));
}

void log_write(LogLevel level, std::string_view text) {
  const std::string safe = sanitize(text);
  logger().log(to_spdlog(level), spdlog::string_view_t(safe.data(), safe.size()));
}

}  // namespace xpurun::base
