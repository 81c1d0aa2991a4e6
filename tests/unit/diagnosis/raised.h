// A job with a rank that raised.
#pragma once

#include "tests/unit/diagnosis/job.h"

#include <string>
#include <utility>

namespace xpurun::report::testing {

inline model::PythonException& tell(Job& job, base::Rank rank, model::ExceptionKind kind, double at_s,
                                    std::string type, std::string message) {
  model::PythonException x{
      .kind = kind, .pid = Job::pid_of(rank), .rank = rank, .thread = "MainThread", .at_s = at_s};
  x.chain.push_back(
      {.type = std::move(type),
       .message = std::move(message),
       .frames = {{.file = "/home/u/train.py", .line = 90, .function = "main"},
                  {.file = "/home/u/data.py", .line = 21, .function = "collate", .source = "x[k]"},
                  {.file = "/usr/lib/python3.11/enum.py", .line = 5, .function = "__call__"}}});
  job.facts.run.exceptions.push_back(std::move(x));
  return job.facts.run.exceptions.back();
}

// Rank 2 of 4 fails at 12 s; torchrun ends the others.
inline Job failed_rank(int status = 1) {
  Job job(4);
  job.died(2, exited(status), 12.4);
  for (base::Rank r : {0, 1, 3}) {
    job.died(r, kTerm, 13, "ended by the launcher");
  }
  job.agent_died(exited(1), 13.5).ended(exited(1));
  return job;
}

}  // namespace xpurun::report::testing
