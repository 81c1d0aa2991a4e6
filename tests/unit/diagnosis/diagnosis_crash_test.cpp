#include "tests/unit/diagnosis/job.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <csignal>

using namespace xpurun;
using namespace xpurun::report;
using namespace xpurun::report::testing;
using model::RankSet;
using model::Verdict;

namespace {

Stack in_boom() {
  return {native("strlen", "libc.so.6"), native("ffi_call", "libffi.so.8"),
          py("string_at", "/usr/lib/python3.11/ctypes/__init__.py", 519), py("boom", "/home/u/train.py", 20),
          py("<module>", "/home/u/train.py", 90)};
}

// The effect of torchrun on the other ranks.
void terminate_others(Job& job, base::Rank culprit, double at_s) {
  for (base::Rank r = 0; r < job.facts.run.world_size; ++r) {
    if (r != culprit && !job.record(r).death.happened) {
      job.died(r, kTerm, at_s, "ended by the launcher");
    }
  }
  job.agent_died(exited(1), at_s + 0.5).ended(exited(1));
}

}  // namespace

TEST_CASE("a null pointer in C: signal, address and the Python line that called it") {
  Job job(4);
  job.notice(1, kSegv, 12.2).crash_dump();
  job.rank(1, in_boom()).died(1, kSegv, 12.9);
  terminate_others(job, 1, 13.5);
  const Verdict v = diagnose(job.facts);
  CHECK(v.id == "crash.signal");
  CHECK(v.kind == model::VerdictKind::crash);
  CHECK(v.signal == kSegv);
  CHECK(v.ranks == RankSet{1});
  CHECK(v.where.function == "boom");
  CHECK(v.dump == "dumps/1-crash");
  CHECK(v.sentence ==
        "crash: rank 1 died of SIGSEGV (address 0x0) in boom (train.py:20: string_at) "
        "after 12 s; "
        "ranks 0,2-3 were ended after it");
  CHECK(std::find(v.details.begin(), v.details.end(), "innermost C function of rank 1: strlen (libc.so.6)") !=
        v.details.end());
  job.facts.run.crashes.front().code = SI_KERNEL;
  CHECK(diagnose(job.facts).sentence.find("SIGSEGV in boom") != std::string::npos);
}

TEST_CASE("a stack overflow is told apart from another SIGSEGV") {
  Job job(2);
  job.notice(1, kSegv, 12.2, 0, 0x7ffc0ff8).crash_dump();
  job.facts.run.crashes.front().stack_overflow = true;
  job.rank(1, in_boom()).died(1, kSegv, 12.9);
  terminate_others(job, 1, 13.5);
  const Verdict v = diagnose(job.facts);
  CHECK(v.id == "crash.signal");
  CHECK(v.sentence.find("rank 1 died of SIGSEGV (stack overflow) in boom") != std::string::npos);
  CHECK(v.next.text.find("endless recursion") != std::string::npos);
}

TEST_CASE("the notice gives the time of a crash, not the death, which the dump delays") {
  Job job(3);
  job.notice(1, kSegv, 12).crash_dump();
  job.died(0, exited(1), 12.4).died(1, kSegv, 14).died(2, exited(1), 12.5).ended(exited(1));
  const Verdict v = diagnose(job.facts);
  CHECK(v.ranks == RankSet{1});
  CHECK(v.id == "crash.signal");
}

TEST_CASE("peers that abort because of a broken connection are followers") {
  Job job(4);
  job.died(2, kKill, 12);
  for (base::Rank r : {0, 1, 3}) {
    job.notice(r, kAbrt, 12.1).died(r, kAbrt, 12.3);
  }
  job.ended(exited(1));
  const Verdict v = diagnose(job.facts);
  CHECK(v.id == "crash.killed");
  CHECK(v.ranks == RankSet{2});
  CHECK(v.signal == kKill);
  CHECK(v.next.text.find("memory") != std::string::npos);
}

TEST_CASE("an abort") {
  Job job(2);
  job.notice(0, kAbrt, 3).died(0, kAbrt, 3.2);
  terminate_others(job, 0, 4);
  CHECK(diagnose(job.facts).id == "crash.signal");
  CHECK(diagnose(job.facts).ranks == RankSet{0});
}

