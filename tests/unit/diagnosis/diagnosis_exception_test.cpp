#include "report/diagnosis/ends/origin.h"
#include "tests/unit/diagnosis/raised.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <csignal>

using namespace xpurun;
using namespace xpurun::report;
using namespace xpurun::report::testing;
using model::ExceptionKind;
using model::PythonException;
using model::RankSet;
using model::Verdict;

namespace {

bool has(const std::vector<std::string>& lines, const std::string& wanted) {
  return std::find(lines.begin(), lines.end(), wanted) != lines.end();
}

}  // namespace

TEST_CASE("the verdict is the exception at the user's own line") {
  Job job = failed_rank();
  tell(job, 2, ExceptionKind::raised, 12.1, "KeyError", "'label'").wall_ns = 1'790'000'000'500'000'000;
  const Verdict v = diagnose(job.facts);
  CHECK(v.id == "exit.exception");
  CHECK(v.kind == model::VerdictKind::exception);
  CHECK(v.ranks == RankSet{2});
  CHECK(v.exit_code == 1);
  CHECK(v.where.function == "collate");
  CHECK(v.where.line == 21);
  CHECK(v.sentence ==
        "exception: rank 2 raised KeyError: 'label' at data.py:21 (in collate) after 12 s; "
        "ranks 0-1,3 were ended after it");
  CHECK(has(v.evidence, "  File \"/home/u/data.py\", line 21, in collate"));
  CHECK(v.exception.type == "KeyError");
  CHECK(v.exception.message == "'label'");
  CHECK(v.exception.thread == "MainThread");
  CHECK(v.exception.time == "2026-09-21T14:13:20Z");
  CHECK(v.exception.traceback.starts_with("Traceback (most recent call last):\n"));
  CHECK(v.exception.traceback.find("KeyError: 'label'") != std::string::npos);
  const auto j = model::to_json(v);
  CHECK(j["exception"]["type"] == "KeyError");
  const auto read = model::verdict_from_json(j);
  REQUIRE(read);
  CHECK(read->exception.traceback == v.exception.traceback);
  CHECK_FALSE(model::to_json(Verdict{}).contains("exception"));
}

TEST_CASE("evidence of an exception has no traceback of one line, and no heading") {
  Job job = failed_rank();
  model::PythonException& raised = tell(job, 2, ExceptionKind::raised, 12.1, "KeyError", "'label'");
  const auto of_traceback = [](const std::string& line) {
    return line.find("Traceback") != std::string::npos || line.find("File \"") != std::string::npos;
  };
  Verdict v = diagnose(job.facts);
  CHECK(std::count_if(v.evidence.begin(), v.evidence.end(), of_traceback) == 2);
  CHECK_FALSE(has(v.evidence, "Traceback (most recent call last):"));
  raised.chain[0].frames.erase(raised.chain[0].frames.begin());
  v = diagnose(job.facts);
  CHECK(v.sentence.find("at data.py:21 (in collate)") != std::string::npos);
  CHECK(std::count_if(v.evidence.begin(), v.evidence.end(), of_traceback) == 0);
}

TEST_CASE("an allocation that fails is told with the line that holds the memory") {
  struct Row {
    const char* type;
    const char* message;
    bool of_memory;
  };
  for (const Row& row :
       {Row{"MemoryError", "", true},
        Row{"numpy.core._exceptions._ArrayMemoryError", "Unable to allocate 1.00 MiB", true},
        Row{"RuntimeError", "[enforce fail] DefaultCPUAllocator: can't allocate memory", true},
        Row{"torch.cuda.OutOfMemoryError", "CUDA out of memory.", false},
        Row{"KeyError", "'label'", false}}) {
    CAPTURE(row.type);
    Job job = failed_rank();
    job.leaked(2, 500 << 20, 100 << 20);
    tell(job, 2, ExceptionKind::raised, 12.1, row.type, row.message);
    const Verdict v = diagnose(job.facts);
    CHECK(v.memory.present() == row.of_memory);
    CHECK((v.sentence.find(
               "; it held 500 MiB that were allocated at append_loss (train.py:55), 1.0 MiB more in each "
               "step") != std::string::npos) == row.of_memory);
    CHECK((v.next.text.find("append_loss (train.py:55) allocates") != std::string::npos) == row.of_memory);
    CHECK(v.where.line == 21);
  }
}

