#include "launcher/stacks/dump_job.h"

#include "common/base/os/wait_status.h"
#include "common/base/output/log.h"
#include "common/base/strings.h"
#include "common/model/run_dir.h"
#include "common/model/stack_snapshot.h"
#include "launcher/os/signals.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

namespace xpurun::launcher {

namespace {
// Workers and other company follow after the ranks, at most this many at a time.
constexpr size_t kSecondWaveAtOnce = 8;
// Seconds from killing a helper until the job continues without it.
constexpr double kLastWaitS = 1;
// Helpers that still run this many seconds after all stacks are in their files wait for a debugger.
constexpr double kDebuggerS = 0.5;

bool has_stacks(model::DumpStatus status) {
  return status == model::DumpStatus::ok || status == model::DumpStatus::partial;
}

}  // namespace

DumpJob::DumpJob(EventLoop& loop, DumpPlan request, HelperStarted started, Done done)
    : loop_(loop), request_(std::move(request)), started_(std::move(started)), done_(std::move(done)) {
  for (const DumpTarget& target : request_.targets) {
    auto e = std::make_unique<Entry>();
    e->target = target;
    e->first_wave = request_.order == DumpOrder::all_together || target.role == model::ProcessRole::rank ||
                    target.role == model::ProcessRole::agent;
    e->result = {.pid = target.pid, .rank = target.rank, .role = target.role};
    entries_.push_back(std::move(e));
  }
}

DumpJob::~DumpJob() {
  for (const auto& e : entries_) {
    if (e->output_open) {
      loop_.remove(e->helper.output());
    }
  }
}

void DumpJob::start() {
  prepare_timer_.after(request_.prepare_s, [this] { release_ready(); });
  deadline_timer_.after(request_.deadline_s, [this] { expire(); });
  for (const auto& e : entries_) {
    if (e->first_wave) {
      start_entry(*e);
    }
  }
  release_if_all_ready();
  // From the loop, because the caller may not have finished its set-up.
  loop_.after(0, [this] { finish_if_done(); });
}

void DumpJob::start_entry(Entry& e) {
  const DumpTarget& t = e.target;
  e.result.file = file_name(e);
  std::vector<std::string> argv = {
      request_.program,
      "--pid",
      fmt::to_string(t.pid),
      "--out",
      fmt::format("{}/{}", request_.directory, e.result.file),
      "--role",
      std::string(name_of(t.role)),
      "--host",
      request_.host,
      "--deadline-ms",
      fmt::to_string(std::max<int64_t>(1, std::llround(request_.pause_limit_s * 1e3))),
      "--barrier"};
  argv.insert(argv.end(), request_.helper_options.begin(), request_.helper_options.end());
  if (t.gpu_stacks != model::GpuStacks::never) {
    argv.insert(argv.end(), {"--gpu-stacks", std::string(name_of(t.gpu_stacks))});
  }
  if (request_.keep_snapshots) {
    const std::string key = e.result.file.substr(0, e.result.file.size() - model::kStacksSuffix.size());
    argv.insert(argv.end(),
                {"--snapshot", fmt::format("{}/{}{}", request_.directory, key, model::kSnapshotSuffix)});
  }
  if (t.rank != base::kNoRank) {
    argv.insert(argv.end(), {"--rank", fmt::to_string(t.rank)});
  }
  if (t.local_rank >= 0) {
    argv.insert(argv.end(), {"--local-rank", fmt::to_string(t.local_rank)});
  }
  // Without an interrupted state (MPI ends the process) the thread is unwound from where it waits.
  if (t.crash_tid != 0 && t.crash_ucontext != 0) {
    argv.insert(argv.end(), {"--crash-tid", fmt::to_string(t.crash_tid), "--crash-ucontext",
                             fmt::format("{:#x}", t.crash_ucontext)});
  }
  auto helper = HelperProcess::start(argv, request_.signal_mask, request_.stderr_fd);
  if (!helper) {
    finish_entry(e, model::DumpStatus::failed, base::to_line(helper.error()));
    e.stage = Stage::finished;
    return;
  }
  e.helper = std::move(*helper);
  e.stage = Stage::preparing;
  e.process_open = true;
  started_(e.helper.pid());
  if (loop_.add(e.helper.output(), EPOLLIN, [this, entry = &e](uint32_t) { read_output(*entry); })) {
    e.output_open = true;
  }
  if (!e.first_wave) {
    e.stage = Stage::released;
    e.helper.close_input();
  }
}

std::string DumpJob::file_name(const Entry& e) const {
  const DumpTarget& t = e.target;
  const auto name = [&](model::ProcessRole role) {
    return model::process_key(t.rank, role, request_.host, t.pid) + std::string(model::kStacksSuffix);
  };
  // Processes of two jobs may have the same rank.
  const std::string wanted = name(t.role);
  const bool taken = std::any_of(entries_.begin(), entries_.end(), [&](const auto& other) {
    return other.get() != &e && other->result.file == wanted;
  });
  return taken ? name(model::ProcessRole::other) : wanted;
}

void DumpJob::close_output(Entry& e) {
  if (e.output_open) {
    loop_.remove(e.helper.output());
    e.output_open = false;
  }
}

bool DumpJob::read_output(Entry& e) {
  char buf[4096];
  const ssize_t n = ::read(e.helper.output(), buf, sizeof buf);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
    return false;
  }
  if (n <= 0) {
    close_output(e);
    settle(e);
    return false;
  }
  e.pending.append(buf, static_cast<size_t>(n));
  for (size_t end = e.pending.find('\n'); end != std::string::npos; end = e.pending.find('\n')) {
    const std::string line = e.pending.substr(0, end);
    e.pending.erase(0, end + 1);
    handle_line(e, line);
  }
  return true;
}

