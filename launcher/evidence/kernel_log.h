// The kernel's log: which lines matter, and reading them from /dev/kmsg or, where that is not there, from
// syslog(2).
#pragma once

#include "common/model/evidence/evidence_manifest.h"
#include "common/model/evidence/kernel_events.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace xpurun::launcher {

// A line that tells of an OOM kill, an XID or a hung task; nothing for any other. `text` is without prefix.
// at_s is left 0. Pure.
std::optional<model::KernelEvent> kernel_event(std::string_view text);

struct KernelLog {
  model::EvidenceStatus status = model::EvidenceStatus::ok;
  std::string reason;
  model::KernelEvents events;
};

// Events since `since_us`, microseconds of CLOCK_MONOTONIC, in seconds after it. Never blocks. `device` is
// /dev/kmsg except in tests.
KernelLog read_kernel_log(uint64_t since_us, const std::string& device = "/dev/kmsg");

}  // namespace xpurun::launcher