TEST_CASE("the first exception decides, not the first death") {
  Job job(2);
  job.died(0, exited(1), 12.2).died(1, exited(1), 12.9);
  job.agent_died(exited(1), 13).ended(exited(1));
  tell(job, 0, ExceptionKind::raised, 12.1, "RuntimeError", "Connection closed by peer [127.0.0.1]:4711");
  tell(job, 1, ExceptionKind::raised, 12.05, "ValueError", "bad batch");
  const Verdict v = diagnose(job.facts);
  CHECK(v.ranks == RankSet{1});
  CHECK(v.confidence == model::Confidence::high);
}

TEST_CASE("a killed rank precedes the ranks whose connections broke, even if its death was seen later") {
  Job job(2);
  job.died(0, exited(1), 12.9).died(1, kKill, 12.15);
  job.agent_died(exited(1), 13).ended(exited(1));
  tell(job, 0, ExceptionKind::raised, 12.1, "RuntimeError", "Connection closed by peer [127.0.0.1]:4711");
  Verdict v = diagnose(job.facts);
  CHECK(v.id == "crash.killed");
  CHECK(v.ranks == RankSet{1});
  job.record(1).death.at_s = 12.5;
  v = diagnose(job.facts);
  CHECK(v.id == "exit.exception");
  CHECK(v.ranks == RankSet{0});
}

TEST_CASE("exceptions are ordered by the host's clock, not by arrival") {
  Job job(2);
  job.facts.run.started_wall_ns = 1'000'000'000'000;
  job.died(0, exited(1), 12.9).died(1, exited(1), 12.9);
  job.agent_died(exited(1), 13).ended(exited(1));
  tell(job, 0, ExceptionKind::raised, 12.1, "RuntimeError", "late").wall_ns = 1'012'060'000'000;
  tell(job, 1, ExceptionKind::raised, 12.2, "ValueError", "early").wall_ns = 1'012'050'000'000;
  CHECK(diagnose(job.facts).ranks == RankSet{1});
}

TEST_CASE("a crash during the interpreter's shutdown does not hide the exception") {
  Job job(2);
  job.died(1, kAbrt, 14).agent_died(exited(1), 15).ended(exited(1));
  tell(job, 1, ExceptionKind::raised, 12, "ValueError", "bad batch");
  const Verdict v = diagnose(job.facts);
  CHECK(v.id == "exit.exception");
  CHECK(v.seconds == doctest::Approx(12));
}

TEST_CASE("an exit call counts if the process ended with its status") {
  Job job = failed_rank(7);
  tell(job, 2, ExceptionKind::sys_exit, 12.1, "SystemExit", "no data").code = 7;
  Verdict v = diagnose(job.facts);
  CHECK(v.id == "exit.error");
  CHECK(v.sentence ==
        "exit: rank 2 called sys.exit('no data') at data.py:21 (in collate) after 12 s; "
        "ranks "
        "0-1,3 were ended after it");
  job.facts.run.exceptions.back().code = 3;
  v = diagnose(job.facts);
  CHECK(v.where.function.empty());
  CHECK(v.sentence.find("sys.exit") == std::string::npos);
}

TEST_CASE("an exit while handling an exception names the exception") {
  Job job = failed_rank();
  PythonException& x = tell(job, 2, ExceptionKind::sys_exit, 12.1, "SystemExit", "");
  x.code = 1;
  x.chain.push_back(x.chain.front());
  x.chain[1].relation = model::Relation::context;
  x.chain[1].type = "KeyError";
  x.chain[1].message = "'label'";
  const Verdict v = diagnose(job.facts);
  CHECK(v.sentence.find("called sys.exit(1) at data.py:21 (in collate) while handling KeyError: 'label' at "
                        "data.py:21 (in collate)") != std::string::npos);
}

