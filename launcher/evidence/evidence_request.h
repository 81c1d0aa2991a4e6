// EvidenceRequest: what the evidence helper is to collect, as data and as the words of its command line.
#pragma once

#include "common/base/ids.h"
#include "common/base/result.h"
#include "launcher/evidence/flight_recorder.h"

#include <string>
#include <vector>

namespace xpurun::launcher {

// First word of the helper's command line: xpurun itself, in another role. No option of xpurun.
inline constexpr std::string_view kEvidenceRole = "--collect-evidence";

struct EvidenceRequest {
  std::string directory;          // of the dump, absolute; exists when the helper starts
  std::vector<FlightRank> ranks;  // asked for their Flight Recorder; empty: no rank is asked
  double limit_s = 20;            // for everything together
  uint64_t since_us = 0;          // start of the run, CLOCK_MONOTONIC: older lines of the kernel do not count
  std::string nvml;               // library; empty: the driver's
};

std::vector<std::string> evidence_words(const EvidenceRequest& request);
base::Result<EvidenceRequest> parse_evidence_words(const std::vector<std::string>& words);

}  // namespace xpurun::launcher
