// The variable wire::kRunEnv, in which the supervisor gives the preload library the address for its reports.
// If it does not parse, the library stays off. Called once, from the constructor.
#pragma once

#include <stdint.h>
#include <sys/types.h>
#include <sys/un.h>

namespace xpurun::preload {

struct RunEnv {
  pid_t supervisor = 0;        // 0: no supervisor
  uint32_t crash_wait_ms = 0;  // longest wait of a dying process for its dump
  sockaddr_un socket{};        // the socket for notices
};

// nullptr and malformed text give a RunEnv whose supervisor is 0.
RunEnv parse_run_env(const char* text);

}  // namespace xpurun::preload
