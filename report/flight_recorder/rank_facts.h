// The collective facts of one rank from its Flight Recorder dump.
#pragma once

#include "common/model/collectives.h"
#include "report/flight_recorder/flight_dump.h"

#include <cstdint>
#include <string>
#include <vector>

namespace xpurun::report {

// Finished sends to (or receives from) one peer that the dump still holds.
struct PairProgress {
  std::string communicator;  // the communicator's id
  bool send = false;
  int rank = -1;  // this process's rank in the communicator
  int peer = -1;
  uint64_t finished = 0;
  bool from_the_start = true;  // false: older calls have left the buffer, so the true number is higher
};

struct RankFacts {
  model::RankCollectives collectives;
  int64_t taken_ns = 0;  // UTC; base of the ages
  std::vector<PairProgress> pairs;
};

// `rank` is the global rank, from the file's name. `taken_ns` is the time of the dump (UTC, ns). If it is 0
// (unknown), the newest time in the dump is used, which makes ages too low rather than too high.
RankFacts rank_facts(const FlightDump& dump, base::Rank rank, int64_t taken_ns = 0);

// Gives point-to-point calls the same numbers on both sides of a pair. If a buffer has lost its oldest calls,
// the last finished calls of both sides are assumed to match.
void align_point_to_point(std::vector<RankFacts>& ranks);

// Bases the ages of all ranks on the newest time in any dump, because the ranks hung together.
void align_ages(std::vector<RankFacts>& ranks);

}  // namespace xpurun::report
