// Who holds what a rank waits for.
#include "report/diagnosis/holders.h"
#include "report/diagnosis/wording.h"
#include "tests/unit/diagnosis/job.h"

#include <doctest/doctest.h>

using namespace xpurun;
using namespace xpurun::report;
using namespace xpurun::report::testing;
using model::RankSet;
using model::ThreadStack;
using model::Verdict;

namespace {

Stack in_flock() {
  return {native("flock", "libc.so.6"), py("prepare", "/home/u/train.py", 8, "fcntl.flock")};
}

Stack in_mutex() {
  return {native("__lll_lock_wait", "libc.so.6"), native("pthread_mutex_lock", "libc.so.6"),
          native("enqueue", "libgm.so"), py("step", "/home/u/train.py", 10, "lib.enqueue")};
}

model::HelperDeath killed(base::Rank parent, double at_s) {
  return {.pid = 812,
          .parent = Job::pid_of(parent),
          .rank = parent,
          .name = "ForkPoolWorker-2",
          .status = base::WaitStatus(kKill),
          .at_s = at_s};
}

Stack in_pool() {
  return {py("ApplyResult.get", "/usr/lib/python3.11/multiprocessing/pool.py", 774),
          py("Pool.map", "/usr/lib/python3.11/multiprocessing/pool.py", 367),
          py("main", "/home/u/train.py", 11)};
}

}  // namespace

TEST_CASE("the rank that holds a file lock is the culprit, not those that wait for the lock") {
  Job job(3);
  job.all(in_flock()).rank(0, in_barrier()).hang_dump();
  for (const base::Rank r : {1, 2}) {
    ThreadStack& t = job.stacks_of(r).threads.front();
    t.lock = {.kind = "flock", .path = "/data/cache.lock", .pids = {Job::pid_of(0)}};
  }
  const Verdict v = diagnose(job.facts);
  CHECK(v.id == "hang.lock");
  CHECK(v.ranks == RankSet{0});
  CHECK(v.sentence ==
        "hang: rank 0 holds the lock on cache.lock in barrier (train.py:51); ranks 1-2 have waited for "
        "the lock in prepare (train.py:8: fcntl.flock) for 10 s");
  CHECK(v.next.text == "release the lock before the call that waits for the other ranks");
}

TEST_CASE("a file lock that a stranger holds") {
  Job job(2);
  job.all(in_barrier()).rank(1, in_flock()).hang_dump();
  job.stacks_of(1).threads.front().lock = {.kind = "fcntl", .path = "/data/cache.lock", .pids = {4711}};
  const Verdict v = diagnose(job.facts);
  CHECK(v.ranks == RankSet{1});
  CHECK(v.sentence.find(
            " for 10 s: cache.lock is locked by pid 4711, which is not of this job; rank 0 waits") !=
        std::string::npos);
}

TEST_CASE("the thread that holds a mutex") {
  Job job(2);
  job.all(in_barrier()).rank(1, in_mutex()).hang_dump();
  auto& threads = job.stacks_of(1).threads;
  threads.front().lock = {.kind = "mutex", .tid = 7};
  threads.push_back({.tid = 7, .comm = "poller", .frames = {native("perform", "libgm.so")}});
  CHECK(diagnose(job.facts).sentence.find(": thread 7 (poller) holds the mutex, in perform") !=
        std::string::npos);
  threads.back().gil = model::GilState::waiting;
  const Verdict v = diagnose(job.facts);
  CHECK(v.sentence.find(
            ": deadlock: it holds the GIL and waits for a mutex that thread 7 (poller) holds, which waits "
            "for the GIL in perform") != std::string::npos);
  CHECK(v.next.text.starts_with("release the GIL"));
  // Without the frame of a mutex, the words are those of another futex.
  threads.front().frames.erase(threads.front().frames.begin(), threads.front().frames.begin() + 2);
  CHECK(diagnose(job.facts).sentence.find("mutex") == std::string::npos);
}

TEST_CASE("a lock that was held at the fork") {
  Job job(2);
  job.all(in_barrier()).rank(1, in_lock()).hang_dump();
  job.stacks_of(1).threads.front().frames.insert(job.stacks_of(1).threads.front().frames.begin(),
                                                 native("PyThread_acquire_lock_timed", "python3.11"));
  CHECK(diagnose(job.facts).sentence.find("fork") == std::string::npos);
  job.stacks_of(1).forked = true;
  const Verdict v = diagnose(job.facts);
  CHECK(v.sentence.find(
            ", forked while its parent had other threads: the one that holds the lock does not exist in "
            "it; rank 0 waits") != std::string::npos);
  CHECK(v.next.text.find("spawn") != std::string::npos);
  // Another thread of the process may hold the lock.
  ThreadStack other = job.stacks_of(1).threads.front();
  other.main = false;
  other.tid += 1;
  job.stacks_of(1).threads.push_back(other);
  CHECK(diagnose(job.facts).sentence.find("fork") == std::string::npos);
}

