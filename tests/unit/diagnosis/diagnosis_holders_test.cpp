// Who holds what a rank waits for.
#include "report/diagnosis/holders.h"
#include "report/diagnosis/wording.h"
#include "tests/unit/diagnosis/calls.h"
#include "tests/unit/diagnosis/job.h"

#include <doctest/doctest.h>

#include <algorithm>

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

TEST_CASE("who waits for a key of the store is not the culprit; the only rank that can set it may be") {
  const Stack in_get = {native("c10d::TCPStore::doGet", "libtorch_cpu.so"),
                        py("follow", "/home/u/train.py", 6, "store.get")};
  const auto hung = [&](const std::vector<base::Rank>& asking, const std::string& key) {
    Job job(3);
    Calls calls;
    const Group world{.members = {0, 1, 2}};
    calls.past(world, 30);
    for (const base::Rank r : world.members) {
      const bool asks = std::find(asking.begin(), asking.end(), r) != asking.end();
      job.rank(r, asks ? in_get : in_all_reduce());
      if (!asks) {
        calls.enters(r, world, all_reduce(4096, 44));
      }
    }
    job.hang_dump();
    for (const base::Rank r : asking) {
      job.stacks_of(r).threads.front().target = key;
    }
    job.facts.collectives = calls.facts;
    return diagnose(job.facts);
  };
  const Verdict one = hung({1, 2}, "key lr/40");
  CHECK(one.id == "hang.p2p");
  CHECK(one.ranks == RankSet{0});
  CHECK(one.confidence == model::Confidence::medium);
  CHECK(one.sentence ==
        "hang: ranks 1-2 wait for key lr/40 of the store in follow (train.py:6: store.get), which rank 0 has "
        "not set, but waits in all_reduce (train.py:44)");
  const Verdict several = hung({1}, "keys a, b");
  CHECK(several.id == "hang.p2p");
  CHECK(several.ranks.empty());
  CHECK(several.sentence ==
        "hang: rank 1 waits for keys a, b of the store in follow (train.py:6: store.get), which no rank has "
        "set; ranks 0,2 wait for it in all_reduce (train.py:44)");
  const Verdict all = hung({0, 1, 2}, "");
  CHECK(all.ranks.empty());
  CHECK(
      all.sentence ==
      "hang: ranks 0-2 wait for a key of the store in follow (train.py:6: store.get), which no rank has set");
}

