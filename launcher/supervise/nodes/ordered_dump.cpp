#include "launcher/supervise/nodes/ordered_dump.h"

#include "common/base/output/log.h"

#include <algorithm>

namespace xpurun::launcher {

namespace {

// Time for writing the files of a dump, before the helper reads them.
constexpr double kFilesS = 2;
// A rank's failure may be covered by the dump that its node has just taken.
constexpr double kFreshDumpS = 3;
// After a failure on any node, ranks whose connections broke end within this time of each other.
constexpr double kQuietS = 2;
// Ranks that take longer than this are not waited for.
constexpr double kLongestStoryS = 5;

model::DumpReason dump_reason(ClaimReason why) {
  switch (why) {
    case ClaimReason::hang:
      return model::DumpReason::hang;
    case ClaimReason::crash:
    case ClaimReason::death:
      return model::DumpReason::death;
    case ClaimReason::request:
      break;
  }
  return model::DumpReason::request;
}

}  // namespace

void OrderedDump::take(const DumpMessage& order, bool escalated) {
  base::log_info("a dump of all nodes, asked for by {}: {}", order.node, model::name_of(order.why));
  settling_.stop();
  request_ = order.request;
  directory_.clear();
  sent_ = false;
  of_failure_ = is_failure(order.why);
  ordered_ = parts_.loop.now();
  last_death_ = 0;
  DumpRequest wanted{
      .why = dump_reason(order.why),
      .trigger = order.ranks.empty() ? base::kNoRank : order.ranks.front(),
      .escalated = order.why == ClaimReason::hang && escalated,
      .reply = [this, request = order.request](const std::string& dir, size_t) { done(request, dir); }};
  if (of_failure_) {
    parts_.dumps.request_or_share(std::move(wanted), kFreshDumpS);
  } else {
    parts_.dumps.request(std::move(wanted));
  }
}

void OrderedDump::done(const std::string& request, const std::string& directory) {
  if (request != request_) {
    return;  // a newer order has replaced this one
  }
  directory_ = directory;
  send_if_ready();
  hooks_.dumped(directory);
}

void OrderedDump::process_died() {
  last_death_ = parts_.loop.now();
  if (!sent_ && !directory_.empty() && of_failure_) {
    wait_for_failures();
  }
}

bool OrderedDump::failures_are_known() const {
  const base::MonoNs now = parts_.loop.now();
  return !of_failure_ || parts_.job.is_recorded() || now >= ordered_ + base::s_to_ns(kLongestStoryS) ||
         now >= std::max(ordered_, last_death_) + base::s_to_ns(kQuietS);
}

void OrderedDump::wait_for_failures() {
  const base::MonoNs end = std::min(ordered_ + base::s_to_ns(kLongestStoryS),
                                    std::max(ordered_, last_death_) + base::s_to_ns(kQuietS));
  settling_.at(end, [this] { send_if_ready(); });
}

// The other nodes also read run.json, so it is saved in its present state first.
void OrderedDump::send_if_ready() {
  if (sent_ || directory_.empty() || hooks_.collecting_evidence()) {
    return;
  }
  if (!failures_are_known()) {
    wait_for_failures();
    return;
  }
  settling_.stop();
  sent_ = true;
  if (!parts_.job.is_recorded()) {
    parts_.journal.manifest().processes = parts_.table.records();
  }
  parts_.journal.save_now();
  parts_.storage.when_written(kFilesS, [this, request = request_, directory = directory_](Written) {
    hooks_.ready(request, directory);
  });
}

}  // namespace xpurun::launcher