TEST_CASE("an exception that torch.multiprocessing has caught is the rank's") {
  const std::string library = "/usr/lib/python3/dist-packages/torch/multiprocessing/spawn.py";
  const std::vector<model::PythonFrame> start = {
      {.file = "<string>", .line = 1, .function = "<module>"},
      {.file = "/usr/lib/python3.11/multiprocessing/spawn.py", .line = 122, .function = "spawn_main"}};
  Job job = failed_rank();
  PythonException& call = tell(job, 2, ExceptionKind::sys_exit, 12.1, "SystemExit", "");
  call.code = 1;
  call.chain.push_back(call.chain.front());
  call.chain[1].relation = model::Relation::context;
  call.chain[1].type = "KeyError";
  call.chain[1].message = "'label'";
  call.chain[0].frames = start;
  call.chain[0].frames.push_back({.file = library, .line = 75, .function = "_wrap"});
  // multiprocessing's own call comes last.
  PythonException& last = tell(job, 2, ExceptionKind::sys_exit, 12.2, "SystemExit", "");
  last.code = 1;
  last.chain[0].frames = start;
  const Verdict v = diagnose(job.facts);
  CHECK(v.sentence.find("rank 2 raised KeyError: 'label' at data.py:21 (in collate) after 12 s") !=
        std::string::npos);
  CHECK(v.where.line == 21);
  CHECK(v.id == "exit.exception");
  CHECK(v.kind == model::VerdictKind::exception);
  CHECK_MESSAGE(v.title.starts_with("rank 2 raised KeyError: 'label' in collate (data.py:21"), v.title);
}

TEST_CASE("an exception that the process survived is no cause") {
  Job job(1);
  job.died(0, exited(0), 12).ended(exited(0));
  tell(job, 0, ExceptionKind::raised, 5, "ValueError", "caught by a prompt");
  CHECK(diagnose(job.facts).id == "none.finished");
}

TEST_CASE("the launcher's messages about its children, or about a signal that ends it, are consequences") {
  for (const char* type : {"torch.distributed.elastic.multiprocessing.errors.ChildFailedError",
                           "torch.distributed.elastic.multiprocessing.api.SignalException"}) {
    CAPTURE(type);
    Job job = failed_rank();
    PythonException& x = tell(job, 2, ExceptionKind::raised, 12, type, "\n====\ntrain.py FAILED");
    x.pid = Job::kAgentPid;
    x.rank = base::kNoRank;
    const Verdict v = diagnose(job.facts);
    CHECK(v.ranks == RankSet{2});
    CHECK(v.id == "exit.error");
    for (const std::string& line : v.evidence) {
      CHECK_MESSAGE(line.find("train.py FAILED") == std::string::npos, line);
    }
  }
}

TEST_CASE("exceptions of other threads are evidence in a hang too") {
  Job job(2);
  job.all(in_all_reduce()).rank(1, in_queue()).hang_dump_escalated();
  tell(job, 1, ExceptionKind::thread, 3, "KeyError", "'label'").thread = "feeder";
  const Verdict v = diagnose(job.facts);
  CHECK(v.kind == model::VerdictKind::hang);
  CHECK(has(v.evidence,
            "at 3.00 s: thread feeder of rank 1 raised KeyError: 'label' at data.py:21 (in collate)"));
}

TEST_CASE("a rank that hangs while it handles an exception") {
  Job job(4);
  job.all(in_all_reduce()).rank(2, in_sleep()).hang_dump();
  model::ExceptionLink& handling = job.stacks_of(2).threads[0].handling;
  handling = {.type = "KeyError",
              .message = "'label'",
              .frames = {{.file = "/home/u/train.py", .line = 30, .function = "step"},
                         {.file = "/home/u/data.py", .line = 21, .function = "collate"}}};
  Verdict v = diagnose(job.facts);
  CHECK(v.sentence ==
        "hang: rank 2 has been in load_batch (train.py:31: time.sleep) for 10 s while "
        "handling KeyError: 'label' at data.py:21 (in collate); ranks 0-1,3 wait for it in all_reduce "
        "(train.py:44)");
  // Programs may run normally inside such a handler.
  handling.type = "ModuleNotFoundError";
  v = diagnose(job.facts);
  CHECK(v.sentence.find("handling") == std::string::npos);
  CHECK(has(v.evidence,
            "rank 2 is handling ModuleNotFoundError: 'label' at data.py:21 (in collate), caught in step "
            "(train.py)"));
}

