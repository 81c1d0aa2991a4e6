#include "launcher/supervise/handlers/signal_handler.h"

#include "common/base/os/wait_status.h"
#include "common/base/output/log.h"
#include "common/base/strings.h"
#include "common/base/tr.h"
#include "report/diagnosis/wording.h"

#include <signal.h>
#include <unistd.h>

namespace xpurun::launcher {

namespace {

bool is_ignored(int signal) {
  struct sigaction action {};
  return ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

void SignalHandler::received(const ReceivedSignal& signal) {
  if (signal.number == SIGCHLD) {
    hooks_.child_ended();
  } else if (signal.number == SIGTSTP) {
    stop_with_the_job();
  } else if (signal.number == parts_.options.dump_signal) {
    hooks_.dump(dump_request());
  } else if (parts_.table.is_foreign() && !parts_.job.has_ended()) {
    // xpurun has not started this job, so it must not signal it.
    if (signal.number != SIGUSR1 && signal.number != SIGUSR2) {
      hooks_.detach();
    }
  } else if (signal.number == SIGINT || signal.number == SIGTERM || signal.number == SIGHUP) {
    interrupt(signal);
  } else if (signal.code != SI_KERNEL && !parts_.job.has_ended()) {
    // A SIGQUIT from the terminal has already reached the command, which is in the same process group. A
    // signal that a process sent to xpurun is meant for the command.
    parts_.table.signal_main(signal.number);
  }
}

DumpRequest SignalHandler::dump_request() const {
  return {.why = model::DumpReason::signal, .reply = [this](const std::string& dir, size_t processes) {
            const base::Speaking speaking(parts_.options.language);
            hooks_.say(base::tr("stacks of {} processes are in {}", processes, parts_.dir.file(dir)));
          }};
}

// The first interrupt is passed to the command once, and the command decides. A second interrupt within the
// grace time kills the job.
void SignalHandler::interrupt(const ReceivedSignal& signal) {
  const bool from_terminal = signal.code == SI_KERNEL;
  if (from_terminal && signal.number == SIGHUP && is_ignored(SIGHUP)) {
    return;  // nohup
  }
  // The reader of our streams may have stopped reading, and the user wants xpurun to end.
  if (parts_.job.has_ended() && parts_.job.may_write_logs() && hooks_.give_up_logs()) {
    return;
  }
  if (parts_.job.phase == JobPhase::notifying) {
    hooks_.stop_notifying();
    return;
  }
  const base::MonoNs now = parts_.loop.now();
  const bool again = last_interrupt_ != 0 && now - last_interrupt_ < base::s_to_ns(parts_.options.grace_s);
  last_interrupt_ = now;
  if (again && signal.number == SIGINT) {
    const base::Speaking speaking(parts_.options.language);
    hooks_.say(base::tr("interrupted again: killing the job's processes"));
    parts_.ledger.we_are_ending_the_job();
    hooks_.kill_job();
    return;
  }
  const bool ineffective = command_ignores_first_ && signal.number != first_.signal;
  if (first_.signal == 0 || ineffective) {
    first_ = {
        .signal = signal.number, .from_terminal = from_terminal, .at_s = base::ns_to_s(now - parts_.started)};
    if (!parts_.job.has_ended()) {
      first_.elsewhere = hooks_.still_elsewhere(kStillS);
      hooks_.look_for_stall();
    }
    look_for_deaf_command(signal.number);
  }
  parts_.ledger.signal_was_forwarded(signal.number);
  if (signal.number == SIGHUP && from_terminal) {
    hang_up();
    return;
  }
  if (!from_terminal && !parts_.job.has_ended()) {
    base::log_info("forwarding {} from pid {}", base::signal_name(signal.number), signal.sender);
    parts_.table.signal_main(signal.number);
  }
  if (from_terminal && parts_.table.multi_process() && parts_.options.verbosity >= 0) {
    const base::Speaking speaking(parts_.options.language);
    hooks_.say(base::tr("interrupted; waiting for the command to end (Ctrl-C before its end kills the job)"));
  }
}

// A shell without job control lets the commands that it starts in the background ignore SIGINT.
void SignalHandler::look_for_deaf_command(int signal) {
  const auto status = base::ProcFs().status(parts_.table.main());
  command_ignores_first_ = !parts_.job.has_ended() && status && (status->ignored >> (signal - 1) & 1) != 0;
  if (!command_ignores_first_) {
    return;
  }
  const base::Speaking speaking(parts_.options.language);
  const std::string name = base::signal_name(signal);
  hooks_.say(signal == SIGINT ? base::tr("the command ignores {}: SIGTERM ends it, a second SIGINT within {} "
                                         "kills the job",
                                         name, base::human_duration(parts_.options.grace_s))
                              : base::tr("the command ignores {}: two SIGINT within {} kill the job", name,
                                         base::human_duration(parts_.options.grace_s)));
}

LateRanks SignalHandler::late_ranks(double since_end_s) {
  const bool by_user = first_.signal == SIGINT || first_.signal == SIGTERM;
  if (!by_user || parts_.table.is_foreign() || parts_.options.grace_s >= kForever) {
    return LateRanks::stay;
  }
  // The terminal signals all processes of the foreground, others signal xpurun alone.
  const bool reached = first_.from_terminal;
  if (!std::exchange(told_late_ranks_, true)) {
    tell_late_ranks(reached);
  }
  if (reached && since_end_s < parts_.options.grace_s) {
    return LateRanks::get_time;
  }
  parts_.ledger.we_are_ending_the_job();
  return LateRanks::end;
}

// "rank 1 ignores SIGINT and has outlived the command: it gets 30 s, then SIGTERM and SIGKILL"
void SignalHandler::tell_late_ranks(bool reached) {
  const base::ProcFs proc;
  const base::Speaking speaking(parts_.options.language);
  model::RankSet late;
  model::RankSet deaf;
  for (const TrackedProcess* p : parts_.table.living_ranks()) {
    late.insert(p->record.rank);
    const auto status = proc.status(p->record.pid);
    if (status && (status->ignored >> (first_.signal - 1) & 1) != 0) {
      deaf.insert(p->record.rank);
    }
  }
  const std::string who = report::rank_words(late);
  const std::string why = deaf.empty() ? ""
                                       : base::tr(" ({} {} {})", report::rank_words(deaf),
                                                  report::pick({"ignores", "ignore"}, deaf.size()),
                                                  base::signal_name(first_.signal));
  const std::string_view have = report::pick({"has", "have"}, late.size());
  hooks_.say(reached ? base::tr("{}{} {} outlived the command: SIGTERM follows in {}, then SIGKILL "
                                "(Ctrl-C: at once)",
                                who, why, have, base::human_duration(parts_.options.grace_s))
                     : base::tr("{}{} {} outlived the command: SIGTERM now, then SIGKILL", who, why, have));
}

// The kernel sends SIGHUP of a closed terminal only to the leader of the session (tty_signal_session_leader).
// Without xpurun the command would be that leader.
void SignalHandler::hang_up() {
  if (::getsid(0) != ::getpid()) {
    return;
  }
  hooks_.terminal_hung_up();
  base::log_info("the terminal was hung up: forwarding SIGHUP");
  parts_.table.signal_main(SIGHUP);
  // A stopped process handles SIGHUP only after SIGCONT. The kernel sends both, too.
  parts_.table.signal_main(SIGCONT);
}

// Ctrl-Z: the shell uses the terminal until xpurun continues, so the status line is removed first. Then
// xpurun stops like every other program.
void SignalHandler::stop_with_the_job() {
  if (is_ignored(SIGTSTP)) {
    return;
  }
  hooks_.hide_status_line();
  sigset_t stop;
  sigemptyset(&stop);
  sigaddset(&stop, SIGTSTP);
  // SIGTSTP is blocked for the signalfd. Raised and then unblocked, it stops the process by its default
  // action.
  ::raise(SIGTSTP);
  ::sigprocmask(SIG_UNBLOCK, &stop, nullptr);
  // The process stays stopped here until it gets SIGCONT.
  ::sigprocmask(SIG_BLOCK, &stop, nullptr);
}

}  // namespace xpurun::launcher
