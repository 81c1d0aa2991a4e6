// The effect of a rank's own threads and processes, and of waits for external events, on the verdict.
#include "report/diagnosis/helpers.h"
#include "report/diagnosis/waits/code_place.h"
#include "tests/unit/diagnosis/job.h"

#include <doctest/doctest.h>

using namespace xpurun;
using namespace xpurun::report;
using namespace xpurun::report::testing;
using model::HelperLife;
using model::OutsideWait;
using model::RankSet;
using model::Verdict;

namespace {

constexpr base::Pid kWorker = 812;

Stack in_event_loop() {
  return {native("epoll_wait", "libc.so.6"), py("select", "/usr/lib/python3.11/selectors.py", 468),
          py("run_forever", "/usr/lib/python3.11/asyncio/base_events.py", 607),
          py("<module>", "serve.py", 9)};
}

Job with_helper(int ranks, base::Rank r, const Stack& rank_stack, const Stack& worker_stack) {
  Job job(ranks);
  job.all(in_all_reduce()).rank(r, rank_stack).worker(r, worker_stack).hang_dump();
  job.facts.stacks.back().pid = kWorker;
  job.seen(r).helpers = {{.pid = kWorker, .name = "python3", .python = true, .awaited = true, .still_s = 7}};
  return job;
}

}  // namespace

TEST_CASE("the verdict names the position of the worker that the rank waits for") {
  const Job job =
      with_helper(4, 2, in_dataloader(), {py("read_sample", "/home/u/data.py", 31, "time.sleep")});
  const Verdict v = diagnose(job.facts);
  CHECK(v.id == "hang.lock");
  CHECK(v.ranks == RankSet{2});
  CHECK(v.sentence ==
        "hang: rank 2 has been waiting for a dataloader worker in batches (train.py:25: "
        "_MultiProcessingDataLoaderIter._next_data) for 10 s; its dataloader worker pid 812 has been in "
        "read_sample (data.py:31: time.sleep) for 7 s; "
        "ranks 0-1,3 wait for it in all_reduce (train.py:44)");
}

TEST_CASE(
    "a rank that looks now and then whether its worker lives does not work while the worker stands still") {
  Job job = with_helper(2, 1, in_dataloader(), {py("read_sample", "/home/u/data.py", 31, "time.sleep")});
  job.seen(1).still_s = 1;
  Verdict v = diagnose(job.facts);
  CHECK(v.id == "hang.busy");
  job.seen(1).helpers.front().still_s = 12;
  v = diagnose(job.facts);
  CHECK(v.id == "hang.lock");
  CHECK(v.ranks == RankSet{1});
  CHECK(v.level == model::VerdictLevel::confirmed);
  CHECK(v.seconds == 10);
  job.seen(1).helper_life = model::HelperLife::working;
  CHECK(diagnose(job.facts).id == "hang.busy");
}

TEST_CASE("a worker without an observation is named by its stack") {
  Job job = with_helper(4, 2, in_dataloader(), {py("read_sample", "/home/u/data.py", 31, "time.sleep")});
  job.seen(2).helpers.clear();
  const Verdict v = diagnose(job.facts);
  CHECK(v.sentence.find("; its dataloader worker pid 812 is in read_sample (data.py:31: time.sleep);") !=
        std::string::npos);
}

TEST_CASE("a worker that itself waits for work is not the culprit") {
  const Job job = with_helper(1, 0, in_dataloader(), in_queue());
  CHECK(diagnose(job.facts).sentence.find("pid 812") == std::string::npos);
}

TEST_CASE("an idle worker that waits for its turn at the queue is not the culprit") {
  const Stack idle = {
      native("sem_wait", "libc.so.6"),
      py("Queue.get", "/usr/lib/python3.11/multiprocessing/queues.py", 108, "self._rlock.acquire"),
      py("_process_worker", "/opt/lib/python3.11/site-packages/loky/process_executor.py", 453),
      py("BaseProcess.run", "/usr/lib/python3.11/multiprocessing/process.py", 108)};
  Job job = with_helper(1, 0, in_dataloader(), idle);
  CHECK(diagnose(job.facts).sentence.find("pid 812") == std::string::npos);
  // A function of __main__ that cloudpickle has sent.
  Stack busy = idle;
  busy.insert(busy.begin(), {native("clock_nanosleep", "libc.so.6"), py("features", "<dynamic-code>", 8)});
  job = with_helper(1, 0, in_dataloader(), busy);
  CHECK(diagnose(job.facts).sentence.find("pid 812 has been in features (<dynamic-code>:8)") !=
        std::string::npos);
}