TEST_CASE("a rank that hangs after an exception ended one of its threads") {
  Job job(4);
  job.all(in_all_reduce()).rank(2, in_queue()).hang_dump();
  tell(job, 2, ExceptionKind::thread, job.facts.dump->at_s - 5, "ValueError", "shard 17").thread = "loader";
  tell(job, 1, ExceptionKind::thread, job.facts.dump->at_s - 5, "ValueError", "not the culprit's");
  tell(job, 2, ExceptionKind::thread, job.facts.dump->at_s + 5, "ValueError", "after the hang");
  const Verdict v = diagnose(job.facts);
  CHECK(v.id == "hang.lock");
  CHECK(v.sentence.find("for 10 s; its thread loader raised ValueError: shard 17 at data.py:21 (in collate); "
                        "ranks 0-1,3 wait") != std::string::npos);
}

TEST_CASE("a rank whose shutdown hangs after an exception") {
  Job job(4);
  job.all(in_all_reduce()).rank(2, in_sleep()).hang_dump();
  tell(job, 2, ExceptionKind::raised, job.facts.dump->at_s - 5, "KeyError", "'label'");
  const Verdict v = diagnose(job.facts);
  CHECK(v.kind == model::VerdictKind::hang);
  CHECK(v.sentence.find("for 10 s after it raised KeyError: 'label' at data.py:21 (in collate)") !=
        std::string::npos);
}

TEST_CASE("an exception of a rank with an unknown status") {
  Job job = failed_rank();
  job.record(2).death.wait_status = base::WaitStatus();
  tell(job, 2, ExceptionKind::raised, 12.1, "KeyError", "'label'");
  CHECK(diagnose(job.facts).id == "exit.exception");
}

TEST_CASE("a rank that takes its time to die without a word precedes the ranks that lost it") {
  const std::string lost = "[../gloo/pair.cc:598] Connection closed by peer [127.0.0.1]:4711";
  Job job(3);
  for (const base::Rank r : {0, 2}) {
    PythonException& x = tell(job, r, ExceptionKind::raised, 12.1, "RuntimeError", lost);
    x.chain.front().frames = {{.file = "/home/u/train.py", .line = 28, .function = "main"},
                              {.file = "/usr/lib/python3/dist-packages/torch/distributed/distributed_c10d.py",
                               .line = 1541,
                               .function = "all_reduce"}};
    job.died(r, exited(1), 13);
  }
  job.died(1, SIGINT, 12.5).agent_died(exited(1), 14).ended(exited(1));
  Verdict v = diagnose(job.facts);
  CHECK(v.id == "crash.killed");
  CHECK(v.ranks == RankSet{1});
  CHECK(v.next.text == "Python ends this way after KeyboardInterrupt: find out what interrupted rank 1");

  // SystemExit(0), whose end the interpreter's cleanup delays.
  job.record(1).death.wait_status = base::WaitStatus(exited(0));
  v = diagnose(job.facts);
  CHECK(v.id == "exit.left_early");
  CHECK(v.ranks == RankSet{1});
  CHECK(v.sentence.find("rank 1 left early (exit status 0) after 12 s; rank 0 lost the connection to another "
                        "rank (RuntimeError) at once") != std::string::npos);
  tell(job, 1, ExceptionKind::os_exit, 12.05, "SystemExit", "").code = 0;
  CHECK(diagnose(job.facts).sentence.find("rank 1 left early (called os._exit(0) at data.py:21 (in "
                                          "collate)) after 12 s") != std::string::npos);
  job.facts.run.exceptions.pop_back();
  job.record(1).death.wait_status = base::WaitStatus(SIGINT);

  // An exception of the rank itself has another reason.
  job.facts.run.exceptions.front().chain.front().message = "The size of tensor a must match";
  job.facts.run.exceptions.back().at_s = 12.2;
  v = diagnose(job.facts);
  CHECK(v.ranks == RankSet{0});
}

