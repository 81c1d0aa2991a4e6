// Ranks that are blocked by their own threads or their own child process.
#include "report/diagnosis/waits/thread_waits.h"
#include "tests/unit/diagnosis/job.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace xpurun;
using namespace xpurun::report;
using namespace xpurun::report::testing;
using model::GilState;
using model::RankSet;
using model::ThreadStack;
using model::Verdict;

namespace {

constexpr const char* kTrainFile = "/home/u/train.py";

ThreadStack& add_thread(Job& job, base::Rank r, base::Tid tid, const std::string& name, const Stack& frames) {
  ThreadStack t;
  t.tid = tid;
  t.python_name = name;
  t.frames = frames;
  t.state = 'S';
  job.stacks_of(r).threads.push_back(t);
  return job.stacks_of(r).threads.back();
}

bool says_of_threads(const Verdict& v, std::string_view words) {
  return std::any_of(v.evidence.begin(), v.evidence.end(),
                     [&](const std::string& e) { return e.find(words) != std::string::npos; });
}

Stack wants_gil() {
  return {native("pthread_cond_timedwait", "libc.so.6"), native("take_gil", "python3.11"),
          py("train", kTrainFile, 40, "time.sleep"), py("<module>", kTrainFile, 90)};
}

Stack holds_gil() {
  return {native("clock_nanosleep", "libc.so.6"), native("usleep", "libc.so.6"),
          native("ffi_call", "libffi.so.8"), py("hold", kTrainFile, 9, "lib.usleep")};
}

Job& with_gil_held(Job& job, base::Rank r) {
  job.rank(r, wants_gil());
  job.stacks_of(r).threads.front().gil = GilState::waiting;
  add_thread(job, r, 105, "poller", holds_gil()).gil = GilState::holder;
  return job;
}

constexpr const char* kImportlib = "<frozen importlib._bootstrap>";

Stack wants_import(const char* function, int line) {
  return {native("PyThread_acquire_lock_timed", "python3.11"), py("_ModuleLock.acquire", kImportlib, 120),
          py("_lock_unlock_module", kImportlib, 216), py(function, kTrainFile, line)};
}

Stack importing(Stack inner) {
  inner.push_back(py("<module>", "/home/u/tables.py", 7, "Thread.join"));
  inner.push_back(py("_call_with_frames_removed", kImportlib, 241));
  inner.push_back(py("_find_and_load", kImportlib, 1176));
  inner.push_back(py("load", kTrainFile, 5));
  return inner;
}

Stack acquires(const char* function, int line, const char* callee) {
  return {native("sem_wait", "libc.so.6"), native("PyThread_acquire_lock_timed", "python3.11"),
          py(function, kTrainFile, line, callee), py("<module>", kTrainFile, 90)};
}

}  // namespace

TEST_CASE("the thread that holds the GIL in C is the culprit, not the thread that waits for the GIL") {
  Job job(3);
  with_gil_held(job.all(in_all_reduce()), 1).hang_dump();
  Verdict v = diagnose(job.facts);
  CHECK(v.id == "hang.stuck");
  CHECK(v.ranks == RankSet{1});
  CHECK(v.where.function == "hold");
  CHECK(v.where.line == 9);
  CHECK(v.sentence ==
        "hang: rank 1 has not run Python for 10 s: thread 105 (poller) holds the GIL in "
        "clock_nanosleep (libc.so.6), called by hold (train.py:9: lib.usleep); ranks 0,2 wait for it in "
        "all_reduce (train.py:44)");
  CHECK(v.next.text.find("hold (train.py:9: lib.usleep)") != std::string::npos);
  CHECK(says_of_threads(
      v, "thread 101 waits for the GIL in train (train.py:40: time.sleep), thread 105 (poller) holds it"));

  // A C function that computes may return.
  job.seen(1).cpu_share = 1;
  v = diagnose(job.facts);
  CHECK(v.id == "hang.busy");
  CHECK(v.level == model::VerdictLevel::suspected);
  CHECK(v.where.function == "hold");
}