TEST_CASE("a program without Python is identified by its name") {
  Job job(1);
  job.all(in_queue()).hang_dump();
  job.seen(0).helpers = {{.pid = 9, .name = "curl", .awaited = true, .still_s = 7}};
  CHECK(diagnose(job.facts).sentence.ends_with("; its process curl (pid 9) has made no progress for 7 s"));
}

TEST_CASE("a rank whose helpers work is busy, and only suspected until the stall has lasted") {
  Job job(4);
  job.all(in_barrier()).rank(0, in_queue());
  job.hang_dump();
  job.seen(0).helper_life = HelperLife::working;
  const Verdict v = diagnose(job.facts);
  CHECK(v.id == "hang.busy");
  CHECK(v.level == model::VerdictLevel::suspected);
  CHECK(v.ranks == RankSet{0});
}

TEST_CASE("helpers with little activity raise doubt for a limited time") {
  Job job(1);
  job.all(in_queue());
  SUBCASE("at first") {
    job.hang_dump();
    job.seen(0).helper_life = HelperLife::stirring;
    const Verdict v = diagnose(job.facts);
    CHECK(v.id == "hang.lock");
    CHECK(v.level == model::VerdictLevel::suspected);
    CHECK(v.sentence.starts_with("stall: rank 0"));
  }
  SUBCASE("after several timeouts") {
    job.hang_dump_escalated();
    job.seen(0).helper_life = HelperLife::stirring;
    const Verdict v = diagnose(job.facts);
    CHECK(v.id == "hang.lock");
    CHECK(v.level == model::VerdictLevel::confirmed);
  }
}

TEST_CASE("an idle server stays suspected without a time limit") {
  Job job(1);
  job.all(in_event_loop()).hang_dump_escalated();
  job.seen(0).outside = OutsideWait::event;
  CHECK(diagnose(job.facts).id == "hang.stuck");
  CHECK(diagnose(job.facts).level == model::VerdictLevel::suspected);
  SUBCASE("unless --hang-idle is set") {
    job.facts.dump->idle_counts = true;
    CHECK(diagnose(job.facts).level == model::VerdictLevel::confirmed);
  }
}

TEST_CASE("a server that other ranks wait for is a hang") {
  Job job(2);
  job.all(in_all_reduce()).rank(1, in_event_loop()).hang_dump();
  job.seen(1).outside = OutsideWait::event;
  const Verdict v = diagnose(job.facts);
  CHECK(v.level == model::VerdictLevel::confirmed);
  CHECK(v.ranks == RankSet{1});
}

TEST_CASE("several idle servers are treated like one") {
  Job job(3);
  job.all(in_event_loop()).hang_dump_escalated();
  for (base::Rank r = 0; r < 3; ++r) {
    job.seen(r).outside = OutsideWait::event;
  }
  CHECK(diagnose(job.facts).id == "hang.long_call");
  CHECK(diagnose(job.facts).level == model::VerdictLevel::suspected);
  job.seen(1).outside = OutsideWait::none;
  CHECK(diagnose(job.facts).level == model::VerdictLevel::confirmed);
}

TEST_CASE("a child that the rank waits for is told also where the wait is no known function") {
  Job job(2);
  job.all(in_barrier()).rank(1, {native("wait4", "libc.so.6"), py("main", "train.py", 110, "os.waitpid")});
  job.hang_dump();
  job.seen(1).helpers = {{.pid = 9,
                          .name = "python3",
                          .python = true,
                          .awaited = true,
                          .still_s = 3,
                          .function = "work",
                          .file = "train.py",
                          .line = 109},
                         {.pid = 10, .name = "tensorboard", .awaited = false, .still_s = 3}};
  const Verdict v = diagnose(job.facts);
  CHECK(v.id == "hang.stuck");
  CHECK(v.sentence.find("in main (train.py:110: os.waitpid) for 10 s; its process pid 9 has been in work "
                        "(train.py:109) for 3 s; rank 0") != std::string::npos);
  job.seen(1).helpers.erase(job.seen(1).helpers.begin());
  CHECK(diagnose(job.facts).sentence.find("tensorboard") == std::string::npos);
}