void DumpJob::handle_line(Entry& e, std::string_view line) {
  if (line == "ready") {
    if (e.stage == Stage::preparing) {
      e.stage = Stage::ready;
      if (released_) {
        e.stage = Stage::released;
        e.helper.close_input();
      } else {
        release_if_all_ready();
      }
    }
    return;
  }
  if (line == "wrote") {
    e.wrote = true;
    all_written();
    return;
  }
  const auto words = base::split(line, ' ');
  if (words.size() == 3 && words[0] == "stopped") {
    e.stopped_at = base::parse_int(words[1]).value_or(0);
    e.result.pause_ns = base::parse_int(words[2]).value_or(0);
    start_second_wave();
  } else if (words.size() >= 2 && words[0] == "done") {
    const size_t reason = line.find(' ', 5);
    const auto status = model::from_name<model::DumpStatus>(words[1]);
    finish_entry(e, status && has_stacks(*status) ? *status : model::DumpStatus::failed,
                 reason == std::string_view::npos ? "" : std::string(line.substr(reason + 1)));
  }
}

void DumpJob::release_if_all_ready() {
  const bool preparing = std::any_of(entries_.begin(), entries_.end(),
                                     [](const auto& e) { return e->stage == Stage::preparing; });
  if (!released_ && !preparing) {
    release_ready();
  }
}

void DumpJob::release_ready() {
  released_ = true;
  prepare_timer_.stop();
  for (const auto& e : entries_) {
    if (e->stage == Stage::ready) {
      e->stage = Stage::released;
      e->helper.close_input();
    }
  }
  start_second_wave();
}

void DumpJob::start_second_wave() {
  if (!released_) {
    return;
  }
  // The stops of the first wave come first. Its symbols may still be read meanwhile.
  size_t running = 0;
  for (const auto& e : entries_) {
    const bool stop_pending = e->first_wave && e->stage != Stage::finished && e->stopped_at == 0;
    if (stop_pending) {
      return;
    }
    running += !e->first_wave && e->process_open ? 1 : 0;
  }
  for (const auto& e : entries_) {
    if (e->stage == Stage::waiting && running < kSecondWaveAtOnce) {
      start_entry(*e);
      ++running;
    }
  }
}