TEST_CASE("an exception ends one rank with status 1, the launcher ends the others") {
  Job job(4);
  job.died(3, exited(1), 8);
  terminate_others(job, 3, 8.2);
  const Verdict v = diagnose(job.facts);
  CHECK(v.id == "exit.error");
  CHECK(v.kind == model::VerdictKind::exit);
  CHECK(v.exit_code == 1);
  CHECK(v.ranks == RankSet{3});
  CHECK(v.sentence == "exit: rank 3 exited with status 1 after 8 s; ranks 0-2 were ended after it");
}

TEST_CASE("SIGTERM from the launcher is not the cause even if its victim is reaped first") {
  Job job(3);
  job.notice(0, kTerm, 7.9, Job::kAgentPid).died(0, kTerm, 7.9).died(1, exited(3), 8).died(2, kTerm, 8.1);
  job.ended(exited(1));
  const Verdict v = diagnose(job.facts);
  CHECK(v.ranks == RankSet{1});
  CHECK(v.exit_code == 3);
}

TEST_CASE("SIGTERM from outside is the cause, with its sender") {
  Job job(2);
  job.notice(1, kTerm, 7, 4242).died(1, kTerm, 7.1);
  terminate_others(job, 1, 8);
  const Verdict v = diagnose(job.facts);
  CHECK(v.id == "crash.killed");
  CHECK(v.ranks == RankSet{1});
  CHECK(v.sentence.find("was killed by SIGTERM (sent by pid 4242)") != std::string::npos);
}

TEST_CASE("a sender alone does not make a death a consequence") {
  Job job(2);
  job.died(1, kTerm, 7);
  job.record(1).death.cause_hint = "SIGTERM from pid 4242";
  terminate_others(job, 1, 8);
  CHECK(diagnose(job.facts).ranks == RankSet{1});
}

TEST_CASE("a handled SIGTERM is not a crash") {
  Job job(1);
  job.notice(0, kTerm, 7, 4242).died(0, exited(0), 9).ended(0);
  CHECK(diagnose(job.facts).kind == model::VerdictKind::none);
}

TEST_CASE("all ranks fail within milliseconds: the earliest, with low confidence") {
  Job job(4);
  job.died(2, exited(1), 5.001).died(0, exited(1), 5.004).died(1, exited(1), 5.01).died(3, exited(1), 5.02);
  job.agent_died(exited(1), 6).ended(exited(1));
  const Verdict v = diagnose(job.facts);
  CHECK(v.ranks == RankSet{2});
  CHECK(v.id == "exit.error");
  CHECK(v.confidence == model::Confidence::low);
}

TEST_CASE("a rank that exits cleanly is the cause of its peers' connection errors") {
  Job job(4);
  job.died(1, exited(0), 5).died(0, exited(1), 5.3);
  terminate_others(job, 1, 5.6);
  const Verdict v = diagnose(job.facts);
  CHECK(v.id == "exit.left_early");
  CHECK(v.kind == model::VerdictKind::exit);
  CHECK(v.ranks == RankSet{1});
  CHECK(v.exit_code == 0);
  CHECK(v.sentence ==
        "exit: rank 1 left early (exit status 0) after 5 s; rank 0 exited with status 1 "
        "0.3 s "
        "later, then ranks 2-3 were ended");
}

TEST_CASE("most ranks had finished: a rank that fails at the end failed by itself") {
  Job job(4);
  job.died(0, exited(0), 5)
      .died(1, exited(0), 5)
      .died(2, exited(0), 5)
      .died(3, exited(1), 5.3)
      .ended(exited(1));
  CHECK(diagnose(job.facts).ranks == RankSet{3});
  Job crash(4);
  crash.died(0, exited(0), 5).died(3, kSegv, 5.3);
  terminate_others(crash, 3, 5.6);
  CHECK(diagnose(crash.facts).ranks == RankSet{3});
}

TEST_CASE("an unreadable status is reported as unknown") {
  Job job(2);
  job.died(1, -1, 4);
  terminate_others(job, 1, 5);
  const Verdict v = diagnose(job.facts);
  CHECK(v.id == "exit.unknown");
  CHECK(v.ranks == RankSet{1});
}