TEST_CASE("a rank that has finished is no reason for an exception that has nothing to do with others") {
  Job job(3);
  PythonException& x = tell(job, 1, ExceptionKind::raised, 12.1, "ValueError", "bad batch");
  x.chain.front().frames = {{.file = "/home/u/train.py", .line = 4, .function = "load"}};
  job.died(0, exited(0), 12).died(1, exited(1), 12.2).died(2, SIGTERM, 13).ended(exited(1));
  const Verdict v = diagnose(job.facts);
  CHECK(v.id == "exit.exception");
  CHECK(v.ranks == RankSet{1});
}

TEST_CASE("the exception of a data loader's worker is told, not the one that carries it") {
  Job job = failed_rank();
  tell(job, 2, ExceptionKind::raised, 12.1, "ValueError",
       "Caught ValueError in DataLoader worker process 1.\n"
       "Original Traceback (most recent call last):\n"
       "  File \"/usr/lib/python3/dist-packages/torch/utils/data/_utils/fetch.py\", line 58, in fetch\n"
       "    data = [self.dataset[idx] for idx in possibly_batched_index]\n"
       "            ~~~~~~~~~~~~^^^^^\n"
       "  File \"/home/u/images.py\", line 134, in __getitem__\n"
       "    raise ValueError(f\"corrupt JPEG in sample {i}\")\n"
       "ValueError: corrupt JPEG in sample 5\n");
  const Verdict v = diagnose(job.facts);
  CHECK(
      v.sentence.find("raised ValueError: corrupt JPEG in sample 5 at images.py:134 (in __getitem__), in its "
                      "DataLoader worker process 1 after 12 s") != std::string::npos);
  CHECK(v.where.line == 134);
  CHECK_MESSAGE(v.title.starts_with(
                    "rank 2 raised ValueError: corrupt JPEG in sample 5 in __getitem__ (images.py:134)"),
                v.title);
  CHECK(has(v.evidence, "  File \"/home/u/images.py\", line 134, in __getitem__"));
}

TEST_CASE("the exception of a pool's process is told with its line") {
  Job job = failed_rank();
  PythonException& x =
      tell(job, 2, ExceptionKind::raised, 12.1, "ValueError", "invalid literal for int() with base 10: 'x'");
  x.chain.push_back({.relation = model::Relation::cause,
                     .type = "concurrent.futures.process._RemoteTraceback",
                     .message = "\n\"\"\"\nTraceback (most recent call last):\n"
                                "  File \"/home/u/parse.py\", line 7, in parse\n    return int(text)\n"
                                "ValueError: invalid literal for int() with base 10: 'x'\n\"\"\""});
  const Verdict v = diagnose(job.facts);
  CHECK(v.sentence.find("'x' at parse.py:7 (in parse), in a process of its pool") != std::string::npos);
  CHECK(v.where.line == 7);
  CHECK_FALSE(std::any_of(v.evidence.begin(), v.evidence.end(), [](const std::string& e) {
    return e.find("RemoteTraceback") != std::string::npos;
  }));
}

TEST_CASE("a process of a pool that ran no code of the user's has no place of its own") {
  Job job = failed_rank();
  PythonException& x = tell(job, 2, ExceptionKind::raised, 12.1, "ValueError", "'x'");
  x.chain.push_back({.relation = model::Relation::cause,
                     .type = "multiprocessing.pool.RemoteTraceback",
                     .message =
                         "\n\"\"\"\nTraceback (most recent call last):\n"
                         "  File \"/usr/lib/python3.11/concurrent/futures/process.py\", line 256, in f\n"
                         "ValueError: 'x'\n\"\"\""});
  const Verdict v = diagnose(job.facts);
  CHECK(v.sentence.find("raised ValueError: 'x' at data.py:21 (in collate), in a process of its pool") !=
        std::string::npos);
  CHECK(v.where.line == 21);
}