void DumpJob::finish_entry(Entry& e, model::DumpStatus status, std::string reason) {
  e.has_result = true;
  e.result.status = status;
  e.result.reason = std::move(reason);
}

// The entry is over when the helper has ended and all of its output has been read.
void DumpJob::settle(Entry& e) {
  if (!e.output_open && !e.process_open && e.stage != Stage::finished) {
    e.stage = Stage::finished;
    e.helper.close_output();
    release_if_all_ready();
    start_second_wave();
    all_written();
    finish_if_done();
  }
}

bool DumpJob::helper_ended(base::Pid pid, base::WaitStatus status) {
  for (const auto& e : entries_) {
    if (!e->process_open || e->helper.pid() != pid) {
      continue;
    }
    e->helper.forget();
    // All of its output is in the pipe by now. The end of the pipe is not awaited, because a process that the
    // helper has started may hold the other end.
    while (e->output_open && read_output(*e)) {
    }
    close_output(*e);
    e->process_open = false;  // only now: without a result the entry must not be over
    if (!e->has_result) {
      e->result.no_result = true;
      finish_entry(
          *e, model::DumpStatus::failed,
          status.signaled()
              ? fmt::format("the dump helper died of {}", base::signal_name(status.signal()))
              : fmt::format("the dump helper exited with status {} and no result", status.exit_code()));
    }
    settle(*e);
    return true;
  }
  return false;
}

void DumpJob::expire() {
  give_up(fmt::format("no result within {} s", request_.deadline_s));
}

void DumpJob::give_up(const std::string& why) {
  if (reported_ || abandon_timer_.running()) {
    return;
  }
  base::log_warn("stack dump: {}, ending what is left", why);
  for (const auto& e : entries_) {
    if (e->process_open) {
      if (!e->has_result) {
        e->result.no_result = true;
        finish_entry(*e, model::DumpStatus::timeout, why);
      }
      e->helper.kill();
    } else if (e->stage == Stage::waiting) {
      finish_entry(*e, model::DumpStatus::timeout, "its turn did not come");
      e->stage = Stage::finished;
    }
  }
  abandon_timer_.after(kLastWaitS, [this] { abandon(); });
  finish_if_done();
}

// The pids stay with the entries until they are reaped or this object ends, so no reused pid is signalled.
void DumpJob::abandon() {
  for (const auto& e : entries_) {
    if (e->process_open) {
      close_output(*e);
      e->process_open = false;
      e->stage = Stage::finished;
    }
  }
  finish_if_done();
}

// Without a debugger the helpers end at once, and the early report is not needed.
void DumpJob::all_written() {
  const bool all = std::all_of(entries_.begin(), entries_.end(),
                               [](const auto& e) { return e->wrote || e->stage == Stage::finished; });
  if (all && !written_timer_.running() && request_.stacks_written) {
    written_timer_.after(kDebuggerS, [this] { std::exchange(request_.stacks_written, nullptr)(outcome()); });
  }
}

StackDumpOutcome DumpJob::outcome() const {
  StackDumpOutcome outcome;
  int64_t first = 0;
  int64_t last = 0;
  for (const auto& e : entries_) {
    if (e->first_wave && e->stopped_at != 0) {
      first = first == 0 ? e->stopped_at : std::min(first, e->stopped_at);
      last = std::max(last, e->stopped_at);
    }
    model::DumpedProcess& process = outcome.processes.emplace_back(e->result);
    if (!e->wrote && !has_stacks(process.status)) {
      process.file.clear();
    }
  }
  outcome.spread_ns = last - first;
  return outcome;
}

void DumpJob::finish_if_done() {
  const bool all = std::all_of(entries_.begin(), entries_.end(),
                               [](const auto& e) { return e->stage == Stage::finished; });
  if (!all || reported_) {
    return;
  }
  reported_ = true;
  prepare_timer_.stop();
  deadline_timer_.stop();
  abandon_timer_.stop();
  written_timer_.stop();
  done_(outcome());
}

}  // namespace xpurun::launcher
