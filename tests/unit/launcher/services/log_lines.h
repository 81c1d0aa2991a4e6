// The lines of xpurun.log while it lives.
#pragma once

#include "common/base/output/log.h"

#include <string>
#include <string_view>

namespace xpurun::test {

class LogLines {
 public:
  LogLines() {
    base::log_to([this](std::string_view line) { text_ += line; });
    base::log_to_stderr(base::LogLevel::off);
  }
  ~LogLines() {
    base::log_to({});
    base::log_to_stderr(base::LogLevel::warn);
  }
  LogLines(const LogLines&) = delete;
  LogLines& operator=(const LogLines&) = delete;

  const std::string& text() const { return text_; }
  bool have(std::string_view piece) const { return text_.find(piece) != std::string::npos; }
  void clear() { text_.clear(); }

 private:
  std::string text_;
};

}  // namespace xpurun::test
