// Programs without Python below a rank, files that ranks look for, and objects that nobody is left to set.
#include "tests/unit/diagnosis/job.h"

#include <doctest/doctest.h>

#include <string>

using namespace xpurun;
using namespace xpurun::report;
using namespace xpurun::report::testing;
using model::HelperObservation;
using model::RankSet;
using model::ThreadStack;
using model::Verdict;

namespace {

constexpr const char* kScript = "/home/u/train.py";

Stack in_subprocess() {
  return {native("wait4", "libc.so.6"), py("Popen.wait", "/usr/lib/python3.11/subprocess.py", 1264),
          py("run", "/usr/lib/python3.11/subprocess.py", 550), py("prepare", kScript, 3)};
}

Stack in_event() {
  return {native("sem_wait", "libc.so.6"), native("PyThread_acquire_lock_timed", "python3.11"),
          py("Condition.wait", "/usr/lib/python3.11/threading.py", 320, "waiter.acquire"),
          py("Event.wait", "/usr/lib/python3.11/threading.py", 622), py("main", kScript, 12)};
}

Stack in_loop() {
  return {native("clock_nanosleep", "libc.so.6"), py("sync", kScript, 6, "time.sleep"),
          py("<module>", kScript, 9)};
}

HelperObservation program(base::Pid pid, const std::string& name, const std::string& syscall) {
  return {.pid = pid, .name = name, .awaited = true, .syscall = syscall, .still_s = 8};
}

bool tells(const Verdict& v, const std::string& words) {
  return v.sentence.find(words) != std::string::npos;
}

Job looks_for(const std::vector<std::string>& paths) {
  Job job(static_cast<int>(paths.size()));
  job.all(in_loop()).hang_dump();
  for (size_t r = 0; r < paths.size(); ++r) {
    const auto rank = static_cast<base::Rank>(r);
    job.stacks_of(rank).threads.front().polls = {{.path = paths[r], .missing = true}};
    job.seen(rank).outside = model::OutsideWait::polling;
  }
  return job;
}

model::PythonException caught(model::ExceptionKind kind, double at_s) {
  model::PythonException x{.kind = kind, .pid = Job::pid_of(0), .rank = 0, .thread = "loader", .at_s = at_s};
  x.chain.push_back({.type = "ValueError",
                     .message = "bad shard 7",
                     .frames = {{.file = "/home/u/data.py", .line = 21, .function = "load"}}});
  return x;
}

}  // namespace

TEST_CASE("a program with a full pipe, whose reader waits for its end") {
  Job job(1);
  job.rank(0, in_subprocess()).hang_dump();
  auto& helpers = job.seen(0).helpers;
  helpers = {program(77, "seq", "write")};
  helpers[0].syscall_file = "pipe:[9]";
  helpers[0].peers = {Job::pid_of(0)};
  Verdict v = diagnose(job.facts);
  CHECK(v.id == "hang.lock");
  CHECK_MESSAGE(tells(v, ": its child seq (pid 77) cannot write to a full pipe, and the rank does not read"),
                v.sentence);
  CHECK(v.next.text.find("communicate()") != std::string::npos);
  // Another process should read.
  helpers[0].peers = {4711};
  v = diagnose(job.facts);
  CHECK_MESSAGE(tells(v, "for 8 s: it cannot write to a full pipe that pid 4711 has open and does not read"),
                v.sentence);
}

TEST_CASE("a child with a full pipe, while its parent reads another pipe") {
  Job job(1);
  job.rank(0, {native("read", "libc.so.6"), py("main", kScript, 4, "p.stdout.read")})
      .worker(0, {native("write", "libc.so.6"), py("report", "/home/u/child.py", 2, "sys.stderr.write")})
      .hang_dump();
  ThreadStack& reader = job.stacks_of(0).threads.front();
  reader.syscall = "read";
  reader.syscall_file = "pipe:[1]";
  reader.peers = {900};
  ThreadStack& writer = job.facts.stacks.back().threads.front();
  writer.state = 'S';
  writer.syscall = "write";
  writer.syscall_file = "pipe:[2]";
  writer.peers = {Job::pid_of(0)};
  const std::string words =
      ": its child (pid 900) cannot write to a full pipe in report (child.py:2: "
      "sys.stderr.write), and the rank does not read";
  CHECK_MESSAGE(tells(diagnose(job.facts), words), diagnose(job.facts).sentence);
  // The pipe that the rank reads, or one of somebody else.
  writer.syscall_file = "pipe:[1]";
  CHECK_FALSE(tells(diagnose(job.facts), "full pipe"));
  writer.syscall_file = "pipe:[2]";
  writer.peers = {4711};
  CHECK_FALSE(tells(diagnose(job.facts), "full pipe"));
  // A local socket of which the rank does not read either.
  writer.syscall_file = "socket:[2]";
  writer.peers = {Job::pid_of(0)};
  CHECK(tells(diagnose(job.facts), words));
  writer.peers.clear();
  CHECK_FALSE(tells(diagnose(job.facts), "full pipe"));
}

