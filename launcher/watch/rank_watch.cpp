#include "launcher/watch/rank_watch.h"

#include "common/base/os/system_call.h"
#include "common/base/output/log.h"
#include "common/base/strings.h"
#include "report/diagnosis/waits/code_place.h"
#include "report/diagnosis/waits/wait_patterns.h"
#include "stackdump/native/kernel_view.h"

#include <algorithm>
#include <sys/syscall.h>
#include <unistd.h>

namespace xpurun::launcher {

namespace {

// A wait for other ranks, for a lock or for a file wakes less often.
constexpr double kLoopWakesPerS = 20;
constexpr double kSleepWakesPerS = 4;  // a loop of pauses may be work; most that look for a file pause longer
// Parts of the hang timeout. The helpers of a still rank are looked at early, because what they did before is
// not known, and counts as work if the rank is found waiting for them in the early part.
constexpr double kHelpersAfter = 0.1;
constexpr double kEarly = 0.5;
constexpr size_t kWindow = 8;
// Reading or writing files faster than this counts as progress: a checkpoint inside one long C call.
constexpr double kIoProgressBytesPerS = 1 << 20;
// Loading a library, and relocating it, causes a page fault for every page. A thread that waits or spins
// causes none.
constexpr double kFaultProgressPerS = 50;
constexpr double kMaxOpenBackoffS = 5;
// In which a parent has waited for a process that has raised an exception.
constexpr base::MonoNs kReaped = 2'000'000'000;
// Of one core, as the diagnosis has it: less is what a waiting thread uses.
constexpr double kComputingShare = 0.1;
// Of one call of the kernel: less is text, more may be a message or a file.
constexpr uint64_t kPieceBytes = 1024;
// A loop that polls MPI takes less CPU time per turn; a program that polls between its own work takes more.
constexpr double kPollCpuS = 50e-6;

// Line editors sleep in pselect6() on descriptor 0 alone.
bool reads_standard_input(std::string_view syscall) {
  const base::SystemCall call = base::parse_system_call(syscall);
  const bool of_editor = call.number == SYS_pselect6 && call.arguments[0] == 1;
  return of_editor || (base::kind_of(call) == base::CallKind::receive && base::descriptor_of(call) == 0);
}

}  // namespace

RankWatch::RankWatch(base::Rank rank, base::Pid pid, base::MonoNs now, double hang_timeout_s,
                     ReadCalls read_calls)
    : rank_(rank),
      pid_(pid),
      last_progress_(now),
      main_moved_(now),
      hang_timeout_(base::s_to_ns(hang_timeout_s)),
      helpers_(pid, hang_timeout_),
      read_calls_(std::move(read_calls)) {}

void RankWatch::sample_usage(base::MonoNs now) {
  const auto process = proc_.stat(pid_);
  const auto main = proc_.thread_stat(pid_, pid_);
  if (!process || !main) {
    return;
  }
  state_ = main->state == 't' && is_looked_at() ? state_ : main->state;
  if (process->rss_pages > 0) {  // a process that has ended has none
    rss_bytes_ = static_cast<int64_t>(process->rss_pages) * ::sysconf(_SC_PAGESIZE);
  }
  const base::ProcIo io = proc_.io(pid_);
  const uint64_t bytes = io.read_chars + io.write_chars;
  usage_.push_back({.at = now,
                    .cpu_s = base::ticks_to_s(process->utime_ticks + process->stime_ticks),
                    .main_cpu_s = base::ticks_to_s(main->utime_ticks + main->stime_ticks),
                    .main_run_time = ready_time_.add(now, main->state, proc_.main_run_time(pid_)),
                    .io_bytes = bytes - std::min(bytes, printed_bytes_),
                    .io_calls = io.calls,
                    .page_faults = main->minor_faults + main->major_faults});
  while (usage_.size() > kWindow) {
    usage_.pop_front();
  }
}

// A helper of xpurun holds it for a moment, and is no debugger.
bool RankWatch::is_looked_at() const {
  const auto status = proc_.status(pid_);
  if (!status || status->tracer_pid == 0) {
    return false;
  }
  const auto tracer = proc_.stat(status->tracer_pid);
  return tracer && tracer->comm.starts_with("xpurun");
}

bool RankWatch::sample_without_python() {
  const bool held = computes_since_ > 0 && is_looked_at();
  std::string now_in = proc_.text(pid_, "syscall");
  // A look stops a thread that uses a CPU in any call of the kernel.
  on_cpu_ = now_in == "running" || held || (computes_since_ > 0 && is_looked_at());
  if (on_cpu_) {
    return false;
  }
  std::swap(now_in, syscall_);
  return !stackdump::same_system_call(now_in, syscall_);
}

base::MonoNs RankWatch::look_interval() const {
  constexpr base::MonoNs kShortest = 250'000'000;
  constexpr base::MonoNs kLongest = 20'000'000'000;
  return hurried_ ? kShortest : std::clamp(hang_timeout_ / 8, kShortest, kLongest);
}

base::MonoNs RankWatch::wants_look(base::MonoNs now) const {
  const base::MonoNs since = std::max(computes_since_, looked_);
  return hang_timeout_ > 0 && computes_since_ > 0 && now - since >= look_interval() ? since : 0;
}

void RankWatch::looked(base::MonoNs now, const NativeLook& look) {
  looked_ = now;
  held();                              // a look stops the thread, which then wakes
  const bool first = site_.at() == 0;  // until now, CPU time was progress
  if (!look.frames.empty()) {
    const auto wait = report::find_wait(look.frames, {.idle = false});
    polls_for_peers_ = wait && report::waits_for_peers(wait->kind);
  }
  if (computes_since_ > 0 && site_.moves(now, look) && !first) {
    note_motion(now);
  }
}

// Since the previous sample, but for moments: who polls in a loop that sleeps is on a CPU now and then.
bool RankWatch::has_slept() const {
  constexpr double kMoments = 0.1;
  if (usage_.size() < 2 || usage_.back().main_run_time.cpu_ns == 0) {
    return false;
  }
  const Usage& last = usage_.back();
  const Usage& previous = usage_[usage_.size() - 2];
  const double ready_s =
      base::ns_to_s(static_cast<base::MonoNs>(last.main_run_time.cpu_ns - previous.main_run_time.cpu_ns)) +
      queue_s(previous, last);
  return ready_s < kMoments * base::ns_to_s(last.at - previous.at);
}

// Where nothing else shows what a native thread on a CPU does: CPU time is progress, unless the looks at its
// stack show it in one place.
bool RankWatch::sample_computation(base::MonoNs now, bool other_progress) {
  constexpr int kMostMissed = 3;
  const bool on_cpu = std::exchange(on_cpu_, false);
  if (other_progress || in_calls_ || reader_) {
    computes_since_ = 0;
    site_.forget();
    return other_progress;
  }
  if (!on_cpu || has_slept()) {
    return false;
  }
  computes_since_ = computes_since_ > 0 ? computes_since_ : now;
  return !site_.known(kMostMissed);
}

bool RankWatch::sample_position(base::MonoNs now) {
  if (!reader_ && now >= next_open_) {
    auto opened = stackdump::PositionReader::open(pid_);
    if (opened) {
      reader_.emplace(std::move(*opened));
      // Reset after success: the next failure is probably an exec.
      open_backoff_s_ = 0.2;
    } else {
      base::log_debug("rank {} (pid {}): no Python position yet: {}", rank_, pid_,
                      base::to_line(opened.error()));
      next_open_ = now + base::s_to_ns(open_backoff_s_);
      open_backoff_s_ = std::min(open_backoff_s_ * 2, kMaxOpenBackoffS);
    }
  }
  if (!reader_) {
    return sample_without_python();
  }
  // A torn read of changing frames also fails here. The next poll tries again.
  auto position = reader_->read(is_users_file, whole_stack_ ? stackdump::PositionReader::Lines::all
                                                            : stackdump::PositionReader::Lines::to_user);
  if (!position) {
    // The program has called exec, is ending, or is changing its frames right now.
    base::log_debug("rank {} (pid {}): {}", rank_, pid_, base::to_line(position.error()));
    reader_.reset();
    // The old position is no longer valid: after exec, or after PR_SET_DUMPABLE made the process unreadable,
    // the thread may be anywhere.
    position_ = {};
    loop_.forget();
    user_place_ = {};
    return true;
  }
  const bool changed = position->fingerprint != position_.fingerprint;
  position_ = std::move(*position);
  if (whole_stack_) {
    common_.add(position_.lines);
  }
  if (changed) {
    user_place_ = place_in_user_code(position_.lines);
  }
  return loop_.moves(now, position_, usage_.empty() ? base::ProcRunTime() : usage_.back().main_run_time);
}

double RankWatch::queue_s(const Usage& from, const Usage& to) {
  return base::ns_to_s(static_cast<base::MonoNs>(to.main_run_time.queue_ns - from.main_run_time.queue_ns));
}

double RankWatch::still_part(base::MonoNs now) const {
  return hang_timeout_ > 0 ? static_cast<double>(now - main_moved_) / static_cast<double>(hang_timeout_) : 0;
}

// A thread that spins inside a call, or polls in a loop of its own, does not get further.
std::optional<bool> RankWatch::sample_calls() {
  const auto before = std::exchange(calls_, read_calls_ ? read_calls_(pid_) : std::nullopt);
  if (!before || !calls_ || usage_.size() < 2) {
    return std::nullopt;
  }
  if (calls_->steps != before->steps) {
    return true;
  }
  const double polls = static_cast<double>(calls_->polls - before->polls);
  const double cpu_s = usage_.back().main_cpu_s - usage_[usage_.size() - 2].main_cpu_s;
  const bool only_polls = polls > 0 && cpu_s <= polls * kPollCpuS;
  return calls_->inside || only_polls ? std::optional(false) : std::nullopt;
}

// A library that prints without leaving its call gets no further by printing. It prints line by line; data go
// in larger pieces.
void RankWatch::disregard_output() {
  if (!in_calls_ || usage_.size() < 2) {
    return;
  }
  Usage& last = usage_.back();
  const Usage& previous = usage_[usage_.size() - 2];
  const uint64_t bytes = last.io_bytes - std::min(previous.io_bytes, last.io_bytes);
  if (bytes < kPieceBytes * (last.io_calls - previous.io_calls)) {
    printed_bytes_ += bytes;
    last.io_bytes -= bytes;
  }
}

void RankWatch::sample(base::MonoNs now, const std::function<std::vector<Descendant>()>& helpers) {
  sample_usage(now);
  bool progress = sample_position(now);
  const std::optional<bool> by_calls = sample_calls();
  progress = by_calls.value_or(progress);
  in_calls_ = by_calls == false;
  disregard_output();
  if (usage_.size() >= 2) {
    const Usage& last = usage_.back();
    const Usage& previous = usage_[usage_.size() - 2];
    const double seconds = base::ns_to_s(last.at - previous.at);
    const auto bytes = static_cast<double>(last.io_bytes - std::min(previous.io_bytes, last.io_bytes));
    const auto faults = static_cast<double>(last.page_faults - previous.page_faults);
    // What a process has read and written is added to its parent's numbers once the parent has waited for it.
    failed_at_ = failed_ != failed_seen_ ? now : failed_at_;
    failed_seen_ = failed_;
    const bool of_failed = failed_at_ != 0 && now - failed_at_ < kReaped;
    const bool moves_data = bytes >= kIoProgressBytesPerS * seconds && !of_failed;
    progress = progress || moves_data || faults >= kFaultProgressPerS * seconds;
    const double starved_s = queue_s(previous, last);
    // A thread that circles had a CPU, and went nowhere.
    const bool polls = polls_for_peers_ && site_.at() > 0;  // and needs little of it to get further
    starved_ = loop_.circling() || site_.circles() || polls
                   ? 0
                   : starved_ + base::s_to_ns(std::clamp(starved_s, 0.0, seconds));
  }
  progress = sample_computation(now, progress);
  waits_for_terminal_ = !progress && ::isatty(0) == 1 && reads_standard_input(proc_.text(pid_, "syscall"));
  // Alone at the terminal, a program at its prompt is what the user sees.
  if (progress || (waits_for_terminal_ && !has_peers_)) {
    note_motion(now);
  } else if (in_calls_) {
    // Such a thread always wants the CPU, and needs little of it to get further.
    starved_ = 0;
    helpers_.forget();
  } else if (still_part(now) >= kHelpersAfter) {
    helpers_.look(now, reader_ ? &*reader_ : nullptr, helpers());
    const bool on_helpers = helpers_.target() == WaitTarget::helpers;
    // What the helpers did before the first look is not known: they count as quiet from then on.
    const bool first = on_helpers && !helpers_met_ && still_part(now) < kEarly;
    helpers_met_ = helpers_met_ || on_helpers;
    if (first || helper_life() == model::HelperLife::working) {
      last_progress_ = now;
      starved_ = 0;
    }
  } else {
    helpers_.watch_sleep(now);
  }
  if (helpers_.transferred()) {
    note_motion(now);
  }
}

void RankWatch::note_motion(base::MonoNs now) {
  last_progress_ = now;
  main_moved_ = now;
  starved_ = 0;
  helpers_.forget();
  helpers_met_ = false;
  failed_ = failed_seen_ = 0;
}

bool RankWatch::helps_in_vain() const {
  constexpr int kMany = 20;
  return failed_ >= kMany;
}

model::HelperLife RankWatch::helper_life() const {
  return helps_in_vain() ? model::HelperLife::still : helpers_.life();
}

bool RankWatch::is_manager() const {
  return std::any_of(position_.lines.begin(), position_.lines.end(), [](const stackdump::CodeLine& line) {
    return line.file.ends_with("/multiprocessing/managers.py") && line.function.ends_with("serve_forever");
  });
}

bool RankWatch::few_looks() const {
  constexpr int kProof = 3;
  return computes_since_ > 0 && site_.looks() < kProof;
}

bool RankWatch::wants_more_looks(base::MonoNs now, double still_s) const {
  return few_looks() || (computes_since_ > 0 && this->still_s(now) < still_s);
}

StillSigns RankWatch::signs() const {
  if (in_calls_) {
    return {.waits_for = WaitTarget::peers};
  }
  const bool some = usage_.size() >= 2;
  const double seconds = some ? base::ns_to_s(usage_.back().at - usage_.front().at) : 0;
  const double cpu_s = some ? usage_.back().main_cpu_s - usage_.front().main_cpu_s : 0;
  const bool computes = seconds > 0 && cpu_s / seconds >= kComputingShare;
  return {
      .waits_for = helpers_.target(),
      .condition = (computes ? 1U : 0U) | static_cast<unsigned>(helper_life()) << 1 |
                   static_cast<unsigned>(helpers_.outside()) << 4,
      .loops = few_looks() || helpers_.wake_rate() >= (helpers_.sleeps() ? kSleepWakesPerS : kLoopWakesPerS)};
}

model::RankObservation RankWatch::observe(base::MonoNs now) const {
  model::RankObservation o;
  o.rank = rank_;
  o.pid = pid_;
  o.state = state_;
  o.has_python = position_.has_python;
  o.still_s = still_s(now);
  if (usage_.size() >= 2) {
    // What the rank used before it stood still says nothing about the stillness.
    constexpr std::ptrdiff_t kLeastSamples = 3;
    const auto still =
        std::find_if(usage_.begin(), usage_.end(), [this](const Usage& u) { return u.at >= last_progress_; });
    const Usage& first = usage_.end() - still >= kLeastSamples ? *still : usage_.front();
    const Usage& last = usage_.back();
    o.window_s = base::ns_to_s(last.at - first.at);
    if (o.window_s > 0) {
      o.cpu_share = (last.cpu_s - first.cpu_s) / o.window_s;
      o.main_cpu_share = (last.main_cpu_s - first.main_cpu_s) / o.window_s;
      o.main_queue_share = queue_s(first, last) / o.window_s;
      o.io_bytes_per_s =
          static_cast<double>(last.io_bytes - std::min(first.io_bytes, last.io_bytes)) / o.window_s;
    }
    if (helps_in_vain()) {
      o.cpu_share = o.main_cpu_share;
      o.io_bytes_per_s = 0;
    }
  }
  o.function = position_.function;
  o.file = position_.file;
  o.line = position_.line;
  o.user_place = user_place_;
  // A thread that stands still is where it is.
  o.common_place = still_part(now) < 1 ? common_.place() : model::CodeLocation();
  o.helper_life = helper_life();
  o.outside = helpers_.outside() == model::OutsideWait::input && waits_for_terminal_
                  ? model::OutsideWait::terminal
                  : helpers_.outside();
  o.helpers = helpers_.observe(now);
  return o;
}

}  // namespace xpurun::launcher