TEST_CASE(
    "the interpreter names the holder where no thread says_of_threads so; without a holder nobody is blamed "
    "for it") {
  Job job(1);
  with_gil_held(job, 0).hang_dump();
  model::ProcessStacks& stacks = job.stacks_of(0);
  stacks.threads.back().gil = GilState::none;
  CHECK(diagnose(job.facts).where.function == "train");
  stacks.interpreters.push_back({.gil_holder = 105});
  CHECK(diagnose(job.facts).where.function == "hold");
}

TEST_CASE("a thread that holds the GIL inside a collective waits for its peers") {
  Job job(3);
  with_gil_held(job.all(in_all_reduce()), 1).rank(2, in_sleep()).hang_dump();
  job.stacks_of(1).threads.back().frames = in_all_reduce();
  const Verdict v = diagnose(job.facts);
  CHECK(v.ranks == RankSet{2});
  CHECK(v.waiting.at(0).ranks == RankSet{0, 1});
}

TEST_CASE("two threads that each wait for a lock are both named, with their lines") {
  Job job(2);
  job.all(in_barrier()).rank(1, acquires("save", 66, "log_lock.acquire"));
  add_thread(job, 1, 105, "Thread-1", acquires("flush", 80, "save_lock.acquire"));
  add_thread(job, 1, 106, "idle", in_queue());
  job.hang_dump();
  const Verdict v = diagnose(job.facts);
  CHECK(v.id == "hang.lock");
  CHECK(v.ranks == RankSet{1});
  CHECK(v.sentence ==
        "hang: rank 1 has been waiting for a lock in save (train.py:66: log_lock.acquire) "
        "for "
        "10 s: thread 101 waits for a lock in save (train.py:66: log_lock.acquire), thread 105 (Thread-1) in "
        "flush (train.py:80: save_lock.acquire), each perhaps for a lock that the other holds; rank 0 waits "
        "for "
        "it in barrier (train.py:51)");
  CHECK(says_of_threads(
      v, "rank 1: thread 105 (Thread-1) waits for a lock in flush (train.py:80: save_lock.acquire)"));
  CHECK_FALSE(says_of_threads(v, "thread 106"));
  CHECK(v.next.text == "take the locks in the same order in all threads");
}

TEST_CASE("one thread in acquire is not a deadlock") {
  Job job(1);
  job.rank(0, in_lock());
  add_thread(job, 0, 106, "idle", in_queue());
  job.hang_dump();
  CHECK(diagnose(job.facts).sentence ==
        "hang: rank 0 has been waiting for a lock in save_state (train.py:66: "
        "lock.acquire) for "
        "10 s");
}

TEST_CASE("frames that count as acquiring a lock") {
  const char* threading = "/usr/lib/python3.11/threading.py";
  const auto native_acquire = native("PyThread_acquire_lock_timed", "python3.11");
  const struct {
    Stack frames;
    bool acquires;
  } cases[] = {
      {in_lock(), true},
      {{py("f", kTrainFile, 3, "lock.acquire")}, true},  // without native frames
      {{native_acquire, py("f", kTrainFile, 3)}, true},  // with lock:
      {{native_acquire, py("Condition.__enter__", threading, 264), py("f", kTrainFile, 3)}, true},
      {{native_acquire, py("Condition.wait", threading, 320, "waiter.acquire"), py("f", kTrainFile, 3)},
       false},
      {{native_acquire, py("Thread._wait_for_tstate_lock", threading, 1112), py("f", kTrainFile, 3)}, false},
      {in_queue(), false},
      {in_sleep(), false},
      {{native_acquire}, false},
  };
  for (const auto& c : cases) {
    ThreadStack t;
    t.frames = c.frames;
    CAPTURE(c.frames.back().func);
    CHECK(acquires_lock(t) == c.acquires);
  }
}

namespace {

Stack waits_for_child() {
  return {native("wait4", "libc.so.6"), py("Popen._wait", "/usr/lib/python3.11/subprocess.py", 1950),
          py("Popen.wait", "/usr/lib/python3.11/subprocess.py", 1262), py("build", kTrainFile, 15)};
}

Stack prints() {
  return {native("write", "libc.so.6"), py("main", "/home/u/child.py", 2, "print")};
}

void fill_pipe(ThreadStack& t) {
  t.state = 'S';
  t.syscall = "write";
  t.syscall_file = "pipe:[4711]";
}

}  // namespace

