// Repeats calls on a GPU and measures them: the interface between the schedule of a replay and the libraries.
#pragma once

#include "commands/replay/clock_reader.h"
#include "common/base/result.h"
#include "report/replay/problem.h"

#include <vector>

namespace xpurun::launcher {

class MatmulBench {
 public:
  virtual ~MatmulBench() = default;
  // Prepares the operands, in place of the previous ones. The error says why the call cannot be replayed
  // here.
  virtual base::Status prepare(const report::MatmulProblem& problem) = 0;
  // Executes `calls` calls. Before each call, the L2 cache is overwritten `overwrites` times. Returns
  // durations in ns.
  virtual base::Result<std::vector<double>> repeat(int calls, int overwrites) = 0;
  // Duration of one overwrite, ns; after prepare().
  virtual double overwrite_ns() const = 0;
  // The readings while the GPU worked in the last repeat().
  virtual const ClockReading& clock() const = 0;
};

class CollectiveBench {
 public:
  virtual ~CollectiveBench() = default;
  virtual int devices() const = 0;
  virtual base::Status prepare(const report::CollectiveProblem& problem) = 0;
  // Durations from the last GPU's arrival on, ns.
  virtual base::Result<std::vector<double>> repeat(int calls) = 0;
};

}  // namespace xpurun::launcher
