// EvidenceRequest: the task of the evidence helper, as data and as the words of its command line.
#pragma once

#include "common/base/ids.h"
#include "common/base/result.h"
#include "launcher/evidence/flight_recorder.h"

#include <string>
#include <vector>

namespace xpurun::launcher {

// First word of the helper's command line: xpurun itself in another role. Not an option of xpurun.
inline constexpr std::string_view kEvidenceRole = "--collect-evidence";

struct EvidenceRequest {
  std::string directory;          // absolute, of the dump or the run; exists when the helper starts
  std::vector<FlightRank> ranks;  // ranks to request Flight Recorder dumps from; empty: none
  double limit_s = 20;            // seconds for all sources together
  uint64_t since_us = 0;          // start of the run, CLOCK_MONOTONIC; older kernel messages are ignored
  std::string nvml;               // path of the library; empty: the driver's
  bool kernel_only = false;       // nothing but the kernel's log
};

std::vector<std::string> evidence_words(const EvidenceRequest& request);
base::Result<EvidenceRequest> parse_evidence_words(const std::vector<std::string>& words);

}  // namespace xpurun::launcher
