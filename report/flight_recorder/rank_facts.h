// The collective facts of one rank from its Flight Recorder dump.
#pragma once

#include "common/model/collectives.h"
#include "report/flight_recorder/flight_dump.h"

#include <cstdint>
#include <string>
#include <vector>

namespace xpurun::report {

// Finished sends to, or receives from, one peer that the dump still holds.
struct PairProgress {
  std::string communicator;  // id
  bool send = false;
  int rank = -1;  // of this process in the communicator
  int peer = -1;
  uint64_t finished = 0;
  bool from_the_start = true;  // false: older calls have left the buffer, the true number is higher
};

struct RankFacts {
  model::RankCollectives collectives;
  int64_t taken_ns = 0;  // UTC, from which the ages count
  std::vector<PairProgress> pairs;
};

// `rank` is the global rank, from the file's name. `taken_ns` is the moment of the dump (UTC); 0: unknown,
// then the newest time in the dump counts, and ages are too low rather than too high.
RankFacts rank_facts(const FlightDump& dump, base::Rank rank, int64_t taken_ns = 0);

// Numbers point-to-point calls alike on both sides of a pair. Where a buffer has lost its oldest calls, the
// last finished call of both sides counts as the same.
void align_point_to_point(std::vector<RankFacts>& ranks);

// Counts the ages of all ranks from the newest moment that any dump names: their ranks hung together.
void align_ages(std::vector<RankFacts>& ranks);

}  // namespace xpurun::report
