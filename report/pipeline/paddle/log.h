// Logs of Paddle's schedule profiler: lines "Profiler Info: Job (3), type = forward, micro_batch_id = 2,
// job_start_time = 1697793307213.760986, job_end_time = 1697793307254.006104" (ms since 1970) among any other
// lines of workerlog.N. Untrusted.
#pragma once

#include "common/base/result.h"
#include "report/pipeline/jobs/jobs.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace xpurun::report {

struct PaddleLog {
  std::vector<Job> jobs;    // as they stand in the log
  int64_t first_step = -1;  // at which the profiler started; negative: not said
  uint64_t damaged = 0;     // lines that begin like a job and are none
  bool cut = false;         // there were more jobs than are read
};

// Reads a log piece by piece. Not thread-safe.
class PaddleLogReader {
 public:
  void feed(std::string_view bytes);
  PaddleLog finish();

 private:
  void read_line(std::string_view line);
  void read_job(std::string_view rest);

  std::string line_;       // the unfinished last line
  bool too_long_ = false;  // its remainder is left out
  PaddleLog log_;
};

base::Result<PaddleLog> load_paddle_log(const std::string& path);

}  // namespace xpurun::report
