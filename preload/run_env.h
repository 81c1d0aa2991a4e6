// What the supervisor tells the preload: the variable wire::kRunEnv. Anything that does not parse means that
// this process is none of our business. Called once, from the constructor.
#pragma once

#include <stdint.h>
#include <sys/types.h>
#include <sys/un.h>

namespace xpurun::preload {

struct RunEnv {
  pid_t supervisor = 0;        // 0: no supervisor, stay off
  uint32_t crash_wait_ms = 0;  // how long a dying process may be held
  sockaddr_un socket{};        // where notices go
};

// nullptr and malformed text give a RunEnv whose supervisor is 0.
RunEnv parse_run_env(const char* text);

}  // namespace xpurun::preload
