// What a still rank waits for outside of its process: a prompt, a FIFO, processes that have ended; and
// threads that have ended or hold a lock.
#include "tests/unit/diagnosis/job.h"

#include <doctest/doctest.h>

#include <string>

using namespace xpurun;
using namespace xpurun::report;
using namespace xpurun::report::testing;
using model::RankSet;
using model::Verdict;

namespace {

constexpr const char* kProgram = "/home/u/train.py";

Stack in_open() {
  return {native("openat", "libc.so.6"), py("load", kProgram, 3, "open"), py("<module>", kProgram, 90)};
}

Stack in_shared_queue() {
  return {native("read", "libc.so.6"),
          py("Connection._recv", "/usr/lib/python3.11/multiprocessing/connection.py", 379),
          py("Queue.get", "/usr/lib/python3.11/multiprocessing/queues.py", 103, "self._recv_bytes"),
          py("consume", kProgram, 8, "q.get"), py("<module>", kProgram, 90)};
}

bool sentence_has(const Verdict& v, const std::string& words) {
  return v.sentence.find(words) != std::string::npos;
}

model::ProcessRecord worker_of(base::Rank rank, base::Pid pid) {
  model::ProcessRecord p;
  p.pid = pid;
  p.ppid = Job::pid_of(rank);
  p.role = model::ProcessRole::worker;
  p.rank = rank;
  p.cmdline = {"python3", "train.py"};
  return p;
}

model::ProcessRecord ended_worker(base::Rank rank, base::Pid pid, int wait_status, double at_s) {
  model::ProcessRecord p = worker_of(rank, pid);
  p.death = {.happened = true, .order = 1, .at_s = at_s, .wait_status = base::WaitStatus(wait_status)};
  return p;
}

}  // namespace

TEST_CASE("a FIFO that nobody has opened at its other end") {
  Job job(2);
  job.all(in_all_reduce()).rank(1, in_open()).hang_dump();
  model::ThreadStack& main = job.stacks_of(1).threads.front();
  main.syscall = "openat";
  main.target = "/data/pipe";
  main.wchan = "wait_for_partner";
  Verdict v = diagnose(job.facts);
  CHECK(v.id == "hang.stuck");
  CHECK(v.ranks == RankSet{1});
  CHECK(sentence_has(
      v, "load (train.py:3: open /data/pipe) for 10 s; no process has opened the other end of this FIFO"));
  CHECK(v.next.text.find("the other end of /data/pipe") != std::string::npos);
  CHECK(v.next.command == "fuser -v /data/pipe");
  // Another file that does not open.
  main.wchan = "nfs4_do_open";
  v = diagnose(job.facts);
  CHECK_FALSE(sentence_has(v, "FIFO"));
  CHECK(v.next.command == "timeout 5 stat /data/pipe");
}

TEST_CASE("a rank at a prompt") {
  Job job(2);
  job.all(in_all_reduce());
  std::string what;
  SUBCASE("input()") {
    job.rank(
        1, {native("read", "libc.so.6"), py("confirm", kProgram, 9, "input"), py("<module>", kProgram, 90)});
    what = "line on its standard input in confirm (train.py:9: input)";
  }
  SUBCASE("input() of an interpreter without columns") {
    job.rank(
        1, {native("read", "libc.so.6"), native("builtin_input", "python3.10"), py("confirm", kProgram, 9)});
    what = "line on its standard input in confirm (train.py:9)";
  }
  SUBCASE("standard input is read") {
    job.rank(1, {native("read", "libc.so.6"), py("ask", kProgram, 9, "sys.stdin.readline")});
    what = "line on its standard input in ask (train.py:9: sys.stdin.readline)";
  }
  SUBCASE("breakpoint()") {
    job.rank(1, {native("read", "libc.so.6"), native("builtin_input", "python3.11"),
                 py("Cmd.cmdloop", "/usr/lib/python3.11/cmd.py", 126, "input"),
                 py("Pdb.interaction", "/usr/lib/python3.11/pdb.py", 360),
                 py("Bdb.trace_dispatch", "/usr/lib/python3.11/bdb.py", 94), py("train", kProgram, 9)});
    what = "command on its standard input (pdb) in train (train.py:9: Bdb.trace_dispatch)";
  }
  job.hang_dump();
  const Verdict v = diagnose(job.facts);
  CHECK(v.id == "hang.stuck");
  CHECK(v.ranks == RankSet{1});
  CHECK_MESSAGE(sentence_has(v, "rank 1 has been waiting for a " + what + " for 10 s; rank 0 waits for it"),
                v.sentence);
  CHECK(v.next.text.starts_with("remove the prompt or the breakpoint"));
}