TEST_CASE("a worker that died is in the sentence on the rank that misses the worker") {
  const auto broken_pool = [](int status, double at_s) {
    Job job = failed_rank();
    tell(job, 2, ExceptionKind::raised, 12.1, "concurrent.futures.process.BrokenProcessPool",
         "terminated abruptly");
    job.facts.run.processes.push_back({.pid = 900, .role = model::ProcessRole::worker, .rank = 2});
    job.facts.run.processes.back().death = {
        .happened = true, .at_s = at_s, .wait_status = base::WaitStatus(status)};
    return job;
  };
  Job job = broken_pool(SIGSEGV, 12);
  CHECK(diagnose(job.facts).sentence.find("; before it, its process (pid 900) died of SIGSEGV") !=
        std::string::npos);
  job = broken_pool(SIGTERM, 12);
  CHECK(diagnose(job.facts).sentence.find("pid 900") == std::string::npos);
  job = broken_pool(SIGSEGV, 2);
  CHECK(diagnose(job.facts).sentence.find("pid 900") == std::string::npos);
  job = broken_pool(exited(11), 12);
  PythonException& call = tell(job, 2, ExceptionKind::os_exit, 12, "SystemExit", "");
  call.pid = 900;
  call.code = 11;
  CHECK(diagnose(job.facts).sentence.find(
            "its process (pid 900) called os._exit(11) at data.py:21 (in collate)") != std::string::npos);
}

TEST_CASE("of an exception group the first member is told") {
  Job job = failed_rank();
  PythonException& x = tell(job, 2, ExceptionKind::raised, 12.1, "ExceptionGroup",
                            "unhandled errors in a TaskGroup (2 sub-exceptions)");
  x.chain.push_back({.relation = model::Relation::member,
                     .type = "ValueError",
                     .message = "shard 2: bad crc",
                     .frames = {{.file = "/home/u/load.py", .line = 4, .function = "load"}}});
  x.chain.push_back({.relation = model::Relation::member, .type = "OSError", .message = "shard 3"});
  Verdict v = diagnose(job.facts);
  CHECK(v.sentence.find(
            "raised ExceptionGroup: unhandled errors in a TaskGroup (2 sub-exceptions), the first of "
            "which is ValueError: shard 2: bad crc at load.py:4 (in load)") != std::string::npos);
  CHECK(v.where.line == 4);
  CHECK(has(v.evidence, "also in the group: OSError: shard 3"));

  // Members that nobody has raised have no place.
  x.chain[1].frames.clear();
  v = diagnose(job.facts);
  CHECK(v.sentence.find(
            "(2 sub-exceptions) at data.py:21 (in collate), the first of which is ValueError: shard 2: "
            "bad crc after") != std::string::npos);
  CHECK(v.where.line == 21);
}

TEST_CASE("the last exception of a traceback that has several is the one that counts") {
  const model::ExceptionLink link = parse_traceback(
      "Traceback (most recent call last):\n  File \"/a.py\", line 1, in f\nKeyError: 'x'\n\n"
      "During handling of the above exception, another exception occurred:\n\n"
      "Traceback (most recent call last):\n  File \"/b.py\", line 2, in g\n    1 / 0\nZeroDivisionError\n");
  CHECK(link.type == "ZeroDivisionError");
  CHECK(link.message.empty());
  REQUIRE(link.frames.size() == 1);
  CHECK(link.frames[0].file == "/b.py");
  CHECK(link.frames[0].source == "1 / 0");
  CHECK(parse_traceback("").empty());
  CHECK(parse_traceback("Traceback (most recent call last):\n  File \"/a.py\", line x, in\n").empty());
}