TEST_CASE("a rank whose output nobody reads, and one that nobody can write to") {
  Job job(2);
  job.all(in_all_reduce())
      .rank(1, {native("write", "libc.so.6"), py("log", kScript, 8, "print")})
      .hang_dump();
  ThreadStack& t = job.stacks_of(1).threads.front();
  t.syscall = "write";
  t.syscall_file = "pipe:[3]";
  t.peers = {4711};
  CHECK_MESSAGE(tells(diagnose(job.facts),
                      "; the pipe that it writes to is full, and pid 4711, which has "
                      "the other end open, does not read"),
                diagnose(job.facts).sentence);
  t.syscall = "read";
  CHECK_FALSE(tells(diagnose(job.facts), "pipe"));
  t.peers = {Job::pid_of(1)};
  CHECK(tells(diagnose(job.facts), "; no other process has the other end of this pipe open"));
}

TEST_CASE("the command below a shell decides, not the shell") {
  Job job(1);
  job.rank(0, in_subprocess()).hang_dump();
  auto& helpers = job.seen(0).helpers;
  helpers = {program(77, "sh", "wait4"), program(78, "sleep", "clock_nanosleep")};
  helpers[0].parent = Job::pid_of(0);
  helpers[1].parent = 77;
  Verdict v = diagnose(job.facts);
  CHECK_MESSAGE(tells(v,
                      "; its child process sleep (pid 78), which sh (pid 77) has started, has made no "
                      "progress for 8 s: it sleeps"),
                v.sentence);
  CHECK(v.next.text.find("timeout=") != std::string::npos);
  // It waits for a lock that the rank holds.
  helpers[1].syscall = "flock";
  helpers[1].lock = {.kind = "flock", .path = "/data/a.lock", .pids = {Job::pid_of(0)}};
  CHECK(tells(diagnose(job.facts), ": it waits for the lock on a.lock that the rank itself holds"));
  helpers[1].lock.pids = {4711};
  CHECK(tells(diagnose(job.facts), ": it waits for the lock on a.lock that pid 4711 holds"));
}

TEST_CASE("ranks that look for files of each other") {
  Job job = looks_for({"/run/flag.1", "/run/flag.0"});
  Verdict v = diagnose(job.facts);
  CHECK(v.level == model::VerdictLevel::confirmed);
  CHECK(v.ranks == RankSet{0, 1});
  CHECK(v.sentence ==
        "hang: ranks 0-1 have looked for files of each other for 10 s, none of which exists: rank 0 in "
        "sync (train.py:6: time.sleep) for flag.1, rank 1 in sync (train.py:6: time.sleep) for flag.0");
  // Their own files may come from outside of the job.
  job = looks_for({"/run/shard-0.bin", "/run/shard-1.bin"});
  v = diagnose(job.facts);
  CHECK(v.level == model::VerdictLevel::suspected);
  CHECK_MESSAGE(tells(v,
                      "; they look for files that do not exist: rank 0 for shard-0.bin, rank 1 for "
                      "shard-1.bin"),
                v.sentence);
  // The name says nothing.
  job = looks_for({"/run/b.ready", "/run/a.ready"});
  CHECK(diagnose(job.facts).level == model::VerdictLevel::suspected);
}

TEST_CASE("a rank that looks for a file while others wait for it") {
  Job job(2);
  job.all(in_all_reduce()).rank(1, in_loop()).hang_dump();
  ThreadStack& t = job.stacks_of(1).threads.front();
  t.polls = {{.path = "/etc/hosts"}, {.path = "/data/a.done", .missing = true}};
  Verdict v = diagnose(job.facts);
  CHECK(v.ranks == RankSet{1});
  CHECK_MESSAGE(tells(v, "; it looks again and again for /data/a.done, which does not exist; rank 0 waits"),
                v.sentence);
  CHECK(v.next.text.find("who should make a.done") != std::string::npos);
  t.polls = {{.path = "10.0.0.7:443", .missing = true}};
  CHECK(tells(diagnose(job.facts), "; it tries to connect to 10.0.0.7:443 again and again"));
  t.polls = {{.path = "/etc/hosts", .pids = {77}}};
  CHECK(tells(diagnose(job.facts),
              "; it asks again and again for /etc/hosts, which exists; pid 77 has the file"));
  // Work looks at files, too.
  t.polls = {{.path = "/tmp"}};
  v = diagnose(job.facts);
  CHECK_FALSE(tells(v, "/tmp"));
  CHECK(v.next.text.find("tmp") == std::string::npos);
}

