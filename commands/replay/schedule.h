// How often each operation of a run is repeated, and the work between the calls. Pure except for the bench.
#pragma once

#include "commands/replay/bench.h"
#include "report/replay/comparison.h"

#include <functional>

namespace xpurun::launcher {

struct Schedule {
  // GPU time, ns.
  double first_warm_up_ns = 2e9;  // before the first operation: clock and temperature settle
  double warm_up_ns = 2e8;        // before each operation
  double measured_ns = 5e8;
  int least_calls = 20;
  int most_calls = 500;
  int batch = 20;  // calls between two checks of the results
};

using OperationDone = std::function<void()>;

// Of the first `most` matmuls of the run. Between the calls, the L2 cache is overwritten for as long as the
// ranks of the run did other work than matmuls, so that the GPU draws about the same power.
void repeat_matmuls(const report::RunOperations& run, size_t most, const Schedule& schedule,
                    MatmulBench& bench, report::Measurements& out, const OperationDone& done);

void repeat_collectives(const report::RunOperations& run, size_t most, const Schedule& schedule,
                        CollectiveBench& bench, report::Measurements& out, const OperationDone& done);

// How often the cache is overwritten in front of a call of this duration; at least once.
int overwrites_for(double call_ns, double overwrite_ns, double busy);

}  // namespace xpurun::launcher
