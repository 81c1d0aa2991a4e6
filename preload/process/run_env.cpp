#include "preload/process/run_env.h"

#include "common/wire/notice.h"

#include <string.h>
#include <sys/socket.h>

namespace xpurun::preload {

namespace {

// One hour. A longer wait is a mistake, and adding it to a time in ns must not overflow.
constexpr uint32_t kMaxCrashWaitMs = 3'600'000;
constexpr uint32_t kMaxPid = 0x7fffffff;

struct Number {
  bool ok = false;
  uint32_t value = 0;
  const char* rest = nullptr;  // the text after the colon that ends the number
};

// Digits, at least one, then a colon; no sign, no blank, nothing above `limit`.
Number parse_number(const char* text, uint32_t limit) {
  uint64_t value = 0;
  const char* at = text;
  for (; *at >= '0' && *at <= '9'; ++at) {
    value = value * 10 + static_cast<uint64_t>(*at - '0');
    if (value > limit) {
      return {};
    }
  }
  if (at == text || *at != ':') {
    return {};
  }
  return {true, static_cast<uint32_t>(value), at + 1};
}

}  // namespace

RunEnv parse_run_env(const char* text) {
  if (text == nullptr) {
    return {};
  }
  const Number version = parse_number(text, wire::kNoticeVersion);
  if (!version.ok || version.value != wire::kNoticeVersion) {
    return {};
  }
  const Number pid = parse_number(version.rest, kMaxPid);
  if (!pid.ok || pid.value == 0) {
    return {};
  }
  const Number wait = parse_number(pid.rest, kMaxCrashWaitMs);
  if (!wait.ok) {
    return {};
  }
  RunEnv env;
  const size_t length = strlen(wait.rest);
  if (wait.rest[0] != '/' || length >= sizeof(env.socket.sun_path)) {
    return {};
  }
  env.supervisor = static_cast<pid_t>(pid.value);
  env.crash_wait_ms = wait.value;
  env.socket.sun_family = AF_UNIX;
  memcpy(env.socket.sun_path, wait.rest, length + 1);
  return env;
}

}  // namespace xpurun::preload