TEST_CASE("a rank whose loop meets a file that is in the way, or nobody at an address") {
  Job job(2);
  job.all(in_all_reduce()).rank(1, in_loop()).hang_dump();
  job.facts.run.started_wall_ns = 1'700'000'000'000'000'000;
  ThreadStack& t = job.stacks_of(1).threads.front();
  t.polls = {{.path = "/etc/hosts"}, {.path = "/cache/build.lock", .taken = true, .made_s = 1'699'990'000}};
  Verdict v = diagnose(job.facts);
  CHECK(v.ranks == RankSet{1});
  CHECK_MESSAGE(
      tells(v,
            "; it tries again and again to make /cache/build.lock, which exists since before the job "
            "began; no process of this host has the file open; rank 0 waits"),
      v.sentence);
  CHECK(v.next.text.find("remove build.lock if a program that has ended left it there") != std::string::npos);
  t.polls[1].made_s = 1'700'000'005;
  t.polls[1].pids = {Job::pid_of(0)};
  v = diagnose(job.facts);
  CHECK_MESSAGE(tells(v, "to make /cache/build.lock, which exists; rank 0 in "), v.sentence);
  CHECK_MESSAGE(tells(v, " has the file open"), v.sentence);
  CHECK(v.next.text.find("should remove or change build.lock") != std::string::npos);
  t.polls = {{.path = "/run/build_lock"}};
  CHECK(tells(diagnose(job.facts), "; it asks again and again for /run/build_lock, which exists"));
  t.polls = {{.path = "10.0.0.7:443", .missing = true}};
  v = diagnose(job.facts);
  CHECK(tells(v, "; it tries to connect to 10.0.0.7:443 again and again, without success"));
  CHECK(v.next.text.find("takes connections at 10.0.0.7:443") != std::string::npos);
}

TEST_CASE("a single rank that polls is told the cure, and what its loop has caught") {
  Job job(1);
  job.all(in_loop()).hang_dump();
  job.seen(0).outside = model::OutsideWait::polling;
  ThreadStack& t = job.stacks_of(0).threads.front();
  Verdict v = diagnose(job.facts);
  CHECK(v.level == model::VerdictLevel::suspected);
  CHECK(v.next.text.find("--hang-idle") != std::string::npos);
  t.caught = {.type = "ConnectionError",
              .message = "503",
              .frames = {{.file = "/home/u/train.py", .line = 9, .function = "get"},
                         {.file = "/home/u/train.py", .line = 4, .function = "fetch"}}};
  v = diagnose(job.facts);
  CHECK_MESSAGE(
      tells(v, "; its loop has caught ConnectionError: 503 at train.py:4 (in fetch) in get (train.py:9)"),
      v.sentence);
  CHECK(v.next.text.find("find out why ConnectionError is raised") != std::string::npos);
  t.polls = {{.path = "/data/a.done", .missing = true}};
  v = diagnose(job.facts);
  CHECK_MESSAGE(!tells(v, "ConnectionError"), v.sentence);
  CHECK(v.next.text.find("who should make a.done") != std::string::npos);
}

TEST_CASE("an exception that a library raises and catches itself is no reason") {
  Job job(1);
  job.rank(0, in_event()).hang_dump();
  ThreadStack& t = job.stacks_of(0).threads.front();
  t.handling = {
      .type = "IndexError",
      .message = "pop from an empty deque",
      .frames = {{.file = "/usr/lib/python3.11/multiprocessing/pool.py", .line = 856, .function = "next"}}};
  CHECK_FALSE(tells(diagnose(job.facts), "IndexError"));
  t.handling.frames.front().file = "/home/u/train.py";
  CHECK(tells(diagnose(job.facts), " while handling IndexError: pop from an empty deque at train.py:856"));
}

TEST_CASE("a lock that a loop asks for again and again is held by another rank") {
  Job job(3);
  job.all(in_all_reduce()).rank(1, in_loop()).hang_dump();
  ThreadStack& t = job.stacks_of(1).threads.front();
  t.lock = {.kind = "flock", .path = "/data/a.lock", .pids = {Job::pid_of(0)}};
  t.polls = {{.path = "/data/a.lock", .lock = t.lock}};
  const Verdict v = diagnose(job.facts);
  CHECK(v.ranks == RankSet{0});
  CHECK_MESSAGE(tells(v, "rank 0 holds the lock on a.lock in "), v.sentence);
}

TEST_CASE("an event that no thread is left to set, and the thread that knows it") {
  Job job(1);
  job.rank(0, in_event()).hang_dump();
  Verdict v = diagnose(job.facts);
  CHECK_MESSAGE(tells(v, "; no other thread of the process is left that could end this wait"), v.sentence);
  auto& threads = job.stacks_of(0).threads;
  threads.push_back({.tid = 7, .comm = "pool", .frames = {native("poll", "libc.so.6")}});
  CHECK(tells(diagnose(job.facts), "; no other thread of the process runs Python"));
  for (const base::Tid tid : {8, 9}) {
    threads.push_back({.tid = tid,
                       .python_name = tid == 9 ? "loader" : "heart",
                       .frames = {native("accept", "libc.so.6"),
                                  py(tid == 9 ? "load" : "beat", kScript, 20 + static_cast<int>(tid))}});
  }
  CHECK_FALSE(tells(diagnose(job.facts), "no other thread"));
  threads.front().sharers = {9};
  v = diagnose(job.facts);
  CHECK_MESSAGE(tells(v,
                      "; its thread 9 (loader), which has that event too, is in load (train.py:29); its "
                      "thread 8 (heart) is in beat (train.py:28)"),
                v.sentence);
  CHECK(v.next.text.find("thread 9 (loader)") != std::string::npos);
}

TEST_CASE("a prompt at the terminal never ends the job") {
  Job job(2);
  job.all(in_all_reduce())
      .rank(1, {native("read", "libc.so.6"), py("confirm", kScript, 9, "input"), py("<module>", kScript, 90)})
      .hang_dump();
  CHECK(diagnose(job.facts).level == model::VerdictLevel::confirmed);
  job.seen(1).outside = model::OutsideWait::terminal;
  const Verdict v = diagnose(job.facts);
  CHECK(v.level == model::VerdictLevel::suspected);
  CHECK(v.ranks == RankSet{1});
  CHECK_MESSAGE(tells(v, "rank 1 has been waiting for a line at the terminal in confirm (train.py:9: input)"),
                v.sentence);
  CHECK(v.next.text.starts_with("answer at the terminal"));
}

TEST_CASE("an exception that was caught before the job stood") {
  Job job(1);
  job.rank(0, in_queue()).hang_dump();
  job.facts.dump->at_s = 60;
  auto& all = job.facts.run.exceptions;
  all = {caught(model::ExceptionKind::logged, 49)};
  CHECK_MESSAGE(tells(diagnose(job.facts),
                      "; before, its thread loader raised ValueError: bad shard 7 at "
                      "data.py:21 (in load) and went on"),
                diagnose(job.facts).sentence);
  all = {caught(model::ExceptionKind::kept, 49)};
  CHECK(tells(diagnose(job.facts),
              "; before, a task in its thread loader raised ValueError: bad shard 7 at "
              "data.py:21 (in load), which only the future knows"));
  all.front().chain = {
      {.type = "ValueError", .message = "bad shard 7"},
      {.relation = model::Relation::cause,
       .type = "multiprocessing.pool.RemoteTraceback",
       .message = "Traceback (most recent call last):\n  File \"/home/u/data.py\", line 21, in "
                  "load\nValueError: bad shard 7\n"}};
  CHECK_MESSAGE(
      tells(diagnose(job.facts),
            "; before, a task raised ValueError: bad shard 7 at data.py:21 (in load), in a process of its "
            "pool, and nobody has asked for the result"),
      diagnose(job.facts).sentence);
  all = {caught(model::ExceptionKind::kept, 49)};
  // Long before.
  all = {caught(model::ExceptionKind::kept, 5)};
  CHECK_FALSE(tells(diagnose(job.facts), "ValueError"));
  // A rank that waits for nothing that its own code should give.
  all = {caught(model::ExceptionKind::kept, 49)};
  job.rank(0, in_sleep());
  CHECK_FALSE(tells(diagnose(job.facts), "ValueError"));
}

TEST_CASE("a task of asyncio that has ended by an exception") {
  Job job(1);
  job.rank(0, {native("epoll_wait", "libc.so.6"),
               py("EpollSelector.select", "/usr/lib/python3.11/selectors.py", 468),
               py("BaseEventLoop.run_forever", "/usr/lib/python3.11/asyncio/base_events.py", 608),
               py("<module>", kScript, 9)})
      .hang_dump();
  auto& tasks = job.stacks_of(0).tasks;
  tasks.push_back({.id = 1, .name = "Task-1", .object = "Future", .frames = {py("main", kScript, 8)}});
  tasks.push_back(
      {.id = 2, .name = "Task-2", .object = "raised ValueError", .frames = {py("fill", kScript, 4)}});
  const Verdict v = diagnose(job.facts);
  CHECK_MESSAGE(tells(v, "; its task Task-2 has raised ValueError in fill (train.py:4)"), v.sentence);
  CHECK(v.where.line == 8);
  tasks.back().object = "raised CancelledError";
  CHECK_FALSE(tells(diagnose(job.facts), "Task-2"));
}