TEST_CASE("a worker that stands in a library whose threads were not copied by the fork") {
  Job job(2);
  job.all(in_all_reduce()).rank(1, in_dataloader());
  job.worker(1, {native("do_wait", "libgomp.so.1"), py("Noise.__getitem__", "/home/u/train.py", 9)})
      .hang_dump();
  job.facts.stacks.back().forked = true;
  job.facts.stacks.back().threads.front().state = 'S';
  const Verdict v = diagnose(job.facts);
  CHECK(v.where.line == 9);
  CHECK(v.sentence.find(
            "is in Noise.__getitem__ (train.py:9), forked after OpenMP had started threads in its parent, "
            "which do not exist in it") != std::string::npos);
  CHECK(v.next.text.find("OMP_NUM_THREADS=1") != std::string::npos);
}

TEST_CASE("a worker of a pool that has died is named, the resource tracker never") {
  Job job(1);
  job.rank(0, in_pool());
  job.worker(0, {py("main", "/usr/lib/python3.11/multiprocessing/resource_tracker.py", 239)}).hang_dump();
  job.facts.dump->at_s = 60;
  job.facts.run.helper_deaths = {killed(0, 3)};
  Verdict v = diagnose(job.facts);
  CHECK(v.sentence.find("; its ForkPoolWorker-2 (pid 812) was killed by SIGKILL at ") != std::string::npos);
  CHECK(v.sentence.find("resource_tracker") == std::string::npos);
  // A death after the dump, or of another process's child, is not the reason.
  job.facts.run.helper_deaths = {killed(0, 1000)};
  CHECK(diagnose(job.facts).sentence.find("812") == std::string::npos);
}

TEST_CASE("the tasks of an event loop, and code that blocks one") {
  Job job(1);
  const auto task = [](uint64_t id, const std::string& name, const std::string& function, int line) {
    return model::AsyncTask{.id = id,
                            .name = name,
                            .object = "_asyncio.Future",
                            .frames = {py("Lock.acquire", "/usr/lib/python3.11/asyncio/locks.py", 114),
                                       py(function, "/home/u/train.py", line)}};
  };
  job.rank(0, {native("epoll_wait", "libc.so.6"),
               py("EpollSelector.select", "/usr/lib/python3.11/selectors.py", 468),
               py("BaseEventLoop.run_forever", "/usr/lib/python3.11/asyncio/base_events.py", 607),
               py("<module>", "/home/u/train.py", 16)});
  job.hang_dump();
  auto& tasks = job.stacks_of(0).tasks;
  tasks = {task(3, "Task-3", "refresh", 12), task(2, "Task-2", "sync", 8)};
  tasks.push_back({.id = 1,
                   .name = "Task-1",
                   .object = "_GatheringFuture",
                   .frames = {py("main", "/home/u/train.py", 15)}});
  Verdict v = diagnose(job.facts);
  CHECK(v.where.line == 8);
  CHECK(v.sentence.find(
            "in sync (train.py:8: Lock.acquire) for 10 s; its task Task-3 waits in refresh (train.py:12: "
            "Lock.acquire)") != std::string::npos);

  Job blocked(1);
  blocked.rank(0, {py("Future.result", "/usr/lib/python3.11/concurrent/futures/_base.py", 451),
                   py("collect", "/home/u/train.py", 9),
                   py("BaseEventLoop.run_forever", "/usr/lib/python3.11/asyncio/base_events.py", 607),
                   py("<module>", "/home/u/train.py", 16)});
  blocked.hang_dump();
  blocked.stacks_of(0).tasks = {task(2, "Task-2", "fetch", 5)};
  v = diagnose(blocked.facts);
  CHECK(v.where.line == 9);
  CHECK(v.sentence.find(
            "; it blocks the event loop of its thread, on which others have to run: Task-2 in fetch "
            "(train.py:5: Lock.acquire)") != std::string::npos);
  CHECK(v.next.text.find("asyncio.to_thread") != std::string::npos);
}

TEST_CASE("the place is the user's native line, with the line of Python that has called it") {
  model::Frame lookup = native("lookup", "libtokenizer.so");
  lookup.file = "/home/u/tokenizer.c";
  lookup.line = 4;
  Job job(2);
  job.all(in_barrier())
      .rank(1, {native("nanosleep", "libc.so.6"), lookup, py("encode", "/home/u/train.py", 5)});
  job.hang_dump();
  const Verdict v = diagnose(job.facts);
  CHECK(place(v.where) == "lookup (tokenizer.c:4) ← encode (train.py:5)");
  CHECK(v.where.native_file == "/home/u/tokenizer.c");
  // A file of CPython or of a distribution is not the user's.
  for (const char* shipped : {"/usr/src/zlib/inflate.c", "/home/b/Python-3.11/Modules/_ctypes/callproc.c"}) {
    job.stacks_of(1).threads.front().frames[1].file = shipped;
    CHECK(diagnose(job.facts).where.native.empty());
  }
}
