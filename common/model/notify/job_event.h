// JobEvent: the document on the standard input of the --on-event command, schema "xpurun.job_event/1"
// (docs/job-events.md). The supervisor writes it, the user's programs read it.
#pragma once

#include "common/base/result.h"
#include "common/model/exception.h"
#include "common/model/rank_set.h"
#include "common/model/verdict.h"
#include "common/model/vocabulary.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace xpurun::model {

inline constexpr std::string_view kJobEventSchema = "xpurun.job_event/1";

struct JobEvent {
  JobEventKind event = JobEventKind::end;
  std::string run;  // id of the run
  std::string host;
  std::string directory;  // absolute path of the run directory
  std::string report;     // absolute path of report.html; empty if no report is made
  int64_t wall_ns = 0;
  double at_s = 0;       // seconds since the run began
  std::string sentence;  // for people
  RankSet ranks;         // the event's ranks; empty: unknown or none
  base::Pid pid = 0;     // crash, exception; 0: no single process
  int signal = 0;        // crash
  int hangs = 0;         // confirmed hangs of this run so far
  RunOutcome outcome = RunOutcome::running;
  int exit_status = -1;  // xpurun's; -1: the run continues
  bool has_verdict = false;
  Verdict verdict;  // hang, recovery: of the hang; end: of the run
  bool has_exception = false;
  PythonException exception;
};

nlohmann::ordered_json to_json(const JobEvent& event);

}  // namespace xpurun::model