TEST_CASE("a child with a full pipe: the parent that does not read is named, with the child") {
  Job job(2);
  job.all(in_barrier()).rank(1, waits_for_child()).worker(1, prints()).hang_dump();
  ThreadStack& child = job.facts.stacks.back().threads.front();
  CHECK(diagnose(job.facts).sentence.find("pipe") == std::string::npos);
  fill_pipe(child);
  const Verdict v = diagnose(job.facts);
  CHECK(v.ranks == RankSet{1});
  CHECK(v.id == "hang.lock");
  CHECK(v.sentence ==
        "hang: rank 1 has been waiting for a child process in build (train.py:15: "
        "Popen.wait) "
        "for 10 s: its child (pid 901) cannot write to a full pipe in main (child.py:2: print), and the rank "
        "does "
        "not read; rank 0 waits for it in barrier (train.py:51)");
  CHECK(
      says_of_threads(v, "rank 1: pid 101 waits for the end of pid 901, which cannot write to a full pipe"));
  CHECK(v.next.text.find("communicate()") != std::string::npos);
  child.syscall_file = "/home/u/out.txt";
  CHECK(diagnose(job.facts).sentence.find("pipe") == std::string::npos);
}

TEST_CASE("a child with a full pipe that counts as the rank: its parent is named") {
  Job job(1);
  job.rank(0, prints());
  fill_pipe(job.stacks_of(0).threads.front());
  model::ProcessStacks parent;
  parent.pid = Job::kAgentPid;
  parent.role = model::ProcessRole::agent;
  ThreadStack main;
  main.main = true;
  main.frames = waits_for_child();
  parent.threads.push_back(main);
  job.facts.stacks.push_back(parent);
  job.hang_dump();
  CHECK(diagnose(job.facts).sentence ==
        "hang: rank 0 has been in main (child.py:2: print) for 10 s: it cannot write to a "
        "full "
        "pipe while its parent (pid 50) waits for its end in build (train.py:15: Popen.wait) and does not "
        "read");
}

TEST_CASE("a rank that joins a thread is told with what the thread waits for") {
  Job job(2);
  job.all(in_barrier())
      .rank(1, {py("Thread.join", "/usr/lib/python3.11/threading.py", 1112),
                py("finish", kTrainFile, 64, "thread.join")});
  add_thread(job, 1, 105, "grad-sync", acquires("sync", 62, ""));
  add_thread(job, 1, 106, "poll", {native("poll", "libc.so.6")});
  job.hang_dump();
  const Verdict v = diagnose(job.facts);
  CHECK(v.ranks == RankSet{1});
  CHECK(
      v.sentence.find("; its thread 105 (grad-sync) waits for a lock in sync (train.py:62); rank 0 waits") !=
      std::string::npos);
  CHECK(v.sentence.find("106") == std::string::npos);
}

TEST_CASE("a rank that waits for a thread under a lock that the thread wants is a deadlock") {
  Job job(1);
  job.rank(0, {py("Thread.join", "/usr/lib/python3.11/threading.py", 1112),
               py("finish", kTrainFile, 64, "Thread.join")});
  const base::Tid main = job.stacks_of(0).threads.front().tid;
  add_thread(job, 0, 105, "saver", acquires("save", 62, "")).lock = {.kind = "lock", .tid = main};
  job.hang_dump();
  const Verdict v = diagnose(job.facts);
  CHECK(v.kind == model::VerdictKind::hang);
  CHECK(v.level == model::VerdictLevel::confirmed);
  const std::string holder = "thread " + std::to_string(main);
  CHECK(
      v.sentence.find("waiting for a thread in finish (train.py:64: Thread.join) for 10 s: deadlock: thread "
                      "105 (saver) waits in save (train.py:62) for a lock that " +
                      holder) != std::string::npos);
  CHECK(v.next.text == "give the lock back before the wait for the other thread");
  // Another thread may be the one that the rank waits for.
  add_thread(job, 0, 106, "loader", {py("load", kTrainFile, 70, "read")});
  const Verdict other = diagnose(job.facts);
  CHECK(other.sentence.find("deadlock") == std::string::npos);
  CHECK(other.sentence.find("thread 105 (saver) waits in save") != std::string::npos);
  job.stacks_of(0).threads.front().sharers = {105};
  CHECK(diagnose(job.facts).sentence.find("deadlock: thread 105 (saver)") != std::string::npos);
}