TEST_CASE("a launcher that dies first is named as such") {
  Job job(2);
  job.agent_died(kKill, 3).died(0, exited(1), 3.5).died(1, exited(1), 3.6).ended(kKill);
  const Verdict v = diagnose(job.facts);
  CHECK(v.id == "crash.launcher");
  CHECK(v.ranks.empty());
  CHECK(v.sentence.starts_with("crash: the launcher torchrun was killed by SIGKILL after 3 s"));
}

TEST_CASE("a launcher that was told to stop ends its ranks") {
  Job job(2);
  job.died(0, kTerm, 3, "ended by the launcher")
      .died(1, kTerm, 3, "ended by the launcher")
      .agent_died(exited(1), 3.2)
      .ended(exited(1));
  const Verdict v = diagnose(job.facts);
  CHECK(v.id == "exit.launcher");
  CHECK(v.ranks.empty());
}

TEST_CASE("a command without ranks is rank 0") {
  Job job(0);
  job.facts.run.processes[0].role = model::ProcessRole::other;
  job.facts.run.processes[0].comm = "false";
  job.agent_died(exited(3), 1).ended(exited(3));
  Verdict v = diagnose(job.facts);
  CHECK(v.id == "exit.error");
  CHECK(v.exit_code == 3);
  CHECK(v.ranks == RankSet{0});
  job.agent_died(kSegv, 1).ended(kSegv);
  v = diagnose(job.facts);
  CHECK(v.id == "crash.signal");
  CHECK(v.kind == model::VerdictKind::crash);
  job.facts.run.processes.clear();
  v = diagnose(job.facts);
  CHECK(v.id == "crash.signal");
  CHECK(v.ranks == RankSet{0});
}

TEST_CASE("after a restart only the last attempt counts") {
  Job job(2);
  job.died(0, exited(1), 3);
  model::ProcessRecord again = job.record(0);
  again.pid = 300;
  again.seen_s = 4;
  again.death = {};
  job.facts.run.processes.push_back(again);
  job.died(0, exited(0), 20).died(1, exited(0), 20).agent_died(0, 21).ended(0);
  Verdict v = diagnose(job.facts);
  CHECK(v.kind == model::VerdictKind::none);
  REQUIRE(v.evidence.size() == 1);
  CHECK(v.evidence[0] == "at 3.00 s, before a restart: rank 0 exited with status 1");
  CHECK(v.sentence.ends_with("; this was attempt 2 of the ranks"));
  job.died(1, exited(7), 20).ended(exited(1));
  v = diagnose(job.facts);
  CHECK(v.ranks == RankSet{1});
  CHECK(v.sentence.find("attempt 2") != std::string::npos);
  // The first attempt's end is listed once.
  CHECK(std::count_if(v.evidence.begin(), v.evidence.end(), [](const std::string& line) {
          return line.find("at 3.00 s") != std::string::npos;
        }) == 1);
}

TEST_CASE("a hang that a restart of the ranks ended is over") {
  Job job(2);
  job.all(in_all_reduce()).rank(1, in_sleep()).hang_dump();
  job.facts.dump->why = model::DumpReason::hang;
  model::Stall& stall = job.facts.run.stalls[0];
  stall.at_s = 5;
  stall.verdict = {.id = "hang.stuck", .kind = model::VerdictKind::hang, .ranks = {1}};
  stall.action = model::HangAction::restart;
  job.died(0, kTerm, 6).died(1, kTerm, 6);
  for (const int rank : {0, 1}) {
    job.record(rank).death.follower = true;
    model::ProcessRecord again = job.record(rank);
    again.pid = 300 + rank;
    again.seen_s = 9;
    again.death = {};
    job.facts.run.processes.push_back(again);
  }
  stall.cleared_s = 6;
  stall.restarted_s = 9;
  SUBCASE("if the rest of the run succeeds") {
    job.died(0, exited(0), 20).died(1, exited(0), 20).agent_died(0, 21).ended(0);
    const Verdict v = diagnose(job.facts);
    CHECK(v.kind == model::VerdictKind::none);
    REQUIRE(v.evidence.size() == 1);
    CHECK(v.evidence[0].find("rank 1 stalled the job") != std::string::npos);
    CHECK(v.evidence[0].ends_with("then xpurun had the ranks restarted"));
  }
  SUBCASE("if a rank fails after it") {
    job.died(0, exited(7), 20).ended(exited(1));
    const Verdict v = diagnose(job.facts);
    CHECK(v.kind == model::VerdictKind::exit);
    CHECK(v.ranks == RankSet{0});
  }
}