TEST_CASE("failures of files and workers have advice of their own") {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"[enforce fail at inline_container.cc:445] . PytorchStreamWriter failed writing file data/0", "df -h"},
      {"[Errno 28] No space left on device", "df -h"},
      {"[Errno 122] Disk quota exceeded: '/data/a.pt'", "df -h"},
      {"unable to allocate shared memory(shm) for file </torch_7>: No space left on device (28)", "/dev/shm"},
      {"[Errno 107] Transport endpoint is not connected: '/mnt/s2.bin'", "findmnt"},
      {"[Errno 107] Transport endpoint is not connected", "read the whole traceback"},  // of a socket
      {"[Errno 5] Input/output error: '/data/a.bin'", "findmnt"},
      {"[Errno 24] Too many open files: '/data/a.bin'", "ulimit -n"},
      {"can't start new thread", "pids.max"},
      {"[Errno -3] Temporary failure in name resolution", "resolv.conf"},
      {"DataLoader worker (pid 5) is killed by signal: Killed. ", "memory ran out"},
      {"DataLoader worker (pid 5) is killed by signal: Bus error. ", "/dev/shm"},
      {"bad batch", "read the whole traceback"},
  };
  for (const auto& one : cases) {
    Job job = failed_rank();
    tell(job, 2, ExceptionKind::raised, 12.1, "RuntimeError", one.first);
    CAPTURE(one.first);
    CHECK(diagnose(job.facts).next.text.find(one.second) != std::string::npos);
  }
}

TEST_CASE("what a library raises and catches itself is no evidence") {
  Job job(1);
  job.rank(0, in_sleep()).hang_dump();
  model::ExceptionLink& handling = job.stacks_of(0).threads[0].handling;
  handling = {
      .type = "IndexError",
      .message = "pop from an empty deque",
      .frames = {{.file = "/usr/lib/python3.11/multiprocessing/pool.py", .line = 856, .function = "next"}}};
  const auto told = [&] {
    const Verdict v = diagnose(job.facts);
    return v.sentence.find("IndexError") != std::string::npos ||
           std::any_of(v.evidence.begin(), v.evidence.end(),
                       [](const std::string& e) { return e.find("IndexError") != std::string::npos; });
  };
  CHECK_FALSE(told());
  handling.frames.push_back({.file = "/home/u/train.py", .line = 9, .function = "take"});
  CHECK(told());
}

TEST_CASE("an exception whose cleanup makes a call of its own is in the sentence on the calls that differ") {
  Job job(3);
  job.all(in_all_reduce()).rank(1, in_barrier()).hang_dump();
  job.stacks_of(1).threads.front().handling = {
      .type = "KeyError",
      .message = "'x'",
      .frames = {{.file = "/home/u/train.py", .line = 17, .function = "main"}}};
  const Verdict v = diagnose(job.facts);
  CHECK(v.id == "hang.mismatch");
  CHECK(v.sentence ==
        "hang: rank 1 has waited in barrier (train.py:51) for 10 s while handling "
        "KeyError: 'x' "
        "at train.py:17 (in main), while ranks 0,2 wait in all_reduce (train.py:44)");
}

TEST_CASE("of ranks that fail by themselves nobody says that they were ended") {
  Job job(4);
  job.died(2, exited(1), 12.4).died(0, exited(1), 12.6).died(1, exited(1), 12.7);
  job.died(3, kTerm, 13, "ended by the launcher");
  job.agent_died(exited(1), 13.5).ended(exited(1));
  tell(job, 2, ExceptionKind::raised, 12.1, "KeyError", "'label'");
  for (const base::Rank r : {0, 1}) {
    tell(job, r, ExceptionKind::raised, 12.2 + r, "RuntimeError",
         "Connection closed by peer [127.0.0.1]:" + std::to_string(4711 + r));
  }
  const Verdict v = diagnose(job.facts);
  CHECK(v.sentence ==
        "exception: rank 2 raised KeyError: 'label' at data.py:21 (in collate) after 12 s; ranks 0-1 failed "
        "after it, and rank 3 was ended");
  // The sentence is not repeated, ranks that lost their peer share a line, the launcher's end is expected.
  CHECK(has(v.evidence, "at 12.20 s: ranks 0-1 lost the connection to another rank (RuntimeError)"));
  for (const std::string& line : v.evidence) {
    CAPTURE(line);
    CHECK(line.find(": rank 2 raised") == std::string::npos);
    CHECK(line.find("torchrun") == std::string::npos);
  }
}