TEST_CASE("a rank that waits for a future is told with what the thread does") {
  Job job(1);
  job.rank(0, {py("Future.result", "/usr/lib/python3.11/concurrent/futures/_base.py", 451),
               py("main", kTrainFile, 90, "Future.result")});
  add_thread(job, 0, 105, "pool_0", {py("upload", kTrainFile, 70, "time.sleep")});
  job.hang_dump();
  CHECK(diagnose(job.facts).sentence.ends_with(
      "; its thread 105 (pool_0) is in upload (train.py:70: time.sleep)"));
}

TEST_CASE("a full queue has its own next step") {
  Job job(1);
  job.rank(0, {py("Queue.put", "/usr/lib/python3.11/multiprocessing/queues.py", 89),
               py("feed", kTrainFile, 84, "Queue.put")});
  job.hang_dump();
  CHECK(diagnose(job.facts).next.text ==
        "the queue is full: find out why no consumer takes from it, after feed (train.py:84: Queue.put) on "
        "rank 0");
}

TEST_CASE("a thread that needs the module which the rank is importing") {
  Job job(2);
  job.all(in_barrier()).rank(1, importing({py("Thread.join", "/usr/lib/python3.11/threading.py", 1112)}));
  add_thread(job, 1, 105, "warm", wants_import("warm", 3));
  job.hang_dump();
  const Verdict v = diagnose(job.facts);
  CHECK(v.ranks == RankSet{1});
  CHECK_MESSAGE(
      v.sentence.find("; its thread 105 (warm) waits in warm (train.py:3: import) for the end of the import "
                      "of tables.py, in which the rank waits; rank 0 waits") != std::string::npos,
      v.sentence);
  CHECK(v.next.text.find("move that part of tables.py into a function") != std::string::npos);
}

TEST_CASE("a rank that waits for the import of another thread") {
  Job job(2);
  job.all(in_barrier()).rank(1, wants_import("main", 8));
  add_thread(job, 1, 105, "loader", importing({native("recv", "libc.so.6")}));
  job.hang_dump();
  const Verdict v = diagnose(job.facts);
  CHECK(v.ranks == RankSet{1});
  CHECK_MESSAGE(
      v.sentence.find("in main (train.py:8: import) for 10 s: thread 105 (loader) is importing tables.py, in "
                      "<module> (tables.py:7") != std::string::npos,
      v.sentence);
  CHECK(v.next.text.find("tables.py") != std::string::npos);
}

TEST_CASE("threads of an executor that wait for work are in no circle of locks") {
  Job job(1);
  job.rank(0, in_lock()).hang_dump();
  const Stack idle = {
      native("sem_wait", "libc.so.6"), native("PyThread_acquire_lock_timed", "python3.11"),
      native("_queue_SimpleQueue_get", "_queue.so"),
      py("_worker", "/usr/lib/python3.11/concurrent/futures/thread.py", 81, "work_queue.get")};
  job.stacks_of(0).threads.front().frames.insert(job.stacks_of(0).threads.front().frames.begin() + 1,
                                                 native("PyThread_acquire_lock_timed", "python3.11"));
  for (const base::Tid tid : {105, 106}) {
    add_thread(job, 0, tid, "ThreadPoolExecutor-0_0", idle);
  }
  const Verdict v = diagnose(job.facts);
  CHECK(v.sentence.find("each perhaps for a lock") == std::string::npos);
  CHECK(v.next.text.find("in the same order") == std::string::npos);
}
