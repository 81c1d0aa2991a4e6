#include "launcher/supervise/handlers/evidence_service.h"

#include <algorithm>
#include <csignal>
#include <vector>

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
    latest_s_ = parts_.journal.elapsed_s();
    job_.start(*request, [this, stall = dump.why == model::DumpReason::hang] { collected_(stall); });
  }
}

bool EvidenceService::lacks_evidence() const {
  const std::vector<model::ProcessRecord> all = parts_.table.records();
  return std::any_of(all.begin(), all.end(), [this](const model::ProcessRecord& p) {
    return p.death.happened && p.death.wait_status.signal() == SIGKILL && p.death.cause_hint.empty() &&
           !p.death.follower && p.death.at_s > latest_s_;
  });
}

void EvidenceService::command_ended(const std::string& directory) {
  if (job_.busy() || parts_.options.evidence_timeout_s <= 0 || !lacks_evidence()) {
    job_.hurry(kAfterTheEndS);
    return;
  }
  // Only the kernel may know why.
  job_.start({.directory = directory,
              .limit_s = std::min(parts_.options.evidence_timeout_s, kAfterTheEndS),
              .since_us = static_cast<uint64_t>(parts_.journal.started() / 1000),
              .kernel_only = true},
             [this] { collected_(false); });
}

}  // namespace xpurun::launcher