TEST_CASE("the sentence tells the time of day of an end") {
  Job job = failed_rank();
  job.facts.run.started_wall_ns = 1'795'230'915'000'000'000;  // 03:15:15 UTC
  tell(job, 2, ExceptionKind::raised, 12.1, "KeyError", "'label'");
  CHECK(diagnose(job.facts).sentence.find("(in collate) after 12 s (03:15:27 UTC); ranks 0-1,3 were") !=
        std::string::npos);
}

TEST_CASE("a survivor whose interpreter ends is no evidence") {
  Job job(3);
  job.all(in_all_reduce());
  job.hang_dump();
  job.facts.run.stalls.clear();
  job.died(2, exited(1), 12);
  tell(job, 2, ExceptionKind::raised, 12, "KeyError", "'label'");
  job.ended(exited(1));
  const auto lines_of_rank_1 = [&] {
    const Verdict v = diagnose(job.facts);
    CHECK(v.kind == model::VerdictKind::exception);
    return std::count_if(v.evidence.begin(), v.evidence.end(), [](const std::string& line) {
      return line.find("rank 1") != std::string::npos || line.find("ranks 0-1") != std::string::npos;
    });
  };
  CHECK(lines_of_rank_1() == 1);
  auto& frames = job.stacks_of(1).threads[0].frames;
  frames.push_back({.func = "Py_FinalizeEx"});
  CHECK(lines_of_rank_1() == 0);
}

TEST_CASE("the KeyboardInterrupt of the rank that stood still is no failure of its own") {
  Job job(4);
  job.all(in_all_reduce()).rank(2, in_sleep()).hang_dump();
  job.facts.run.outcome = model::RunOutcome::interrupted;
  job.died(2, exited(1), 60);
  tell(job, 2, ExceptionKind::raised, 59.9, "KeyboardInterrupt", "");
  const Verdict v = diagnose(job.facts);
  CHECK(v.id == "interrupted.while_hung");
  CHECK(v.ranks == RankSet{2});
}

TEST_CASE("out of GPU memory: the rank beside the others, its growth, and other processes") {
  constexpr int64_t kGiB = int64_t{1} << 30;
  Job job = failed_rank();
  for (model::ProcessRecord& p : job.facts.run.processes) {
    if (p.role == model::ProcessRole::rank) {
      p.gpu_memory = {.allocated_bytes = 50 * kGiB,
                      .peak_bytes = (p.rank == 2 ? 78 : 60 + p.rank) * kGiB,
                      .total_bytes = 80 * kGiB};
      if (p.rank == 2) {
        p.gpu_memory.growth = {.from_bytes = 50 * kGiB,
                               .to_bytes = 60 * kGiB,
                               .since_s = 1,
                               .until_s = 11,
                               .since_step = 100,
                               .until_step = 1124};
      }
    }
  }
  tell(
      job, 2, ExceptionKind::raised, 12.1, "torch.OutOfMemoryError",
      "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 2 has a total capacity of 80.00 GiB of which 1.00 "
      "GiB is free. Process 4711 has 4.00 GiB memory in use. Including non-PyTorch memory, this process has "
      "75.00 GiB memory in use. Of the allocated memory 74.00 GiB is allocated by PyTorch, and 10.00 MiB is "
      "reserved by PyTorch but unallocated.");
  const Verdict v = diagnose(job.facts);
  CHECK(v.id == "exit.exception");
  CHECK(v.ranks == RankSet{2});
  CHECK(v.sentence.find("4.0 GiB in other processes, most in pid 4711") != std::string::npos);
  CHECK(v.next.text == "end the other processes on this GPU: they hold 4.0 GiB");
  CHECK(has(v.evidence,
            "before, PyTorch had allocated at most 78.0 GiB of the GPU's 80.0 GiB on rank 2, and 60.0 GiB to "
            "63.0 GiB on ranks 0-1,3"));
  CHECK(has(v.evidence,
            "the GPU memory of rank 2 had grown by 10.0 MiB a step, from 50.0 GiB at step 100 to "
            "60.0 GiB at step 1124"));
}
