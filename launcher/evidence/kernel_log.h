// The kernel log: selects the relevant lines, and reads them from /dev/kmsg or, if that is missing, from
// syslog(2).
#pragma once

#include "common/model/evidence/evidence_manifest.h"
#include "common/model/evidence/kernel_events.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace xpurun::launcher {

// Parses a line about an OOM kill, an XID or a hung task; empty for any other line. `text` has no prefix.
// at_s stays 0. Pure.
std::optional<model::KernelEvent> kernel_event(std::string_view text);

struct KernelLog {
  model::EvidenceStatus status = model::EvidenceStatus::ok;
  std::string reason;
  model::KernelEvents events;
};

// A moment of CLOCK_MONOTONIC on the clock of the kernel's log, which NTP does not slew: on a host that has
// been up for months, the two differ by minutes.
uint64_t on_log_clock(uint64_t monotonic_us);

// Events since `since_us` (microseconds on the log's clock), with times in seconds after it. Never blocks.
// `device` is /dev/kmsg except in tests.
KernelLog read_kernel_log(uint64_t since_us, const std::string& device = "/dev/kmsg");

}  // namespace xpurun::launcher