TEST_CASE("a program that waits for its standard input") {
  Job job(1);
  job.rank(0, {native("wait4", "libc.so.6"), py("Popen.wait", "/usr/lib/python3.11/subprocess.py", 1264),
               py("run", "/usr/lib/python3.11/subprocess.py", 550), py("prepare", kProgram, 3)})
      .hang_dump();
  job.seen(0).helpers = {{.pid = 77, .name = "cat", .awaited = true, .reads_input = true, .still_s = 8}};
  Verdict v = diagnose(job.facts);
  CHECK_MESSAGE(sentence_has(v, "; its child process cat (pid 77) has waited for its standard input for 8 s"),
                v.sentence);
  CHECK(v.next.text.find("stdin=subprocess.DEVNULL") != std::string::npos);
  job.seen(0).helpers.front().reads_input = false;
  v = diagnose(job.facts);
  CHECK(sentence_has(v, "; its child process cat (pid 77) has made no progress for 8 s"));
  CHECK(v.next.text.find("DEVNULL") == std::string::npos);
}

TEST_CASE("the producers of a queue have all ended") {
  Job job(1);
  job.rank(0, in_shared_queue()).hang_dump();
  job.facts.dump->at_s = 60;
  auto& processes = job.facts.run.processes;
  processes.push_back(ended_worker(0, 900, exited(0), 20));
  Verdict v;
  SUBCASE("one") {
    v = diagnose(job.facts);
    CHECK_MESSAGE(
        sentence_has(v, "; the only process that it had started has ended: pid 900 exited with status 0"),
        v.sentence);
  }
  SUBCASE("several") {
    processes.push_back(ended_worker(0, 901, exited(3), 21));
    processes.push_back(ended_worker(0, 902, kKill, 22));
    processes.push_back(ended_worker(0, 903, exited(0), 23));
    processes.push_back(worker_of(0, 904));
    processes.back().cmdline = {"python3", "-c",
                                "from multiprocessing.resource_tracker import main; main(5)"};
    v = diagnose(job.facts);
    CHECK_MESSAGE(
        sentence_has(
            v,
            "; all 4 processes that it had started have ended: pid 900 exited with status 0, pid 901 "
            "exited with status 3, pid 902 was killed by SIGKILL, and another one"),
        v.sentence);
  }
  if (!v.id.empty()) {
    CHECK(v.next.text.starts_with("let each process put a mark at its end"));
  }
  SUBCASE("unless one lives") {
    processes.push_back(worker_of(0, 905));
    CHECK_FALSE(sentence_has(diagnose(job.facts), "have ended"));
  }
  SUBCASE("or ended only after the dump") {
    processes.push_back(ended_worker(0, 905, exited(0), 70));
    CHECK_FALSE(sentence_has(diagnose(job.facts), "ended: pid"));
  }
  SUBCASE("or the rank does not take from them") {
    job.rank(0, in_sleep());
    CHECK_FALSE(sentence_has(diagnose(job.facts), "ended: pid"));
  }
}

TEST_CASE("the thread that holds a lock of threading") {
  Job job(1);
  job.rank(0, in_lock()).hang_dump();
  model::ThreadStack saver;
  saver.tid = 105;
  saver.python_name = "saver";
  saver.state = 'S';
  saver.frames = {native("sem_wait", "libc.so.6"), py("Queue.get", "/usr/lib/python3.11/queue.py", 171),
                  py("save_all", kProgram, 6, "q.get"),
                  py("Thread.run", "/usr/lib/python3.11/threading.py", 975)};
  job.stacks_of(0).threads.push_back(saver);
  job.stacks_of(0).threads.front().lock = {.kind = "lock", .path = {}, .pids = {}, .tid = 105};
  Verdict v = diagnose(job.facts);
  CHECK_MESSAGE(
      sentence_has(v, "for 10 s: thread 105 (saver) holds the lock, in save_all (train.py:6: q.get)"),
      v.sentence);
  // It waits for a lock itself, which the main thread holds.
  model::ThreadStack& other = job.stacks_of(0).threads.back();
  other.frames = {native("sem_wait", "libc.so.6"), py("flush", kProgram, 80, "log_lock.acquire"),
                  py("Thread.run", "/usr/lib/python3.11/threading.py", 975)};
  other.lock = {.kind = "lock", .path = {}, .pids = {}, .tid = job.stacks_of(0).threads.front().tid};
  v = diagnose(job.facts);
  CHECK_MESSAGE(
      sentence_has(v,
                   "thread 105 (saver) in flush (train.py:80: log_lock.acquire), each for a lock that the "
                   "other holds"),
      v.sentence);
  other.lock = {};
  CHECK(sentence_has(diagnose(job.facts), ", each perhaps for a lock that the other holds"));
}