TEST_CASE("a server that waits for requests is no hang") {
  Job job(1);
  job.rank(0, {native("epoll_wait", "libc.so.6"),
               py("EpollSelector.select", "/usr/lib/python3.11/selectors.py", 468),
               py("BaseEventLoop.run_forever", "/usr/lib/python3.11/asyncio/base_events.py", 607),
               py("<module>", "/home/u/serve.py", 16)});
  job.hang_dump();
  job.seen(0).outside = OutsideWait::requests;
  auto& tasks = job.stacks_of(0).tasks;
  tasks = {{.id = 1,
            .name = "Task-1",
            .object = "_asyncio.Future",
            .frames = {py("Server.serve_forever", "/usr/lib/python3.11/asyncio/base_events.py", 372),
                       py("main", "/home/u/serve.py", 7)}}};
  CHECK(diagnose(job.facts).kind != model::VerdictKind::hang);
  // A client that listens for nothing, a task that waits for another one, and the user's wish.
  job.seen(0).outside = OutsideWait::event;
  CHECK(diagnose(job.facts).kind == model::VerdictKind::hang);
  job.seen(0).outside = OutsideWait::requests;
  job.facts.dump->idle_counts = true;
  CHECK(diagnose(job.facts).kind == model::VerdictKind::hang);
  job.facts.dump->idle_counts = false;
  tasks.push_back({.id = 2,
                   .name = "Task-2",
                   .object = "_asyncio.Future",
                   .frames = {py("Lock.acquire", "/usr/lib/python3.11/asyncio/locks.py", 114),
                              py("handle", "/home/u/serve.py", 3)}});
  CHECK(diagnose(job.facts).kind == model::VerdictKind::hang);
}

TEST_CASE(
    "a helper inside of a piece of work is named, a helper that waits for work or serves others is not") {
  const model::Frame run = py("BaseProcess.run", "/usr/lib/python3.11/multiprocessing/process.py", 108);
  const model::Frame server = py("main", "/usr/lib/python3.11/multiprocessing/forkserver.py", 273);
  const model::Frame worker = py("_process_worker", "/usr/lib/python3.11/concurrent/futures/process.py", 240);
  const model::Frame user = py("tokenize", "/home/u/train.py", 5);
  const auto place_of = [](std::vector<model::Frame> frames) {
    model::ProcessStacks process;
    process.threads.push_back({.state = 'S', .main = true, .frames = std::move(frames)});
    return place_of_helper(process).line;
  };
  const model::Frame get = py("Queue.get", "/usr/lib/python3.11/multiprocessing/queues.py", 103);
  const model::Frame wait = py("Event.wait", "/usr/lib/python3.11/threading.py", 622);
  CHECK(place_of({native("nanosleep", "libc.so.6"), user, worker, run, server}) == 5);
  CHECK(place_of({wait, user, worker, run, server}) == 5);
  CHECK(place_of({get, worker, run, server}) == 0);
  CHECK(place_of({get, user, run, py("<module>", "/home/u/train.py", 20)}) == 0);  // takes work itself
  CHECK(place_of({py("EpollSelector.select", "/usr/lib/python3.11/selectors.py", 468), server}) == 0);
  const model::Frame ray = py("Worker.main_loop", "/x/site-packages/ray/_private/worker.py", 1069);
  CHECK(place_of({user, ray}) == 5);
  CHECK(place_of({ray}) == 0);  // has no task
  CHECK(place_of({py("main", "/x/joblib/externals/loky/backend/resource_tracker.py", 357),
                  py("<module>", "<string>", 1)}) == 0);
}

TEST_CASE("the occasion of a wait: a signal handler, or the end of the program") {
  Job job(1);
  const model::Frame lock = py("on_alarm", "/home/u/train.py", 6, "lock.acquire");
  const model::Frame save = py("save", "/home/u/train.py", 12);
  job.rank(0, {native("futex_wait", "libc.so.6"), lock, native("PyErr_CheckSignals", "python3.11"), save});
  job.hang_dump();
  Verdict v = diagnose(job.facts);
  CHECK(v.sentence.find(
            "waiting for a lock in on_alarm (train.py:6: lock.acquire) for 10 s, in a signal handler that "
            "has interrupted save (train.py:12)") != std::string::npos);
  CHECK(v.next.text.find("take no lock in a signal handler") == 0);
  CHECK(v.title.find("rank 0 waits for a lock in a signal handler in on_alarm (train.py:6") == 0);
  // The signal comes again while the handler waits.
  const model::Frame check = native("PyErr_CheckSignals", "python3.11");
  job.rank(0, {native("futex_wait", "libc.so.6"), lock, check, lock, check, save});
  job.stacks_of(0).threads.front().lock = {.kind = "lock", .tid = job.stacks_of(0).threads.front().tid};
  v = diagnose(job.facts);
  CHECK(v.sentence.find("has interrupted save (train.py:12): it waits for a lock that it holds itself") !=
        std::string::npos);
  CHECK(v.title.find("rank 0 waits in a signal handler for a lock that it holds itself in on_alarm") == 0);
  job.rank(0, {native("futex_wait", "libc.so.6"), native("PyErr_CheckSignals", "python3.11"), save});
  CHECK(diagnose(job.facts).sentence.find("signal handler") == std::string::npos);
  job.rank(0, {native("futex_wait", "libc.so.6"), save, native("Py_FinalizeEx", "python3.11")});
  CHECK(diagnose(job.facts).sentence.find("in save (train.py:12) for 10 s, at the end of the program") !=
        std::string::npos);
}