TEST_CASE("a stall that the job's own watchdog ended is still a hang") {
  Job job(4);
  job.all(in_all_reduce()).rank(2, in_sleep()).hang_dump();
  job.facts.dump->why = model::DumpReason::hang;
  job.facts.run.stalls[0].verdict = {.id = "hang.stuck", .kind = model::VerdictKind::hang, .ranks = {2}};
  model::DumpManifest dump = *job.facts.dump;
  job.died(0, kAbrt, 600);
  terminate_others(job, 0, 601);
  job.facts.dump = dump;  // the state at the time of the dump
  CHECK(diagnose(job.facts).kind == model::VerdictKind::hang);
  CHECK(diagnose(job.facts).ranks == RankSet{2});
  // For the detector, a stall whose ranks have died is cleared.
  job.facts.run.stalls[0].cleared_s = 602;
  CHECK(diagnose(job.facts).kind == model::VerdictKind::hang);
  // A crash of the culprit itself is a crash.
  job.record(2).death.at_s = 599;
  job.record(2).death.wait_status = base::WaitStatus(kSegv);
  job.record(2).death.cause_hint.clear();
  job.record(2).death.follower = false;
  CHECK(diagnose(job.facts).kind == model::VerdictKind::crash);
}

namespace {

// The crashed thread of rank r as the dump finds it: asleep in the crash handler.
void crash_in_handler(Job& job, base::Rank r, const Stack& frames) {
  job.rank(r, frames, 0);
  model::ThreadStack& t = job.stacks_of(r).threads.front();
  t.wchan = "poll_schedule_timeout";
  t.crashed = true;
}

bool says(const Verdict& v, std::string_view words) {
  const auto has = [&](const std::string& line) { return line.find(words) != std::string::npos; };
  return std::any_of(v.evidence.begin(), v.evidence.end(), has) ||
         std::any_of(v.details.begin(), v.details.end(), has);
}

}  // namespace

TEST_CASE("evidence of a crash does not mention the wait in the crash handler") {
  Job job(2);
  job.all(in_all_reduce()).notice(1, kSegv, 12).crash_dump();
  crash_in_handler(job, 1, in_boom());
  job.died(1, kSegv, 12.5).ended(kSegv);
  const Verdict v = diagnose(job.facts);
  CHECK(v.id == "crash.signal");
  CHECK(says(v, "innermost C function of rank 1: strlen (libc.so.6)"));
  // Only with -v: the sentence has it.
  const std::string crashed = "dead: rank 1 (1 of 2) crashed in boom (train.py:20: string_at)";
  CHECK(std::count(v.details.begin(), v.details.end(), crashed) == 1);
  CHECK(std::count(v.evidence.begin(), v.evidence.end(), crashed) == 0);
  CHECK_FALSE(says(v, "poll_schedule_timeout"));
  CHECK_FALSE(says(v, "for 0.0 s, using"));
  CHECK_FALSE(says(v, "stuck: rank 1"));
}

TEST_CASE("if the interrupted state cannot be read, the frames of the crash handler are left out") {
  Stack frames = {native("poll", "libc.so.6"), native("tell_and_wait", "libxpurun_preload.so"),
                  native("on_fatal_signal", "libxpurun_preload.so"), native("__restore_rt", "libc.so.6")};
  const Stack boom = in_boom();
  frames.insert(frames.end(), boom.begin(), boom.end());
  Job job(1);
  job.notice(0, kSegv, 12).crash_dump();
  crash_in_handler(job, 0, frames);
  job.died(0, kSegv, 12.5).ended(kSegv);
  const Verdict v = diagnose(job.facts);
  CHECK(v.where.function == "boom");
  CHECK(says(v, "innermost C function of rank 0: strlen (libc.so.6)"));
  job.stacks_of(0).threads.front().frames.resize(4);  // only frames of the crash handler
  CHECK(diagnose(job.facts).where.function.empty());
}

