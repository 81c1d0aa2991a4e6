// The operations of one rank: its timed calls and the calls of torch.distributed in its spans, by row of the
// tables, and the breakdown of its time. Pure.
#pragma once

#include "common/model/speed/operations.h"
#include "report/events/rank_record.h"
#include "report/operations/meetings.h"
#include "report/operations/operation_key.h"

#include <string>
#include <vector>

namespace xpurun::report {

struct OperationRow {
  OperationKey key;
  std::vector<float> ns;  // durations in the order of the files
  double work = 0;        // FLOP or bytes of these calls; 0: unknown
  uint64_t least_work = 0;
  uint64_t most_work = 0;
  double calls = -1;     // of all calls meanwhile; negative: unknown
  double untimed_s = 0;  // of program calls that have no duration each
  uint32_t sources = 0;  // bit 1 << wire::Source
  model::EventKey wire_key{};
};

struct RankOperations {
  std::vector<OperationRow> rows;
  std::vector<RankArrival> arrivals;  // `row` is an index into `rows`
  std::vector<model::EventCommunicator> communicators;
  model::RankBreakdown breakdown;  // window_s 0: no timed calls
  std::string gpu;                 // name of the device
  double span_window_s = 0;        // from the first span to the last one
  int64_t lost = 0;
};

RankOperations operations_of(const RankRecord& rank);

}  // namespace xpurun::report