TEST_CASE("a wait between processes that nobody is left to end") {
  Job job(2);
  job.all({py("Condition.wait", "/usr/lib/python3.11/multiprocessing/synchronize.py", 261),
           py("step", "/home/u/train.py", 4),
           py("BaseProcess._bootstrap", "/usr/lib/python3.11/multiprocessing/process.py", 108)});
  job.hang_dump();
  const Verdict v = diagnose(job.facts);
  CHECK(v.sentence.ends_with("for 10 s; no other process is left that could end this wait"));
  CHECK(v.next.text.find("NCCL") == std::string::npos);
}

TEST_CASE("a pool whose threads all wait for its own tasks") {
  const model::Frame result = py("Future.result", "/usr/lib/python3.11/concurrent/futures/_base.py", 451);
  const model::Frame worker = py("_worker", "/usr/lib/python3.11/concurrent/futures/thread.py", 83);
  Job job(1);
  job.rank(0, {result, py("run", "/home/u/train.py", 10)});
  job.hang_dump();
  auto& threads = job.stacks_of(0).threads;
  for (const char* name : {"ThreadPoolExecutor-0_0", "ThreadPoolExecutor-0_1"}) {
    threads.push_back({.tid = 7,
                       .python_name = name,
                       .state = 'S',
                       .frames = {result, py("outer", "/home/u/train.py", 7), worker}});
  }
  Verdict v = diagnose(job.facts);
  CHECK(v.sentence.ends_with(
      "; all 2 threads of the pool ThreadPoolExecutor-0 wait for futures of their own, in outer "
      "(train.py:7: Future.result)"));
  CHECK(v.next.text.find("a pool of their own") != std::string::npos);
  job.stacks_of(0).threads.back().frames = {
      py("_worker", "/usr/lib/python3.11/concurrent/futures/thread.py", 81)};
  CHECK(diagnose(job.facts).sentence.find("of the pool") == std::string::npos);
}

TEST_CASE("an event loop whose pool waits for its own tasks is no idle server") {
  const model::Frame result = py("Future.result", "/usr/lib/python3.11/concurrent/futures/_base.py", 451);
  const model::Frame worker = py("_worker", "/usr/lib/python3.11/concurrent/futures/thread.py", 83);
  Job job(1);
  job.rank(0, in_event_loop());
  job.hang_dump();
  job.seen(0).outside = OutsideWait::event;
  job.stacks_of(0).tasks = {{.id = 1,
                             .name = "Task-1",
                             .object = "_GatheringFuture",
                             .frames = {py("main", "/home/u/serve.py", 12)}}};
  CHECK(diagnose(job.facts).level == model::VerdictLevel::suspected);
  job.stacks_of(0).threads.push_back({.tid = 7,
                                      .python_name = "io_0",
                                      .state = 'S',
                                      .frames = {result, py("load_shard", "/home/u/serve.py", 6), worker}});
  const Verdict v = diagnose(job.facts);
  CHECK(v.level == model::VerdictLevel::confirmed);
  CHECK(v.where.line == 12);
  CHECK(v.sentence.ends_with(
      "in main (serve.py:12) for 10 s; the only thread of the pool io waits for a future "
      "of its own, in load_shard (serve.py:6: Future.result)"));
  CHECK(v.next.text.find("a pool of their own") != std::string::npos);
}