TEST_CASE("a file lock that a stranger holds") {
  Job job(2);
  job.all(in_barrier()).rank(1, in_flock()).hang_dump();
  job.stacks_of(1).threads.front().lock = {.kind = "fcntl", .path = "/data/cache.lock", .pids = {4711}};
  const Verdict v = diagnose(job.facts);
  CHECK(v.ranks == RankSet{1});
  CHECK(v.sentence.find(
            " for 10 s: cache.lock is locked by pid 4711, which is no rank of this job; rank 0 waits") !=
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
  threads.back().gil = model::GilState::none;
  CHECK(
      diagnose(job.facts).next.text.starts_with("find out why thread 7 (poller) does not unlock the mutex"));
  const Stack perform = threads.back().frames;
  threads.back().frames = in_mutex();
  threads.back().lock = {.kind = "mutex", .tid = threads.front().tid};
  CHECK(diagnose(job.facts).next.text == "take the locks in the same order in all threads");
  threads.back().frames = perform;
  threads.front().lock.tid = threads.front().tid;
  CHECK(diagnose(job.facts).sentence.find(": it waits for a mutex that it holds itself; ") !=
        std::string::npos);
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

TEST_CASE("a lock that was held at the fork of a pool's worker") {
  Job job(1);
  job.all(in_pool());
  Stack task = in_lock();
  task.insert(task.begin(), native("PyThread_acquire_lock_timed", "python3.11"));
  for (const char* function : {"mapstar", "worker"}) {
    task.push_back(py(function, "/usr/lib/python3.11/multiprocessing/pool.py", 48));
  }
  task.push_back(py("BaseProcess.run", "/usr/lib/python3.11/multiprocessing/process.py", 108));
  job.worker(0, task).hang_dump();
  job.facts.stacks.back().forked = true;
  const Verdict v = diagnose(job.facts);
  CHECK(v.sentence.find(
            "save_state (train.py:66: lock.acquire), forked while its parent had other threads: the "
            "one that holds the lock does not exist in it") != std::string::npos);
}

TEST_CASE("a rank that polls a worker which waits for a lock held at the fork does not work") {
  // A DataLoader looks every five seconds whether its workers live.
  const auto judged = [](bool forked) {
    Job job(2);
    job.all(in_all_reduce()).rank(1, in_dataloader(), 1);
    Stack task = in_lock();
    task.insert(task.begin(), native("PyThread_acquire_lock_timed", "python3.11"));
    job.worker(1, task).hang_dump();
    job.facts.stacks.back().forked = forked;
    return diagnose(job.facts);
  };
  Verdict v = judged(true);
  CHECK(v.ranks == RankSet{1});
  CHECK(v.level == model::VerdictLevel::confirmed);
  CHECK_MESSAGE(v.sentence.find(", forked while its parent had other threads") != std::string::npos,
                v.sentence);
  CHECK_MESSAGE(v.sentence.find(", forked while its parent had other threads") != std::string::npos,
                v.sentence);
  CHECK(v.seconds == 10);
  v = judged(false);
  CHECK(v.id == "hang.busy");
  CHECK(v.level == model::VerdictLevel::suspected);
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
  // The kernel says why.
  job.facts.kernel.events = {
      {.kind = model::KernelEventKind::oom_kill, .at_s = 3.2, .pid = 812, .memory_limit = true}};
  v = diagnose(job.facts);
  CHECK(
      v.sentence.ends_with("(out of memory: the kernel killed it at the memory limit of its control group)"));
  CHECK(v.next.text.find("give the job more memory") == 0);
  job.facts.kernel.events.clear();
  // Its last position, and what is lost with it.
  model::ProcessRecord record{.pid = 812, .role = model::ProcessRole::worker, .rank = 0};
  record.place = {.function = "tokenize", .file = "/home/u/words.py", .line = 7};
  job.facts.run.processes.push_back(record);
  job.facts.run.helper_deaths.front().lost = "5";
  job.facts.run.helper_deaths.front().items = 20;
  v = diagnose(job.facts);
  CHECK(v.sentence.find("was killed by SIGKILL, last seen in tokenize (words.py:7), at ") !=
        std::string::npos);
  CHECK(v.sentence.ends_with("; with it, item 5 of 20 is lost"));
  job.facts.run.helper_deaths.front().lost = "4-7";
  CHECK(diagnose(job.facts).sentence.ends_with("; with it, items 4-7 of 20 are lost"));
  // The call by which it ended itself.
  job.facts.run.helper_deaths.front().status = base::WaitStatus::of_exit(0);
  model::PythonException call{
      .kind = model::ExceptionKind::sys_exit, .pid = 812, .rank = 0, .at_s = 3, .code = 0};
  call.chain.push_back({.type = "SystemExit"});
  call.chain.front().frames = {{.file = "/home/u/words.py", .line = 9, .function = "tokenize"}};
  job.facts.run.exceptions = {call};
  CHECK(diagnose(job.facts).sentence.find("(pid 812) called sys.exit(0) at words.py:9 (in tokenize) at ") !=
        std::string::npos);
  job.facts.run.exceptions.clear();
  job.facts.run.processes.pop_back();
  // A death after the dump, or of another process's child, is not the reason.
  job.facts.run.helper_deaths = {killed(0, 1000)};
  CHECK(diagnose(job.facts).sentence.find("812") == std::string::npos);
  // Many workers raise: the exception of the one that exited last is not known yet.
  model::PythonException raised{.pid = 700, .rank = 0, .at_s = 2};
  raised.chain.push_back({.type = "ValueError", .message = "no table"});
  job.facts.run.exceptions = {raised};
  job.facts.run.helper_deaths = {killed(0, 3)};
  CHECK(diagnose(job.facts).sentence.find("(pid 812) was killed by SIGKILL") != std::string::npos);
  job.facts.run.helper_deaths.front().status = base::WaitStatus::of_exit(1);
  CHECK(diagnose(job.facts).sentence.find("(pid 700) raised ValueError: no table") != std::string::npos);
}

TEST_CASE("ranks that wait for each other's locks of multiprocessing") {
  const auto in_enter = [](int line) {
    return Stack{native("sem_wait", "libc.so.6"),
                 py("SemLock.__enter__", "/usr/lib/python3.11/multiprocessing/synchronize.py", 95),
                 py("transfer", "/home/u/train.py", line)};
  };
  Job job(3);
  job.all(in_enter(5)).rank(1, in_enter(9)).hang_dump();
  const auto waits = [&](base::Rank r, const char* path) {
    job.stacks_of(r).threads.front().lock = {.kind = "semaphore", .path = path};
  };
  waits(0, "b");
  waits(1, "a");
  waits(2, "b");
  // Without the holders, each may be the one.
  Verdict v = diagnose(job.facts);
  CHECK(v.id == "hang.lock");
  CHECK(v.ranks == RankSet{0, 1, 2});
  CHECK(v.sentence.find("have waited for locks of multiprocessing for 10 s: rank 0 in transfer (train.py:5: "
                        "SemLock.__enter__), rank 1 in transfer (train.py:9") != std::string::npos);
  job.stacks_of(0).held_locks = {{.path = "a", .thread_id = 1}};
  job.stacks_of(1).held_locks = {{.path = "b", .thread_id = 1}};
  v = diagnose(job.facts);
  CHECK(v.id == "hang.lock");
  CHECK(v.level == model::VerdictLevel::confirmed);
  CHECK(v.ranks == RankSet{0, 1});
  CHECK(v.sentence ==
        "hang: ranks 0-1 have waited for each other's locks for 10 s: rank 0 in transfer (train.py:5: "
        "SemLock.__enter__) for the lock that rank 1 holds, rank 1 in transfer (train.py:9: "
        "SemLock.__enter__) for the lock that rank 0 holds");
  CHECK(v.next.text == "take the locks in the same order in all processes");
  // The holder stands elsewhere: it is the culprit.
  job.rank(1, in_sleep());
  job.stacks_of(1).threads.front().lock = {};
  job.stacks_of(1).held_locks = {{.path = "b", .thread_id = 1}};
  v = diagnose(job.facts);
  CHECK(v.ranks == RankSet{1});
  CHECK(
      v.sentence.starts_with("hang: rank 1 holds the lock in load_batch (train.py:31: time.sleep); ranks "
                             "0,2 have waited for the lock in transfer"));
  // A consumer that waits for its turn at a queue waits for the queue, not for the lock inside.
  job.all({native("sem_wait", "libc.so.6"),
           py("SemLock.__enter__", "/usr/lib/python3.11/multiprocessing/synchronize.py", 95),
           py("Queue.get", "/usr/lib/python3.11/multiprocessing/queues.py", 102),
           py("consume", "/home/u/train.py", 7)});
  waits(0, "b");
  job.stacks_of(1).held_locks = {{.path = "b", .thread_id = 1}};
  CHECK(diagnose(job.facts).sentence.find("holds the lock") == std::string::npos);
}

TEST_CASE("an exception in a process that the rank waits for") {
  const auto event = [](bool child) {
    Stack stack = {py("Event.wait", "/usr/lib/python3.11/multiprocessing/synchronize.py", 349),
                   py("main", "/home/u/train.py", 9)};
    if (child) {
      stack.push_back(py("BaseProcess._bootstrap", "/usr/lib/python3.11/multiprocessing/process.py", 314));
    }
    return stack;
  };
  Job job(1);
  job.rank(0, event(false)).hang_dump();
  job.facts.dump->at_s = 60;
  model::ProcessRecord worker;
  worker.pid = 812;
  worker.ppid = Job::pid_of(0);
  worker.rank = 0;
  worker.role = model::ProcessRole::worker;
  worker.death = {.happened = true, .at_s = 3, .wait_status = base::WaitStatus(exited(1))};
  job.facts.run.processes.push_back(worker);
  model::PythonException raised{.pid = 812, .rank = 0, .at_s = 3};
  raised.chain.push_back({.type = "ValueError",
                          .message = "bad shard",
                          .frames = {{.file = "/home/u/train.py", .line = 4, .function = "load"}}});
  job.facts.run.exceptions = {raised};
  const Verdict v = diagnose(job.facts);
  CHECK(v.id == "hang.lock");
  CHECK(
      v.sentence ==
      "hang: rank 0 has been waiting for a lock in main (train.py:9: Event.wait) for 10 s; its process (pid "
      "812) raised ValueError: bad shard at train.py:4 (in load) at 3 s");
  CHECK(v.next.text.find("concurrent.futures") != std::string::npos);
  // A later exception, or one of a process that lives, is not the reason.
  job.facts.run.exceptions[0].at_s = 100;
  CHECK(diagnose(job.facts).sentence.find("bad shard") == std::string::npos);
  // Processes of multiprocessing that are ranks wait for each other.
  job.rank(0, event(true));
  CHECK(diagnose(job.facts).id == "hang.all_waiting");
}

TEST_CASE("a rank that spins on memory that a process should have written, which has raised") {
  Job job(1);
  job.rank(0, in_compute()).cpu(0, 0.9).hang_dump();
  job.facts.dump->at_s = 60;
  CHECK(diagnose(job.facts).sentence.find("raised") == std::string::npos);
  model::PythonException raised{.pid = 812, .rank = 0, .at_s = 3};
  raised.chain.push_back({.type = "ValueError",
                          .message = "bad frame",
                          .frames = {{.file = "/home/u/train.py", .line = 7, .function = "produce"}}});
  job.facts.run.exceptions = {raised};
  const Verdict v = diagnose(job.facts);
  CHECK(v.level == model::VerdictLevel::suspected);
  CHECK(v.sentence.find("; its process (pid 812) raised ValueError: bad frame at train.py:7 (in produce)") !=
        std::string::npos);
  CHECK(v.next.text.find("mend the exception in the process") == 0);
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

  // Each waits for a lock that the other one holds, beside a task that sleeps.
  tasks.push_back({.id = 4, .name = "Task-4", .frames = {py("keep", "/home/u/train.py", 3)}});
  tasks[0].awaits = 2;
  tasks[1].awaits = 3;
  tasks[0].object = tasks[1].object = "lock";
  v = diagnose(job.facts);
  CHECK(v.where.line == 8);
  CHECK(v.sentence.find(
            "in sync (train.py:8: Lock.acquire) for 10 s; its task Task-2 waits there for the lock that "
            "Task-3 holds, Task-3 in refresh (train.py:12: Lock.acquire) for the lock that Task-2 "
            "holds, Task-4 in keep (train.py:3)") != std::string::npos);
  tasks[0].awaits = 4;
  tasks[1].awaits = 2;
  CHECK(diagnose(job.facts).sentence.find(
            "in sync (train.py:8: Lock.acquire) for 10 s; its task Task-2 waits there for "
            "a lock that it holds itself, ") != std::string::npos);
  tasks[1].object = "Future";
  tasks[1].awaits = 0;
  v = diagnose(job.facts);
  CHECK(v.where.line == 3);
  CHECK(v.sentence.find(
            "in keep (train.py:3) for 10 s; its task Task-2 waits in sync (train.py:8: Lock.acquire), Task-3 "
            "in refresh (train.py:12: Lock.acquire) for the lock that is held there") != std::string::npos);

  // Greenlets, of which the program's own one waits for the others.
  job.rank(0, {py("Hub.run", "/usr/lib/python3/dist-packages/gevent/hub.py", 647)});
  auto& greenlets = job.stacks_of(0).tasks;
  greenlets = {
      {.id = 1,
       .name = "Greenlet-1",
       .object = "greenlet",
       .frames = {py("<module>", "/home/u/train.py", 20)}},
      {.id = 2, .name = "Greenlet-2", .object = "greenlet", .frames = {py("sync", "/home/u/train.py", 8)}},
      {.id = 3,
       .name = "Greenlet-3",
       .object = "greenlet",
       .frames = {py("refresh", "/home/u/train.py", 12)}}};
  v = diagnose(job.facts);
  CHECK(v.where.line == 8);
  CHECK(v.sentence.find("in sync (train.py:8) for 10 s; its task Greenlet-3 waits in refresh (train.py:12), "
                        "Greenlet-1 in <module> (train.py:20)") != std::string::npos);

  // Greenlets that only check something now and then may be right to do so; one that waits for others is not.
  greenlets = {{.id = 1,
                .name = "Greenlet-1",
                .object = "greenlet",
                .frames = {py("<module>", "/home/u/train.py", 20, "gevent.joinall")}},
               {.id = 2,
                .name = "Greenlet-2",
                .object = "greenlet",
                .frames = {py("sleep", "/usr/lib/python3/dist-packages/gevent/hub.py", 159),
                           py("poll", "/home/u/train.py", 8)}}};
  CHECK(diagnose(job.facts).level == model::VerdictLevel::suspected);
  greenlets.push_back({.id = 3,
                       .name = "Greenlet-3",
                       .object = "greenlet",
                       .frames = {py("consume", "/home/u/train.py", 12, "done.wait")}});
  CHECK(diagnose(job.facts).level == model::VerdictLevel::confirmed);

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

TEST_CASE("a lock of the waiting thread itself is a hang although others have waited longer") {
  Job job(4);
  job.all(in_all_reduce(), 10).rank(2, in_lock(), 8).hang_dump();
  CHECK(diagnose(job.facts).level == model::VerdictLevel::suspected);
  model::ThreadStack& main = job.stacks_of(2).threads.front();
  main.lock = {.kind = "lock", .tid = main.tid};
  const Verdict v = diagnose(job.facts);
  CHECK(v.level == model::VerdictLevel::confirmed);
  CHECK(v.sentence.find("it waits for a lock that it holds itself") != std::string::npos);
}
