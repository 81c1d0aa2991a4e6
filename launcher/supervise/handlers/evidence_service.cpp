#include "launcher/supervise/handlers/evidence_service.h"

#include <algorithm>

namespace xpurun::launcher {

namespace {
// Evidence of a death comes from the driver and the kernel only, and the caller waits for the exit status.
constexpr double kOfADeathS = 3;
constexpr double kAfterTheEndS = 1;
}  // namespace

std::optional<EvidenceRequest> EvidenceService::request_for(const model::DumpManifest& dump,
                                                            const std::string& directory) const {
  const bool stall = dump.why == model::DumpReason::hang;
  const bool failure = dump.why == model::DumpReason::crash || dump.why == model::DumpReason::death;
  const double limit_s = parts_.options.evidence_timeout_s;
  if ((!stall && !failure) || limit_s <= 0) {
    return std::nullopt;
  }
  EvidenceRequest request{.directory = directory,
                          .limit_s = failure ? std::min(limit_s, kOfADeathS) : limit_s,
                          .since_us = static_cast<uint64_t>(parts_.journal.started() / 1000)};
  for (const TrackedProcess* p : parts_.table.living()) {
    // A rank that has crashed is held in its signal handler or gone, so it cannot answer.
    const bool can_answer = stall || p->record.rank != dump.trigger_rank;
    if (can_answer && p->record.role == model::ProcessRole::rank && p->record.rank >= 0) {
      request.ranks.push_back({.rank = p->record.rank, .pid = p->record.pid});
    }
  }
  return request;
}

void EvidenceService::dump_begun(const model::DumpManifest& dump, const std::string& directory) {
  if (const auto request = request_for(dump, directory)) {
    job_.start(*request, [this, stall = dump.why == model::DumpReason::hang] { collected_(stall); });
  }
}

void EvidenceService::command_ended() {
  job_.hurry(kAfterTheEndS);
}

}  // namespace xpurun::launcher