TEST_CASE("an event of asyncio, and the future of the only task, may be set by a handler of signals") {
  Job job(1);
  job.rank(0, in_event_loop());
  job.hang_dump();
  job.seen(0).helper_life = HelperLife::still;
  auto& tasks = job.stacks_of(0).tasks;
  tasks = {{.id = 1, .name = "Task-1", .frames = {py("main", "/home/u/serve.py", 12)}}};
  CHECK(diagnose(job.facts).level == model::VerdictLevel::suspected);
  tasks.push_back({.id = 2, .name = "Task-2", .frames = {py("infer", "/home/u/serve.py", 6)}});
  CHECK(diagnose(job.facts).level == model::VerdictLevel::confirmed);
  auto& frames = tasks.front().frames;
  frames.insert(frames.begin(), py("Event.wait", "/usr/lib/python3.11/asyncio/locks.py", 213));
  CHECK(diagnose(job.facts).level == model::VerdictLevel::suspected);
}

TEST_CASE("a main thread that runs a loop, and the thread that works for it") {
  const model::Frame worker = py("_worker", "/usr/lib/python3.11/concurrent/futures/thread.py", 83);
  const model::Frame serve = py("BaseServer.serve_forever", "/usr/lib/python3.11/socketserver.py", 233);
  const model::Frame process =
      py("ThreadingMixIn.process_request_thread", "/usr/lib/python3.11/socketserver.py", 691);
  const model::Frame user = py("parse", "/home/u/serve.py", 6, "time.sleep");
  const model::Frame main = py("<module>", "/home/u/serve.py", 20, "BaseServer.serve_forever");
  const model::Frame select = py("PollSelector.select", "/usr/lib/python3.11/selectors.py", 415);
  const model::Frame wait = py("Condition.wait", "/usr/lib/python3.11/threading.py", 331);
  const model::Frame grpc =
      py("_Server.wait_for_termination", "/x/lib/python3.11/site-packages/grpc/_server.py", 1479);
  struct Case {
    Stack loop;
    model::Frame base;
  };
  for (const auto& [loop, base] : {Case{in_event_loop(), worker}, Case{{select, serve, main}, process},
                                   Case{{wait, grpc, main}, worker}}) {
    Job job(1);
    job.rank(0, loop).hang_dump();
    job.seen(0).outside = OutsideWait::requests;
    const Verdict idle = diagnose(job.facts);
    CHECK(idle.where.line != 6);
    model::ThreadStack work{.tid = 7, .python_name = "io_0", .state = 'S', .frames = {user, base}};
    job.stacks_of(0).threads.push_back(work);
    const Verdict v = diagnose(job.facts);
    CHECK(v.level == model::VerdictLevel::suspected);  // it may be a long sleep
    CHECK(v.where.line == 6);
    CHECK_MESSAGE(
        v.sentence.find("in parse (serve.py:6: time.sleep) for 10 s in its thread 7 (io_0), while its "
                        "main thread runs the loop in ") != std::string::npos,
        v.sentence);
    // Without a piece of work, or while it moves, the thread is no news.
    job.seen(0).helper_life = model::HelperLife::stirring;
    CHECK(diagnose(job.facts).where.line != 6);
    job.seen(0).helper_life = model::HelperLife::still;
    job.stacks_of(0).threads.back().frames = {py("Queue.get", "/usr/lib/python3.11/queue.py", 171), user,
                                              base};
    CHECK(diagnose(job.facts).where.line != 6);
  }
}

TEST_CASE("a worker whose main thread runs the loop of a library stands where its thread does") {
  model::ProcessStacks process;
  process.threads.push_back(
      {.main = true,
       .frames = {py("EpollSelector.select", "/usr/lib/python3.11/selectors.py", 468),
                  py("Runner.run", "/usr/lib/python3.11/asyncio/runners.py", 118),
                  py("asyncio_run", "/x/site-packages/distributed/compatibility.py", 35)}});
  CHECK(place_of_helper(process).function == "asyncio_run");
  process.threads.push_back(
      {.tid = 2,
       .frames = {py("Event.wait", "/usr/lib/python3.11/threading.py", 622),
                  py("wait_forever", "/home/u/job.py", 10),
                  py("_worker", "/x/site-packages/distributed/threadpoolexecutor.py", 57)}});
  CHECK(place_of_helper(process).function == "wait_forever");
}

TEST_CASE("frames of libraries that Cython has named are none of the user's") {
  const Stack stack = {
      py("gevent._gevent_c_greenlet_primitives._greenlet_switch", "_gevent_c_greenlet_primitives.pxd", 35),
      py("gevent._gevent_cgreenlet.Greenlet.get", "src/gevent/greenlet.py", 830),
      py("main", "/home/u/train.py", 9)};
  CHECK(place_of(stack).line == 9);
}