TEST_CASE("a stack that was taken before the crash is not where the rank crashed") {
  Job job(2);
  job.notice(1, kSegv, 12).crash_dump();
  job.rank(1, in_boom()).died(1, kSegv, 12.9);
  terminate_others(job, 1, 13.5);
  job.stacks_of(1).threads.front().crashed = false;
  CHECK(diagnose(job.facts).ranks == RankSet{1});
  CHECK(diagnose(job.facts).where.function.empty());
  job.facts.run.crashes.front().signal = SIGTERM;  // which can come at any place
  job.record(1).death.wait_status = base::WaitStatus(kTerm);
  CHECK(diagnose(job.facts).where.function == "boom");
}

TEST_CASE("a crash without stacks has no position, and the next step does not mention stacks") {
  Job job(1);
  job.record(0).function = "load_batch";  // the last sample, perhaps seconds earlier
  job.record(0).file = "train.py";
  job.died(0, kSegv, 12.5).ended(kSegv);
  Verdict v = diagnose(job.facts);
  CHECK(v.id == "crash.signal");
  CHECK(v.where.function.empty());
  CHECK(v.sentence == "crash: rank 0 died of SIGSEGV after 12 s");
  CHECK(v.next.line().find("C++ stack") == std::string::npos);
  CHECK(v.next.command == "ulimit -c unlimited");
  // Stacks of an earlier dump do not count as stacks of the crash.
  job.all(in_sleep());
  job.facts.run.dumps.push_back({.n = 1, .why = model::DumpReason::request, .dir = "dumps/1-hang"});
  v = diagnose(job.facts);
  CHECK(v.where.function.empty());
  CHECK(v.next.line().find("C++ stack") == std::string::npos);
  job.notice(0, kSegv, 12).crash_dump();
  CHECK(diagnose(job.facts).next.text == "see the C++ stack of the crashed thread in dumps/1-crash");
}

TEST_CASE("an abort because of an uncaught C++ exception names the exception") {
  Job job(4);
  job.all(in_all_reduce()).rank(2, in_compute());
  job.notice(2, kAbrt, 12).crash_dump();
  job.died(2, kAbrt, 12.5).agent_died(exited(1), 13).ended(exited(1));
  model::ThreadStack& thread = job.stacks_of(2).threads[0];
  thread.crashed = true;
  thread.cpp_exception = {.type = "c10::DistBackendError", .message = "watchdog timed out\nand more"};
  const Verdict v = diagnose(job.facts);
  CHECK(v.id == "crash.signal");
  CHECK(v.sentence.find("died of SIGABRT (c10::DistBackendError: watchdog timed out) in ") !=
        std::string::npos);
}

TEST_CASE("a C++ thread that needs Python after the end of Python has begun") {
  Stack frames = {native("gsignal", "libc.so.6"),
                  native("std::terminate", "libstdc++.so.6"),
                  native("_Unwind_ForcedUnwind", "libgcc_s.so.1"),
                  native("pthread_exit", "libc.so.6"),
                  native("PyThread_exit_thread", "python3.11"),
                  native("PyEval_AcquireThread", "python3.11"),
                  native("libtorch_python.so+0x1f", "libtorch_python.so")};
  const Stack outside = {native("libstdc++.so.6+0xd44a3", "libstdc++.so.6"),
                         native("start_thread", "libc.so.6"), native("clone3", "libc.so.6")};
  Job job(2);
  std::string function = "c10d::ProcessGroupGloo::runLoop";
  std::string next = "call torch.distributed.destroy_process_group() at the end of the program";
  SUBCASE("of torch.distributed") {}
  SUBCASE("of another library") {
    function = "torch::autograd::Engine::thread_main";
    next = "end the threads of libtorch_cpu.so before the program ends";
  }
  frames.push_back(native(function, "libtorch_cpu.so"));
  frames.insert(frames.end(), outside.begin(), outside.end());
  job.notice(1, kAbrt, 12).crash_dump();
  crash_in_handler(job, 1, frames);
  job.died(1, kAbrt, 12.5).ended(kAbrt);
  const Verdict v = diagnose(job.facts);
  CHECK(v.id == "crash.signal");
  CHECK(v.where.function == function);
  CHECK_MESSAGE(v.sentence.find("died of SIGABRT (a C++ thread needed Python, which was ending) in " +
                                function + " (libtorch_cpu.so) after 12 s") != std::string::npos,
                v.sentence);
  CHECK(v.next.text == next);
  // Without a Python that ends, std::terminate has another reason.
  job.stacks_of(1).threads.front().frames.erase(job.stacks_of(1).threads.front().frames.begin() + 4);
  CHECK(diagnose(job.facts).sentence.find("which was ending") == std::string::npos);
}

