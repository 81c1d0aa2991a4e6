// Supervisor: what it shows while the job runs: the line at the bottom of the terminal, the answer to
// "status".
#include "launcher/collect/gpu_time.h"
#include "launcher/collect/op_names.h"
#include "launcher/supervise/supervisor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <signal.h>

namespace xpurun::launcher {

namespace {
// Rare enough to cost nothing, often enough that seconds are seen to pass.
constexpr double kRedrawS = 0.5;
// A job that ends at once shows no line.
constexpr double kFirstDrawS = 1;

// "AllReduce 812 of tp"
std::string collective_text(const CommTotals& comm) {
  const CollectiveSignature& last = comm.last.back();
  wire::OpKey key{};
  key.api = last.api;
  return fmt::format("{} {}{}{}", collective_name(key), last.sequence, comm.name.empty() ? "" : " of ",
                     comm.name);
}

void add_timing(const RankTiming& timing, LiveRank& r) {
  r.flops_per_s = timing.rates.flops_per_s;
  r.collectives_per_s = timing.rates.collectives_per_s;
  r.dropped = timing.health.at("ring_dropped");
  r.untraced_share = estimate_gpu_time(timing.ops).untraced_share();
  uint64_t newest = 0;
  for (const CommTotals& comm : timing.comms) {
    const bool live = comm.state == static_cast<uint32_t>(wire::CommState::live);
    r.outstanding += live && comm.launched > comm.done ? comm.launched - comm.done : 0;
    if (!comm.last.empty() && comm.last_change_ns >= newest) {
      newest = comm.last_change_ns;
      r.last_collective = collective_text(comm);
    }
  }
}
}  // namespace

LiveStatus Supervisor::live_status() {
  const base::MonoNs now = base::mono_ns();
  const model::RunManifest& m = journal_.manifest();
  LiveStatus out{.run = m.id,
                 .host = host_,
                 .command = m.command,
                 .elapsed_s = journal_.elapsed_s(),
                 .hang_timeout_s = options_.hang_timeout_s,
                 .next_check_s = std::max(0.0, base::ns_to_s(next_tick_ - now)),
                 .world_size = table_.world_size(),
                 .timing = std::string(level_name(level_)),
                 .trace = tracing_ ? tracing_->dir : ""};
  if (!m.incidents.empty() && m.incidents.back().cleared_s < 0) {
    out.problem = m.incidents.back().verdict.sentence;
  }
  const auto add = [&](const model::RankObservation& o, bool alive) {
    const RankTiming* timing = collector_.read({o.pid, o.rank, -1, alive});
    LiveRank& r = out.ranks.emplace_back();
    r.rank = o.rank;
    r.pid = o.pid;
    r.state = o.state;
    r.alive = alive;
    r.still_s = o.still_s;
    r.cpu_share = o.cpu_share;
    r.function = o.function;
    r.file = o.file;
    r.line = o.line;
    if (timing != nullptr) {
      add_timing(*timing, r);
    }
  };
  for (const auto& [pid, watch] : watches_) {
    add(watch.observe(now), true);
  }
  for (const auto& [pid, last] : gone_) {
    add(last, false);
  }
  return out;
}

void Supervisor::schedule_status_line() {
  // Inside another xpurun's job, the line is that one's.
  const bool nested = std::getenv(wire::kRunEnv) != nullptr;
  if (options_.status == StatusLine::never || options_.verbosity < 0 ||
      (options_.status == StatusLine::automatic && nested)) {
    return;
  }
  status_timer_ = loop_.after(kFirstDrawS, [this] { draw_status_line(); });
}

void Supervisor::draw_status_line() {
  const bool wanted = options_.status == StatusLine::always || table_.multi_process();
  if (wanted && footer_.usable()) {
    footer_.show(status_line_text(live_status(), footer_.columns()));
  }
  status_timer_ = loop_.after(kRedrawS, [this] { draw_status_line(); });
}

void Supervisor::end_status_line() {
  loop_.cancel(status_timer_);
  footer_.hide();
}

// Ctrl-Z: the terminal is the shell's until we go on, so it gets its last line back. Then stop as anybody
// does.
void Supervisor::stop_with_the_job() {
  struct sigaction action {};
  if (::sigaction(SIGTSTP, nullptr, &action) == 0 && action.sa_handler == SIG_IGN) {
    return;
  }
  footer_.hide();
  sigset_t stop;
  sigemptyset(&stop);
  sigaddset(&stop, SIGTSTP);
  ::raise(SIGTSTP);
  ::sigprocmask(SIG_UNBLOCK, &stop, nullptr);
  // Here we are stopped, until somebody sends SIGCONT.
  ::sigprocmask(SIG_BLOCK, &stop, nullptr);
}

}  // namespace xpurun::launcher
