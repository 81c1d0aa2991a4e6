// The distinct matmuls and collectives of a run with their times: the input of a replay. Pure; ranks are
// added one after the other.
#pragma once

#include "report/events/rank_record.h"
#include "report/speed/primitives/intervals.h"

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

namespace xpurun::report {

// A matmul beside a collective of the same GPU shares its multiprocessors and memory, so its duration does
// not measure the GPU: such calls count only where a rank has no other calls of the shape.
struct MatmulOnRank {
  size_t rank = 0;    // index into RunOperations::ranks
  int64_t count = 0;  // of timed calls
  double median_s = 0;
  int64_t overlapped = 0;        // timed calls beside a timed collective, not in `count` and `median_s`
  bool only_overlapped = false;  // all of them: `median_s` and `count` are theirs
};

// Calls that are equal in function, shape, types, transposes, compute type, epilogue and flags.
struct RunMatmul {
  model::EventKey key{};  // without communicator
  std::string function;
  uint64_t flop = 0;  // of one call
  int64_t count = 0;
  int64_t overlapped = 0;  // of the calls beside a collective; not in `count`
  double total_s = 0;      // of all calls of all ranks, timed or not; an estimate
  double median_s = 0;     // median of the ranks' medians
  std::vector<MatmulOnRank> ranks;
};

// Calls that are equal in operation, type, reduction, number of elements and size of the communicator.
struct RunCollective {
  model::EventKey key{};
  std::string function;
  uint64_t bytes = 0;
  int size = 0;
  int64_t count = 0;      // collectives in which at least two ranks were timed
  double transfer_s = 0;  // median from the last arrival on
};

struct RunRank {
  base::Rank rank = base::kNoRank;
  std::string host;
  std::string gpu;
};

struct RunOperations {
  std::vector<RunRank> ranks;
  std::vector<RunMatmul> matmuls;          // the most time first
  std::vector<RunCollective> collectives;  // likewise
  double busy = 0;          // share of a rank's time in matmuls, median of the ranks; 0: unknown
  int64_t other_calls = 0;  // timed matmuls whose shape was not recorded
};

class RunOperationCollector {
 public:
  void add(const RankRecord& rank);
  // Once, after all ranks.
  RunOperations finish();

 private:
  struct Matmul {
    RunMatmul matmul;
    std::vector<float> ns;             // of the rank that is being added
    std::vector<float> overlapped_ns;  // likewise, beside a collective
    double scaled_ns = 0;              // of all its calls
  };
  struct Meeting {
    uint32_t collective = 0;
    uint32_t ranks = 0;
    float shortest_ns = 0;  // of the rank that came last
  };

  // Returns the time between the first and the last matmul, ns.
  double add(const model::EventFile& file, const std::vector<Interval>& collectives);
  size_t matmul_of(const model::EventFile::Op& op);
  size_t collective_of(const model::EventFile::Op& op, int size);
  void end_rank(double window_ns);

  RunOperations out_;
  std::map<model::EventKey, size_t> matmul_index_;
  std::vector<Matmul> matmuls_;
  std::map<model::EventKey, size_t> collective_index_;
  std::unordered_map<uint64_t, Meeting> meetings_;
  std::vector<double> busy_;  // of the ranks
};

}  // namespace xpurun::report
