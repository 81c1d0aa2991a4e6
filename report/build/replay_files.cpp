#include "report/build/replay_files.h"

#include "report/build/rank_files.h"

namespace xpurun::report {

OperationsOfRun read_run_operations(const JobRuns& job, const model::RankSet& ranks) {
  RankFiles files(job, ranks);
  RunOperationCollector collector;
  files.read(RankFiles::Kinds::events, [&collector](const RankRecord& input) { collector.add(input); });
  return {.operations = collector.finish(), .notes = files.notes()};
}

}  // namespace xpurun::report
