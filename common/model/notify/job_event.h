// JobEvent: the document that the command of --on-event reads on its standard input, schema
// "xpurun.job_event/1" (docs/job-events.md). Written by the supervisor, read by programs of the user.
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
  std::string directory;  // of the run, absolute
  std::string report;     // absolute path of report.html; empty: no report is made
  int64_t wall_ns = 0;
  double at_s = 0;       // since the run began
  std::string sentence;  // for people
  RankSet ranks;         // that the event is about; empty: unknown or none
  base::Pid pid = 0;     // crash, exception; 0: of no single process
  int signal = 0;        // crash
  int hangs = 0;         // confirmed so far in this run
  RunOutcome outcome = RunOutcome::running;
  int exit_status = -1;  // of xpurun; -1: the run goes on
  bool has_verdict = false;
  Verdict verdict;  // hang, recovery: of the hang; end: of the run
  bool has_exception = false;
  PythonException exception;
};

nlohmann::ordered_json to_json(const JobEvent& event);
base::Result<JobEvent> job_event_from_json(const nlohmann::json& j);

}  // namespace xpurun::model