TEST_CASE("a thread had raised in a job that ended well") {
  Job job(2);
  job.died(0, exited(0), 58).died(1, exited(0), 58).ended(0);
  model::PythonException x{
      .kind = model::ExceptionKind::thread, .pid = Job::pid_of(1), .rank = 1, .thread = "saver", .at_s = 12};
  x.chain.push_back({.type = "OSError",
                     .message = "no space",
                     .frames = {{.file = kProgram, .line = 5, .function = "save"}}});
  job.facts.run.exceptions.push_back(x);
  const Verdict v = diagnose(job.facts);
  CHECK(v.id == "none.thread_raised");
  CHECK(v.kind == model::VerdictKind::none);
  CHECK(v.ranks == RankSet{1});
  CHECK(v.sentence ==
        "all 2 ranks finished normally in 60 s, but thread saver of rank 1 raised OSError: no space at "
        "train.py:5 (in "
        "save)");
  CHECK(v.exception.type == "OSError");
  // A thread of a library raises at the end of many healthy programs.
  job.facts.run.exceptions.front().chain.front().frames = {
      {.file = "/usr/lib/python3/dist-packages/torch/utils/data/_utils/pin_memory.py",
       .line = 28,
       .function = "do"}};
  CHECK(diagnose(job.facts).id == "none.finished");
}

TEST_CASE("a rank that waits for the name server waits for no rank") {
  const Stack join = {py("init_process_group", "/venv/torch/distributed/distributed_c10d.py", 900),
                      py("main", "/home/u/train.py", 3)};
  const auto with_resolver = [&](std::vector<const char*> functions) {
    Stack out;
    for (const char* f : functions) {
      out.push_back(native(f, "libc.so.6"));
    }
    out.insert(out.end(), join.begin(), join.end());
    return out;
  };
  Job job(2);
  job.all(join).rank(1, with_resolver({"__poll", "__res_context_send", "gethostbyaddr_r", "getnameinfo"}));
  job.hang_dump();
  const Verdict v = diagnose(job.facts);
  CHECK(v.ranks == model::RankSet{1});
  CHECK_MESSAGE(v.sentence.find(": it waits for an answer of the name server") != std::string::npos,
                v.sentence);
  CHECK(v.next.text.find("name servers of /etc/resolv.conf") != std::string::npos);
  Job connects(2);
  connects.all(join).rank(1, with_resolver({"__poll", "connect"})).hang_dump();
  CHECK(diagnose(connects.facts).sentence.find("name server") == std::string::npos);
}

TEST_CASE("a pool whose processes all wait for a task, none with the one that is missing") {
  const model::Frame get = py("Pool.map", "/usr/lib/python3.11/multiprocessing/pool.py", 367);
  const model::Frame wait = py("Event.wait", "/usr/lib/python3.11/threading.py", 622);
  const model::Frame work = py("worker", "/usr/lib/python3.11/multiprocessing/pool.py", 114);
  const model::Frame recv = py("SimpleQueue.get", "/usr/lib/python3.11/multiprocessing/queues.py", 365);
  const model::Frame task = py("risky", "/home/u/train.py", 5);
  const model::Frame main = py("<module>", "/home/u/train.py", 8);
  Job job(1);
  job.rank(0, {wait, py("ApplyResult.get", get.file, 768), get, main});
  job.worker(0, {recv, work, main}).worker(0, {recv, work, main}).hang_dump();
  Verdict v = diagnose(job.facts);
  CHECK_MESSAGE(
      sentence_has(v, "; all 2 processes of its pool wait for a task, and none has the one that is "),
      v.sentence);
  CHECK(v.next.text.starts_with("find out which process of the pool has ended with the task"));
  job.worker(0, {native("read", "libc.so.6"), task, work, main});
  CHECK_FALSE(sentence_has(diagnose(job.facts), "wait for a task"));
}

TEST_CASE("a queue that is empty and not done") {
  const std::string file = "/usr/lib/python3.11/queue.py";
  Job job(1);
  job.rank(0, {py("Condition.wait", "/usr/lib/python3.11/threading.py", 327), py("Queue.join", file, 90),
               py("<module>", "/home/u/train.py", 14, "Queue.join")});
  job.hang_dump();
  auto& threads = job.stacks_of(0).threads;
  threads.front().sharers = {7};
  threads.push_back(
      {.tid = 7,
       .python_name = "consumer-0",
       .frames = {py("Condition.wait", "/usr/lib/python3.11/threading.py", 327), py("Queue.get", file, 171),
                  py("consumer", "/home/u/train.py", 6, "Queue.get")}});
  Verdict v = diagnose(job.facts);
  CHECK_MESSAGE(sentence_has(v, "task_done() was called less often than put()"), v.sentence);
  CHECK(v.title.starts_with("rank 0 waits for a task_done() that was left out in <module> (train.py:14"));
  CHECK(v.next.text.starts_with("call task_done() for each item"));
  threads.back().frames = {py("consumer", "/home/u/train.py", 10, "time.sleep")};
  CHECK_FALSE(sentence_has(diagnose(job.facts), "task_done"));
}
