// Supervisor: timing. Gives ranks their shared memory when they first use a GPU, drains it, and serves what
// it says. Metrics are served as soon as a rank is known, with or without a GPU.
#include "common/base/output/log.h"
#include "launcher/collect/ledger_findings.h"
#include "launcher/collect/timing_json.h"
#include "launcher/metrics/exposition.h"
#include "launcher/supervise/supervisor.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <cstdlib>
#include <utility>

namespace xpurun::launcher {

namespace {

constexpr double kDrainS = 0.1;
// So many segments, a megabyte each, before those of dead processes are given up.
constexpr size_t kCrowd = 200;

std::string environment_or(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (const char* value = std::getenv(name); value != nullptr && *value != '\0') {
      return value;
    }
  }
  return "";
}

}  // namespace

void Supervisor::start_metrics() {
  if (options_.metrics_port == kNoPort || std::exchange(metrics_begun_, true)) {
    return;
  }
  const bool asked_for = options_.metrics_port > 0;
  if (const auto listening = http_.listen(asked_for ? options_.metrics_port : kMetricsPort); !listening) {
    const std::string why = base::to_line(listening.error());
    asked_for ? base::log_warn("no /metrics: {}", why) : base::log_info("no /metrics: {}", why);
    return;
  }
  journal_.manifest().metrics = fmt::format("http://127.0.0.1:{}/metrics", http_.port());
  base::log_info("metrics at {}", journal_.manifest().metrics);
  if (options_.verbosity >= 0 && asked_for) {
    say(fmt::format("metrics at {}", journal_.manifest().metrics));
  }
  journal_.changed();
}

void Supervisor::attach_notice(base::Pid pid) {
  if (finishing_) {
    notices_.answer_attach(pid, -1);
    return;
  }
  const bool first = collector_.empty();
  if (collector_.pids().size() >= kCrowd) {
    // A job that restarts its ranks for days.
    for (const base::Pid old : collector_.pids()) {
      const TrackedProcess* p = table_.find(old);
      if (p == nullptr || !p->alive) {
        collector_.forget(old);
      }
    }
  }
  const auto descriptor = collector_.attach(pid);
  if (!descriptor) {
    base::log_warn("pid {} is not timed: {}", pid, base::to_line(descriptor.error()));
    notices_.answer_attach(pid, -1);
    return;
  }
  notices_.answer_attach(pid, *descriptor);
  collector_.sent(pid);
  base::log_debug("pid {} uses a GPU and is timed from now on", pid);
  if (table_.find(pid) == nullptr) {
    discover();
  }
  if (first) {
    start_metrics();
    drain_timing();
  }
}

void Supervisor::drain_timing() {
  const base::MonoNs now = base::mono_ns();
  collector_.drain(now);
  event_files_.flush(now);
  look_after_trace();
  if (!finished_) {
    loop_.after(kDrainS, [this] { drain_timing(); });
  }
}

NodeMetrics Supervisor::node_metrics(WhichRanks which) {
  NodeMetrics node{.version = XPURUN_VERSION,
                   .host = host_,
                   .job = environment_or({"ENV_ARGO_WORKFLOW_NAME", "SLURM_JOB_NAME", "SLURM_JOB_ID"}),
                   .pod = environment_or({"POD_NAME"}),
                   .ip = environment_or({"POD_IP"}),
                   .dumping = dump_ != nullptr,
                   .last_dump_s = last_dump_s_,
                   .shapes = options_.shape_metrics,
                   .peaks = options_.peaks,
                   .ranks = {}};
  const base::MonoNs now = base::mono_ns();
  std::map<base::Rank, RankMetrics> ranks;
  const auto add = [&](const TrackedProcess& p) {
    const auto watch = watches_.find(p.record.pid);
    const bool still = watch != watches_.end() && options_.hang_timeout_s > 0 &&
                       watch->second.still_s(now) >= options_.hang_timeout_s;
    ranks[p.record.rank] = {
        .rank = p.record.rank,
        .local_rank = p.record.local_rank,
        .hung = journal_.open_incident() != nullptr && still,
        .still_s = watch != watches_.end() ? watch->second.still_s(now) : -1,
        .events_unwritten = event_files_.failed(p.record.rank),
        .timing = collector_.read({p.record.pid, p.record.rank, p.record.local_rank, p.alive})};
  };
  if (which == WhichRanks::all) {
    for (const base::Pid pid : collector_.pids()) {
      const TrackedProcess* p = table_.find(pid);
      if (p != nullptr && p->record.role == model::ProcessRole::rank) {
        add(*p);
      }
    }
  }
  for (const TrackedProcess* p : table_.living_ranks()) {
    add(*p);
  }
  for (auto& [rank, metrics] : ranks) {
    node.ranks.push_back(metrics);
  }
  return node;
}

HttpResponse Supervisor::answer_http(const HttpRequest& request) {
  if (request.method != "GET" && request.method != "HEAD") {
    return {.status = 405, .body = "GET /metrics or GET /healthz\n"};
  }
  if (request.path == "/healthz") {
    return {.body = "ok\n"};
  }
  if (request.path != "/metrics") {
    return {.status = 404, .body = "there are /metrics and /healthz\n"};
  }
  const std::string* accept = request.header("accept");
  const bool open = accept != nullptr && accept->find("application/openmetrics-text") != std::string::npos;
  const MetricsFormat format = open ? MetricsFormat::openmetrics : MetricsFormat::prometheus;
  return {.content_type = std::string(content_type(format)),
          .body = expose(node_metrics(WhichRanks::living), format)};
}

// With every dump: what the ranks' ledgers said at that moment.
std::vector<std::string> Supervisor::save_timing(const std::string& path) {
  std::vector<std::string> sentences;
  if (collector_.empty()) {
    return sentences;
  }
  std::vector<RankTiming> ranks;
  for (const base::Pid pid : collector_.pids()) {
    const TrackedProcess* p = table_.find(pid);
    if (p != nullptr && p->record.role == model::ProcessRole::rank) {
      ranks.push_back(*collector_.read({pid, p->record.rank, p->record.local_rank, p->alive}));
    }
  }
  const auto text = timing_json(ranks, base::mono_ns()).dump(1);
  storage_.replace(path, text);
  for (const LedgerFinding& finding : ledger_findings(ranks)) {
    sentences.push_back(finding.sentence);
  }
  return sentences;
}

// metrics.prom: what a scrape at the very end would have given, of ranks that have ended too.
void Supervisor::finish_timing() {
  if (collector_.empty()) {
    end_trace("end of the run");
    return;
  }
  collector_.drain(base::mono_ns());
  end_trace("end of the run");
  event_files_.flush_all();
  (void)save_timing(journal_.dir().file("timing.json"));
  storage_.replace(journal_.dir().file("metrics.prom"),
                   expose(node_metrics(WhichRanks::all), MetricsFormat::prometheus));
}

uint32_t Supervisor::budget_ppm() const {
  return static_cast<uint32_t>(std::lround(options_.overhead_budget * 1e6));
}

}  // namespace xpurun::launcher