TEST_CASE("an abort is told by what called it, and a foreign message of gloo with its reasons") {
  Job job(2);
  job.all(in_all_reduce()).notice(1, kAbrt, 12).crash_dump();
  job.died(1, kAbrt, 12.5).ended(kAbrt);
  model::ThreadStack& thread = job.stacks_of(1).threads[0];
  thread.crashed = true;
  thread.frames = {native("__pthread_kill_implementation", "libc.so.6"),
                   native("gsignal", "libc.so.6"),
                   native("abort", "libc.so.6"),
                   native("std::terminate", "libstdc++.so.6"),
                   native("__cxa_throw", "libstdc++.so.6"),
                   native("gloo::transport::tcp::Pair::read", "libgloo.so.0"),
                   native("clone3", "libc.so.6")};
  thread.cpp_exception = {
      .type = "gloo::EnforceNotMet",
      .message = "[enforce fail at pair.cc:510] op.preamble.length <= op.nbytes. 48 vs 4"};
  const Verdict v = diagnose(job.facts);
  CHECK(v.where.function == "gloo::transport::tcp::Pair::read");
  CHECK(says(v, "innermost C function of rank 1: gloo::transport::tcp::Pair::read (libgloo.so.0)"));
  CHECK(says(v, "gloo got a message of an unexpected size: ranks make different calls"));

  model::ThreadStack other = thread;
  other.tid = 105;
  job.stacks_of(1).threads.push_back(other);
  job.stacks_of(1).threads[0].crashed = false;
  job.stacks_of(1).threads[0].frames = in_all_reduce();
  const Verdict with_main = diagnose(job.facts);
  CHECK(with_main.sentence.find(
            "in gloo::transport::tcp::Pair::read (libgloo.so.0), while its main thread was in "
            "all_reduce (train.py:44) after 12 s") != std::string::npos);
  CHECK(with_main.where.line == 44);
  job.stacks_of(1).threads.pop_back();
  job.stacks_of(1).threads[0] = other;

  job.stacks_of(1).threads[0].frames.resize(3);  // nothing else is known
  CHECK(says(diagnose(job.facts), "innermost C function of rank 1: __pthread_kill_implementation"));
}

TEST_CASE("a crash in a library without symbols names the library") {
  Job job(2);
  job.all(in_all_reduce()).notice(1, kSegv, 12).crash_dump();
  job.died(1, kSegv, 12.5).ended(kSegv);
  model::ThreadStack crashed = job.stacks_of(1).threads[0];
  crashed.tid = 105;
  crashed.main = false;
  crashed.crashed = true;
  crashed.frames = {native("pthread_kill", "libc.so.6"),
                    native("gsignal", "libc.so.6"),
                    native("libc.so.6+0x45330", "libc.so.6"),
                    native("libcupti.so.13+0x7fed0", "libcupti.so.13"),
                    native("libcupti.so.13+0x803ed", "libcupti.so.13"),
                    native("libc.so.6+0x9cb84", "libc.so.6")};
  job.stacks_of(1).threads[0].crashed = false;
  job.stacks_of(1).threads.push_back(crashed);
  const Verdict v = diagnose(job.facts);
  CHECK_MESSAGE(v.sentence.find("rank 1 died of SIGSEGV") != std::string::npos, v.sentence);
  CHECK_MESSAGE(v.sentence.find(" in libcupti.so.13, while its main thread was in ") != std::string::npos,
                v.sentence);
}

