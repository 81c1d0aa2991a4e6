// Exits and exceptions that only report what failed elsewhere.
#include "tests/unit/diagnosis/raised.h"

#include <doctest/doctest.h>

using namespace xpurun;
using namespace xpurun::report;
using namespace xpurun::report::testing;
using model::ExceptionKind;
using model::PythonException;
using model::Verdict;

TEST_CASE("the exception that an exit hook handles has the place and the title") {
  Job job = failed_rank();
  PythonException& x = tell(job, 2, ExceptionKind::sys_exit, 12.1, "SystemExit", "");
  x.code = 1;
  x.chain.push_back(x.chain.front());
  x.chain[0].frames = {{.file = "/home/u/hooks.py", .line = 5, .function = "die"}};
  x.chain[1].relation = model::Relation::context;
  x.chain[1].type = "KeyError";
  Verdict v = diagnose(job.facts);
  CHECK(v.where.line == 21);
  CHECK(v.title.starts_with("rank 2 exited with status 1 while handling KeyError in collate (data.py:21"));
  CHECK(v.sentence.find("called sys.exit(1) at hooks.py:5 (in die)") != std::string::npos);
  // A message says why.
  x.chain[0].message = "no data";
  v = diagnose(job.facts);
  CHECK(v.where.line == 5);
}

TEST_CASE("what cannot be sent to a pool was raised in no process of the pool") {
  Job job = failed_rank();
  PythonException& x = tell(job, 2, ExceptionKind::raised, 12.1, "TypeError", "cannot pickle 'lock' object");
  x.chain.push_back({.relation = model::Relation::cause,
                     .type = "concurrent.futures.process._RemoteTraceback",
                     .message =
                         "\n\"\"\"\nTraceback (most recent call last):\n"
                         "  File \"/usr/lib/python3.11/multiprocessing/queues.py\", line 244, in _feed\n"
                         "TypeError: cannot pickle 'lock' object\n\"\"\""});
  const Verdict v = diagnose(job.facts);
  CHECK(v.sentence.find("raised TypeError: cannot pickle 'lock' object at data.py:21 (in collate)") !=
        std::string::npos);
  CHECK(v.sentence.find("of its pool") == std::string::npos);
}

TEST_CASE("a process whose end made its rank fail has the place and the title") {
  Job job = failed_rank();
  tell(job, 2, ExceptionKind::raised, 12.1, "RuntimeError", "helper failed");
  PythonException& of_process = tell(job, 2, ExceptionKind::raised, 12, "KeyError", "'b'");
  of_process.pid = 900;
  of_process.chain[0].frames = {{.file = "/home/u/job.py", .line = 5, .function = "child_job"}};
  job.facts.run.processes.push_back({.pid = 900, .role = model::ProcessRole::worker, .rank = 2});
  job.facts.run.processes.back().death = {
      .happened = true, .at_s = 12, .wait_status = base::WaitStatus(exited(1))};
  Verdict v = diagnose(job.facts);
  CHECK(v.title.starts_with("a process of rank 2 raised KeyError: 'b' in child_job (job.py:5)"));
  CHECK(v.where.line == 5);
  // Long before, it need not be the reason.
  job.facts.run.exceptions[1].at_s = 5;
  job.facts.run.processes.back().death.at_s = 5;
  v = diagnose(job.facts);
  CHECK(v.where.line == 21);
}

TEST_CASE("the exception of a process comes before the exit of its rank, however late both are read") {
  Job job(1);
  job.facts.run.started_wall_ns = 1'000'000'000'000;
  job.died(0, exited(1), 12.5).ended(exited(1));
  job.facts.run.processes.push_back({.pid = 900, .role = model::ProcessRole::worker, .rank = 0});
  job.facts.run.processes.back().death = {
      .happened = true, .at_s = 12.45, .wait_status = base::WaitStatus(exited(1))};
  PythonException& raised = tell(job, 0, ExceptionKind::raised, 12.43, "ValueError", "bad batch");
  raised.pid = 900;
  raised.wall_ns = 1'012'330'000'000;
  PythonException logged = raised;
  logged.kind = ExceptionKind::logged;
  job.facts.run.exceptions.push_back(logged);
  PythonException& exit = tell(job, 0, ExceptionKind::sys_exit, 12.5, "SystemExit", "");
  exit.code = 1;
  exit.wall_ns = 1'012'420'000'000;
  const std::string said = diagnose(job.facts).sentence;
  CHECK_MESSAGE(said.find("; before it, its process (pid 900) raised ValueError: bad batch at data.py:21") !=
                    std::string::npos,
                said);
}
