// Verdicts of kind crash and exit: the first failure. Its results (the launcher's SIGTERMs, peers with broken
// connections) are reported as consequences.
#include "common/base/strings.h"
#include "common/base/tr.h"
#include "common/wire/mpi_functions.h"
#include "report/diagnosis/ends/exceptions.h"
#include "report/diagnosis/helpers.h"
#include "report/diagnosis/memory/killed.h"
#include "report/diagnosis/memory/memory_words.h"
#include "report/diagnosis/rank_exceptions.h"
#include "report/diagnosis/rule.h"
#include "report/diagnosis/rules/last_place.h"
#include "report/diagnosis/rules/machine_words.h"
#include "report/diagnosis/several_nodes.h"
#include "report/diagnosis/vocabulary.h"
#include "report/diagnosis/waits/code_place.h"
#include "report/diagnosis/waits/wait_patterns.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <set>
#include <sys/wait.h>

namespace xpurun::report {

using base::tr;
using model::CodeLocation;
using model::Confidence;
using model::ProcessRecord;
using model::RankSet;
using model::RunManifest;
using model::ThreadStack;
using model::Verdict;

namespace {

constexpr double kSameMomentSeconds = 0.1;
constexpr double kAtOnceSeconds = 1;

// Whether a launcher, xpurun or another process ended this one, as opposed to a failure of the process
// itself.
bool was_ended(const Ending& e) {
  return !e.raised() && !e.by_itself && !is_fault(e.signal) &&
         (!e.cause.empty() || (e.follower && e.signal != 0));
}

// Ranks whose current process ended after this one.
struct Aftermath {
  RankSet ended;   // by others
  RankSet failed;  // by themselves
};

Aftermath aftermath_of(const Scene& scene, const Ending& root) {
  Aftermath out;
  const auto current = current_ranks(scene.facts.run);
  const std::set<const ProcessRecord*> latest(current.begin(), current.end());
  for (const Ending& e : scene.endings) {
    if (latest.count(e.process) != 0 && e.process != root.process && e.dead && e.failed() &&
        (e.at_s >= root.at_s || e.follower)) {
      (was_ended(e) ? out.ended : out.failed).insert(e.process->rank);
    }
  }
  return out;
}

// "ranks 0-1 were ended"
std::string ended_words(const RankSet& ranks) {
  return ranks.size() == 1 ? tr("{} was ended", rank_words(ranks)) : tr("{} were ended", rank_words(ranks));
}

std::string consequence(const Scene& scene, const Ending& root, Verdict& v) {
  const auto& [ended, failed] = aftermath_of(scene, root);
  if (!failed.empty()) {
    const std::string then = ended.empty() ? std::string() : tr(", and {}", ended_words(ended));
    return tr("; {} failed after it", rank_words(failed)) + then;
  }
  if (!ended.empty()) {
    return tr("; {} after it", ended_words(ended));
  }
  const std::string waits = waiting_clause(v.waiting, 1);
  return waits.empty() ? std::string() : tr("; ") + waits;
}

Views waiting_views(const Scene& scene) {
  return scene.facts.dump ? scene.in({RankState::waiting}) : Views{};
}

// Fields that crash and exit share.
Verdict begin(const Scene& scene, const Ending& e, std::string_view id) {
  const RunManifest& run = scene.facts.run;
  Verdict v;
  v.id = id;
  v.kind = e.raised()      ? model::VerdictKind::exception
           : e.signal != 0 ? model::VerdictKind::crash
                           : model::VerdictKind::exit;
  v.level = model::VerdictLevel::confirmed;
  v.confidence = Confidence::high;
  v.state = e.process->role == model::ProcessRole::rank ? RankState::dead : RankState::none;
  if (e.process->role == model::ProcessRole::rank) {
    v.ranks.insert(e.process->rank);
  }
  v.host = host_of(run, e.process->node);
  v.pid = e.process->pid;
  v.signal = e.signal;
  v.exit_code = e.signal != 0 ? -1 : e.exit_code;
  v.where = where_it_ended(scene, e);
  Views waiting = waiting_views(scene);
  waiting.erase(std::remove_if(waiting.begin(), waiting.end(),
                               [&](const RankView* w) { return w->rank == e.process->rank; }),
                waiting.end());
  v.waiting = waiting_groups(waiting);
  v.seconds = e.at_s;
  v.dump = scene.facts.dump_dir;
  return v;
}

std::string name_of_command(const RunManifest& run) {
  return run.command.empty() ? std::string() : std::string(base::base_name(run.command.front()));
}

std::string subject(const Scene& scene, const Ending& e) {
  const bool plain = is_plain_command(*e.process);
  if (e.process->role == model::ProcessRole::rank && !plain) {
    return scene.names({e.process->rank});
  }
  const std::string comm = plain ? name_of_command(scene.facts.run) : e.process->comm;
  const std::string name = comm.empty() ? "" : " " + base::sanitize(comm);
  const std::string noun =
      e.process->role == model::ProcessRole::agent ? tr("the launcher") : tr("the command");
  const std::string& host = host_of(scene.facts.run, e.process->node);
  return scene.facts.run.nodes.size() > 1 ? tr("{}{} (host {})", noun, name, base::sanitize(host))
                                          : noun + name;
}

// The id for a rank, or for a command without ranks.
std::string_view id_alone(const Ending& e) {
  if (e.raised()) {
    return kExitException;
  }
  if (!e.known) {
    return kExitUnknown;
  }
  if (e.signal == 0) {
    return kExitError;
  }
  return is_fault(e.signal) ? kCrashSignal : kCrashKilled;
}

// If a thread without Python code ended the rank, the user needs the line of the main thread, which becomes
// the verdict's place. Returns ", while its main thread was in all_reduce (train.py:44)", or nothing.
std::string main_thread_words(const Scene& scene, const Ending& e, const ThreadStack* crashed, Verdict& v) {
  if (crashed == nullptr || runs_python(*crashed)) {
    return {};
  }
  for (const model::ProcessStacks& s : scene.facts.stacks) {
    const ThreadStack* main =
        s.pid == e.process->pid && s.rank == e.process->rank ? s.main_thread() : nullptr;
    if (main == nullptr || main == crashed || !runs_python(*main)) {
      continue;
    }
    const auto wait = find_wait(main->frames, {.idle = true});
    const bool peers = wait && waits_for_peers(wait->kind);
    v.where = place_of(main->frames);
    return tr(", while its main thread was in {}",
              peers ? waiting_place(wait->what, wait->where) : place(v.where));
  }
  return {};
}

std::string advice_on_signal(const Ending& e) {
  switch (e.signal) {
    case SIGXCPU:
      return tr("the process reached its limit of CPU time: raise it (ulimit -t, or the scheduler's)");
    case SIGXFSZ:
      return tr("the process reached the limit of a file's size: raise it (ulimit -f)");
    case SIGINT:
      return tr("Python ends this way after KeyboardInterrupt: find out what interrupted rank {}",
                e.process->rank);
    default:
      break;
  }
  return e.by_itself ? tr("find out why the program sends itself the signal")
                     : tr("find out who sent the signal: the scheduler's log, the cluster's limits");
}

void say_signal(const Scene& scene, const Ending& e, Verdict& v) {
  v.id = e.process->role == model::ProcessRole::rank ? id_alone(e) : kCrashLauncher;
  std::string how = how_it_ended(e);
  const ThreadStack* crashed = crashed_thread(scene, e);
  const CodeLocation at_exit = crashed != nullptr ? unwound_at_exit(*crashed) : CodeLocation{};
  const model::KernelEvent* oom =
      e.signal == SIGKILL ? oom_kill_of(scene.facts.kernel, e.process->node, e.process->pid, e.at_s)
                          : nullptr;
  if (!at_exit.empty()) {
    how += tr(" (a C++ thread needed Python, which was ending)");
  } else if (oom != nullptr) {
    how += out_of_memory_words(*oom);
  } else if (crashed != nullptr && !crashed->cpp_exception.empty() && e.signal == SIGABRT) {
    how += tr(" ({})", words_of(crashed->cpp_exception));
  } else if (e.notice != nullptr && e.notice->stack_overflow) {
    how += tr(" (stack overflow)");
  } else if (e.notice != nullptr && carries_address(e.signal) && e.notice->code != SI_KERNEL) {
    // SI_KERNEL: the processor did not tell the address, for example of a pointer that no address can be.
    how += tr(" (address {:#x})", e.notice->address);
  } else if (!e.cause.empty()) {
    how += tr(" ({})", tr(e.cause));
  }
  const bool of_launcher = e.process->role != model::ProcessRole::rank;
  const bool killed = e.signal == SIGKILL;
  HeldElsewhere elsewhere;
  MemoryFiller filler;
  if (killed && v.where.empty()) {
    // In a container only the counters of the control group are known.
    const RunManifest& run = scene.facts.run;
    if (oom != nullptr || (run.memory.oom_kills > 0 && run.nodes.size() <= 1)) {
      v.memory = held_by_line(scene.facts.memory, e.process->rank);
      if (run.nodes.size() <= 1 && !of_launcher) {
        elsewhere = held_elsewhere(scene.facts.memory, e.process->rank);
      }
      const bool others_line = elsewhere.held.bytes > v.memory.bytes;
      filler = say_filler(scene, e, others_line ? elsewhere.held : v.memory, v);
    }
    if (filler.known()) {
      elsewhere = {};
      v.memory = filler.foreign ? model::HeldMemory{} : v.memory;
    }
    if (elsewhere.rank != base::kNoRank) {
      v.memory = elsewhere.held;
      v.ranks = {elsewhere.rank};
      v.confidence = Confidence::medium;
    }
    // Who fills a file is at the line that writes, by the last look at the rank.
    const bool writes = filler.files && filler.rank == e.process->rank && !e.process->place.empty();
    v.where = filler.foreign                  ? CodeLocation{}
              : v.memory.present() && !writes ? v.memory.where
                                              : e.process->place;
    if (writes) {
      filler.words = tr("{}; the rank was last seen in {}", filler.words, place(e.process->place));
    }
    // The kernel's own line says more than that another group lost no process.
    if (std::string words = group_words(run);
        !words.empty() && (oom == nullptr || run.memory.oom_kills > 0)) {
      v.evidence.push_back(std::move(words));
    }
    if (std::string words = group_use_before(scene, e); !words.empty()) {
      v.evidence.push_back(std::move(words));
    }
  }
  const std::string at = killed ? std::string() : in_place(v.where);
  const std::string main = main_thread_words(scene, e, crashed, v);
  say(v, tr("{} {}{}{} {}{}{}", subject(scene, e), how, at, main, after_words(scene.facts.run, e.at_s),
            filler.known()                    ? filler.words
            : elsewhere.rank != base::kNoRank ? held_elsewhere_words(elsewhere)
            : v.memory.present()              ? held_by_line_words(*e.process, v.memory)
            : killed                          ? last_seen_words(e)
                                              : "",
            consequence(scene, e, v)));
  if (filler.known()) {
    v.title = tr("{} {}", subject(scene, e), filler.title);
  } else if (v.memory.grown_a_step > 0) {
    v.next.text = advice_on_growth(v.memory);
  } else if (oom != nullptr && v.memory.present()) {
    v.next.text = advice_on_held(v.memory);
  } else if (oom != nullptr) {
    v.next = advice_on_memory(oom->memory_limit);
  } else if (e.signal == SIGKILL) {
    v.next = {.text = tr("if nobody killed it, it was probably killed because memory ran out"),
              .command = "journalctl -k | grep -i 'killed process'"};
  } else if (at_exit.function.starts_with("c10d::")) {
    v.next.text = tr("call torch.distributed.destroy_process_group() at the end of the program");
  } else if (!at_exit.empty()) {
    v.next.text = tr("end the threads of {} before the program ends", at_exit.file);
  } else if (e.notice != nullptr && e.notice->stack_overflow) {
    v.next = {
        .text =
            tr("look for endless recursion in the C++ stack of the crashed thread; a deep one needs a larger "
               "stack"),
        .command = "ulimit -s"};
  } else if (is_fault(e.signal) && crashed != nullptr) {
    if (says_foreign_message(crashed->cpp_exception.message)) {
      v.evidence.push_back(
          tr("gloo got a message of an unexpected size: ranks make different calls, or two threads of a rank "
             "use one group at the same time"));
    }
    v.next.text = tr("see the C++ stack of the crashed thread in {}", v.dump);
  } else if (is_fault(e.signal)) {
    // No handler held the process for a dump, because it had no preload library (static binary, another libc,
    // no rank).
    v.next = {
        .text = tr("no stack of the crash was taken: run again with core files, for xpurun stacks --core"),
        .command = "ulimit -c unlimited"};
  } else {
    v.next.text = advice_on_signal(e);
  }
}

void say_exception(const Scene& scene, const Ending& e, Verdict& v) {
  v.id = e.process->role == model::ProcessRole::rank ? id_alone(e) : kExitLauncher;
  if (e.process->role == model::ProcessRole::rank && lacks_host_memory(*e.exception)) {
    v.memory = held_by_line(scene.facts.memory, e.process->rank);
  }
  const std::string held = v.memory.present() ? held_by_line_words(*e.process, v.memory) : "";
  say(v, tr("{} {} {}{}", subject(scene, e), how_it_ended(e), after_words(scene.facts.run, e.at_s),
            held + consequence(scene, e, v)));
  v.next.text = v.memory.grown_a_step > 0
                    ? advice_on_growth(v.memory)
                    : advice_on_exception(*e.exception, scene.facts.memory, e.process->rank);
}

std::string mpi_error(size_t code) {
  return code < wire::kMpiErrorCount ? std::string(wire::kMpiErrors[code]) : tr("error {}", code);
}

// MPI has ended the process: " after MPI_Send had failed with MPI_ERR_RANK in halo (heat.c:40)".
std::string mpi_words(const Ending& e, const CodeLocation& where) {
  if (e.notice == nullptr || e.notice->signal != 0 || e.notice->address >= wire::kMpiFunctionCount) {
    return {};
  }
  const std::string_view function = wire::kMpiFunctions[e.notice->address].name;
  const auto code = static_cast<size_t>(e.notice->code);
  if (code == 0) {
    return tr(" by {}{}", function, in_place(where));
  }
  return tr(" after {} had failed with {}{}", function, mpi_error(code), in_place(where));
}

// "MPI_Send of rank 1 failed with MPI_ERR_RANK"; empty without an error.
std::string mpi_title(const std::string& who, const Ending& e) {
  const auto code = static_cast<size_t>(e.notice->code);
  return code == 0 ? std::string()
                   : tr("{} of {} failed with {}", wire::kMpiFunctions[e.notice->address].name, who,
                        mpi_error(code));
}

void say_exit(const Scene& scene, const Ending& e, Verdict& v) {
  v.id = e.process->role == model::ProcessRole::rank || !e.known ? id_alone(e) : kExitLauncher;
  v.confidence = e.known ? Confidence::high : Confidence::low;
  // The call that ended the process says more than its status.
  std::string how = exit_call_words(e);
  how = how.empty() ? how_it_ended(e) : how;
  const std::string mpi = mpi_words(e, v.where);
  if (!mpi.empty() && e.exit_code < 0) {
    how = tr("was ended");
  }
  say(v, tr("{} {}{} {}{}", subject(scene, e), how, mpi, after_words(scene.facts.run, e.at_s),
            consequence(scene, e, v)));
  if (const auto* handled = e.exception != nullptr ? handled_by_exit(*e.exception) : nullptr) {
    v.title = tr("{} exited with status {} while handling {}", subject(scene, e), e.exit_code,
                 base::sanitize(handled->type));
  }
  if (!mpi.empty()) {
    v.title = mpi_title(subject(scene, e), e);
    v.next.text = tr("look at the arguments and the condition of the call in {}", place(v.where));
    return;
  }
  const bool said = e.exception != nullptr && !e.exception->chain.front().message.empty();
  v.next.text = said                           ? tr("look at the condition of the call in {}", place(v.where))
                : is_plain_command(*e.process) ? tr("read the command's own messages")
                : e.process->role == model::ProcessRole::rank
                    ? tr("read the end of rank {}'s log for the first error", e.process->rank)
                    : tr("read the launcher's own messages: no rank had failed before it");
}

Verdict verdict_of(const Scene& scene, const Ending& e) {
  Verdict v = begin(scene, e, "");
  if (e.raised()) {
    say_exception(scene, e, v);
  } else if (e.signal != 0) {
    say_signal(scene, e, v);
  } else {
    say_exit(scene, e, v);
  }
  return v;
}

// Ranks that failed by themselves at the same instant as the first. Which of them was first is chance.
RankSet at_the_same_moment(const Scene& scene, const Ending& root) {
  RankSet out;
  for (const Ending& e : scene.endings) {
    if (e.process->role == model::ProcessRole::rank && !e.follower && e.failed() && e.signal == root.signal &&
        e.exit_code == root.exit_code && is_alike(e.exception, root.exception) &&
        std::abs(e.at_s - root.at_s) <= kSameMomentSeconds) {
      out.insert(e.process->rank);
    }
  }
  return out;
}

const Ending* first_launcher_failure(const Scene& scene) {
  for (const Ending& e : scene.endings) {
    if (is_launcher(*e.process, scene.facts.run) && e.failed()) {
      return &e;
    }
  }
  return nullptr;
}

// Ranks that exited with status 0 before the first failure, and how the others ended.
struct Leavers {
  const Ending* first = nullptr;  // null: no rank left
  RankSet ranks;
  size_t failed = 0;
  size_t finished_later = 0;  // with status 0, after the failure
  bool at_once = false;       // the failure came within a second
};

Leavers leavers_before(const Scene& scene, const Ending& failure) {
  const auto ranks = current_ranks(scene.facts.run);
  Leavers out;
  for (const Ending& e : scene.endings) {
    if (std::find(ranks.begin(), ranks.end(), e.process) == ranks.end()) {
      continue;
    }
    if (e.failed()) {
      ++out.failed;
    } else if (e.at_s < failure.at_s) {
      out.first = out.first == nullptr ? &e : out.first;
      out.ranks.insert(e.process->rank);
    } else {
      ++out.finished_later;
    }
  }
  out.at_once = out.first != nullptr && failure.at_s - out.first->at_s <= kAtOnceSeconds;
  return out;
}

// Whether the ranks that left are the reason of the failure.
bool explain(const Leavers& left, const Ending& failure, const RunManifest& run) {
  const size_t ranks = current_ranks(run).size();
  // At a normal end most ranks leave; a rank that fails afterwards failed by itself, and so did one whose
  // exception has nothing to do with the others.
  const bool by_itself = failure.raised() && !failure.in_wait && !says_peer_is_gone(*failure.exception) &&
                         !says_backend_gave_up(*failure.exception);
  if (left.ranks.size() * 2 > ranks || by_itself) {
    return false;
  }
  if (left.ranks.size() + left.failed == ranks) {
    return true;
  }
  // Ranks of other nodes may not have ended yet: their connections break later, and other launchers end them.
  // The first failure is sufficient evidence if a rank that had left caused it: a failure in a call that
  // waits for others, or the abort of a library that lost its peer. A rank that finishes nevertheless did not
  // need the ranks that had left.
  const bool lost_a_peer = failure.in_wait || (failure.signal == SIGABRT && left.at_once);
  return run.nodes.size() > 1 && lost_a_peer && left.finished_later == 0;
}

}  // namespace

// A rank exited with status 0 while the others were still working; their failures are the consequence.
std::optional<Verdict> left_early(const Scene& scene) {
  const Ending* failure = scene.root_failure();
  if (failure == nullptr || (failure->signal != 0 && failure->signal != SIGABRT && !failure->raised())) {
    return std::nullopt;
  }
  const Leavers left = leavers_before(scene, *failure);
  if (left.first == nullptr || !explain(left, *failure, scene.facts.run)) {
    return std::nullopt;
  }
  const Ending& first = *left.first;
  Verdict v = begin(scene, first, kExitLeftEarly);
  v.ranks = left.ranks;
  v.exit_code = 0;
  v.confidence = left.at_once ? Confidence::medium : Confidence::low;
  const double later_s = failure->at_s - first.at_s;
  const std::string call = left.ranks.size() == 1 ? exit_call_words(first) : std::string();
  const std::string lost = lost_peer_words(*failure);
  std::string headline =
      tr("{} left early ({}) {}; {} {} {}", scene.names(left.ranks),
         call.empty() ? tr("exit status 0") : call, after_words(scene.facts.run, first.at_s),
         scene.names({failure->process->rank}), lost.empty() ? how_it_ended(*failure) : lost,
         later_s < 0.05 ? tr("at once") : tr("{} later", base::human_duration(later_s)));
  const auto& [ended, failed] = aftermath_of(scene, *failure);
  if (!failed.empty()) {
    headline += tr(", then {} failed", rank_words(failed));
  }
  if (!ended.empty()) {
    headline += tr(", then {}", ended_words(ended));
  }
  say(v, std::move(headline));
  v.next.text = tr("find out why rank {} had nothing left to do: uneven data, an early return, sys.exit(0)",
                   first.process->rank);
  return v;
}

// A signal ended the launcher before any rank failed, or the launcher failed without a failed rank.
std::optional<Verdict> launcher_ended(const Scene& scene) {
  const Ending* launcher = first_launcher_failure(scene);
  const Ending* rank = scene.root_failure();
  if (launcher == nullptr || current_ranks(scene.facts.run).empty()) {
    return std::nullopt;
  }
  const bool before_ranks = rank == nullptr || (launcher->signal != 0 && launcher->at_s < rank->at_s);
  if (!before_ranks || launcher->follower) {
    return std::nullopt;
  }
  Verdict v = verdict_of(scene, *launcher);
  say(v, v.headline + tr("; no rank had failed before it"));
  return v;
}

std::optional<Verdict> rank_failed(const Scene& scene) {
  const Ending* root = scene.root_failure();
  if (root == nullptr) {
    return std::nullopt;
  }
  Verdict v = verdict_of(scene, *root);
  const RankSet together = at_the_same_moment(scene, *root);
  if (together.size() > 1 && root->known) {
    const bool all = together.size() == current_ranks(scene.facts.run).size();
    v.confidence = all ? Confidence::low : Confidence::medium;
    v.evidence.push_back(tr("{} {} within {:.0f} ms: probably the same error in each", rank_words(together),
                            how_it_ended(*root), kSameMomentSeconds * 1000));
  }
  if (const HelperFailure helper = helper_failure(scene, *root); helper.pid != 0) {
    const std::string before = tr("; before it, its process (pid {}) {}", helper.pid, helper.how);
    say(v, v.headline + before + say_memory_of_helpers(scene, *root, helper_before(scene, *root), v));
    if (helper.caused && !helper.where.empty() && !v.memory.present()) {
      v.where = helper.where;
      v.title = tr("a process of {} {}", scene.names(v.ranks), helper.title);
    }
    if (const auto* raised = root->raised() ? nullptr : exception_before(scene, *root); raised != nullptr) {
      v.next.text = advice_on(*raised);
    }
  }
  if (root->raised() && says_backend_gave_up(*root->exception)) {
    v.level = model::VerdictLevel::suspected;
    v.confidence = Confidence::low;
    say(v, v.headline + tr("; which rank had not come is not known"));
  }
  tell_tie(scene, *root, v);
  tell_unheard(scene, *root, v);
  return v;
}

// No rank is known to have failed: the command itself failed, or all deaths follow from an unseen one.
std::optional<Verdict> command_failed(const Scene& scene) {
  const RunManifest& run = scene.facts.run;
  if (run.outcome != model::RunOutcome::exit && run.outcome != model::RunOutcome::signal) {
    return std::nullopt;
  }
  for (const Ending& e : scene.endings) {
    if (e.failed() && (e.process->role == model::ProcessRole::rank || is_launcher(*e.process, run))) {
      Verdict v = verdict_of(scene, e);
      v.confidence = Confidence::low;
      if (e.process->role == model::ProcessRole::agent && current_ranks(run).empty()) {
        v.confidence = Confidence::high;
      } else if (e.process->role != model::ProcessRole::rank && current_ranks(run).empty()) {
        // Without ranks the command counts as rank 0.
        v.ranks = {0};
        v.id = id_alone(e);
        v.confidence = Confidence::high;
        v.state = RankState::dead;
        v.next.text = tr("read the command's own messages");
      }
      return v;
    }
  }
  ProcessRecord command{.pid = run.main_pid, .rank = 0};
  command.comm = name_of_command(run);
  command.death = {.happened = true, .at_s = run.elapsed_s, .wait_status = run.child_status};
  Ending e{.process = &command, .at_s = run.elapsed_s, .dead = true, .known = run.child_status.known()};
  e.signal = run.child_status.signal();
  e.exit_code = run.child_status.exited() ? run.child_status.exit_code() : e.exit_code;
  Verdict v = verdict_of(scene, e);
  if (current_ranks(run).empty()) {
    v.ranks = {0};
    v.id = id_alone(e);
    v.state = RankState::dead;
    if (e.signal == 0) {
      v.next.text = tr("read the command's own messages");
    }
  }
  return v;
}

}  // namespace xpurun::report