TEST_CASE("signals that name their reason have it as the next step") {
  const std::vector<std::pair<int, std::string>> cases = {
      {SIGXCPU, "limit of CPU time"}, {SIGXFSZ, "limit of a file's size"}, {SIGUSR1, "who sent the signal"}};
  for (const auto& one : cases) {
    Job job(1);
    job.died(0, one.first, 12).ended(one.first);
    CAPTURE(one.first);
    CHECK(diagnose(job.facts).next.text.find(one.second) != std::string::npos);
  }
  Job job(1);
  job.notice(0, SIGTERM, 12, Job::pid_of(0)).died(0, SIGTERM, 12.1).ended(SIGTERM);
  job.record(0).death.cause_hint = "SIGTERM from pid 100";
  const Verdict v = diagnose(job.facts);
  CHECK(v.sentence.find("was killed by SIGTERM (sent by the process itself)") != std::string::npos);
  CHECK(v.next.text == "find out why the program sends itself the signal");
}

TEST_CASE("ranks that were ended at the same moment share a line, whatever is noticed between them") {
  Job job(3);
  job.notice(1, kSegv, 12).died(1, kSegv, 12.5);
  job.died(0, kTerm, 13, "ended by the launcher");
  job.agent_died(exited(1), 13.01);
  job.died(2, kTerm, 13.02, "ended by the launcher");
  job.ended(exited(1));
  CHECK(says(diagnose(job.facts), "ranks 0,2 were killed by SIGTERM (ended by the launcher"));
  job.record(2).death.at_s = 15;
  CHECK(says(diagnose(job.facts), "ranks 0,2 were killed by SIGTERM (ended by the launcher"));
  CHECK_FALSE(says(diagnose(job.facts), "torchrun"));
}

TEST_CASE("gloo ends a rank because other calls met that were not recorded: the stacks say who departed") {
  const auto met = [](int ranks, base::Rank dead, const std::vector<base::Rank>& evaluating) {
    Job job(ranks);
    job.all(in_ddp_backward()).notice(dead, kAbrt, 12);
    for (const base::Rank r : evaluating) {
      job.rank(r, in_all_reduce());
    }
    job.crash_dump().died(dead, kAbrt, 12.5).ended(kAbrt);
    model::ThreadStack thread;
    thread.tid = 105;
    thread.crashed = true;
    thread.frames = {native("abort", "libc.so.6"),
                     native("gloo::transport::tcp::Pair::read", "libgloo.so.0")};
    thread.cpp_exception = {
        .type = "gloo::EnforceNotMet",
        .message = "[enforce fail at pair.cc:510] op.preamble.length <= op.nbytes. 184 vs 4"};
    job.stacks_of(dead).threads.front().crashed = false;
    job.stacks_of(dead).threads.push_back(thread);
    return diagnose(job.facts);
  };
  const Verdict own = met(3, 2, {2});
  CHECK(own.id == "crash.mismatch");
  CHECK(own.ranks == RankSet{2});
  CHECK(own.where.line == 44);
  CHECK(
      own.sentence.find("different calls met: rank 2 was in all_reduce (train.py:44), ranks 0-1 in backward "
                        "(all_reduce) at train.py:40; rank 2 died of SIGABRT") != std::string::npos);
  CHECK(own.next.text.find("find out why rank 2 came to all_reduce (train.py:44)") == 0);
  // The rank that dies is not always the one that has departed.
  const Verdict victim = met(4, 0, {3});
  CHECK(victim.ranks == RankSet{3});
  CHECK(victim.sentence.find("rank 0 died of SIGABRT") != std::string::npos);
  CHECK(victim.confidence == model::Confidence::medium);
  const Verdict tie = met(2, 1, {1});
  CHECK(tie.id == "crash.mismatch");
  CHECK(tie.ranks.empty());
  // In one call, only the sizes can differ, which are not known.
  CHECK(met(3, 2, {}).id == "crash.signal");
}
