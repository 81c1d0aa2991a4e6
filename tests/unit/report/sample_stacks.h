// Small stacks to merge in tests: four ranks, with rank 2 at another position.
#pragma once

#include "common/model/stacks/stack_file.h"

#include <string>
#include <vector>

namespace xpurun::testing {

inline model::Frame py(const std::string& func, int line, const std::string& file = "/home/u/train.py") {
  return {.kind = model::FrameKind::python, .func = func, .file = file, .line = line};
}

inline model::Frame native(const std::string& func, const std::string& module = "libtorch_cpu.so") {
  return {.kind = model::FrameKind::native, .func = func, .module = module};
}

// Innermost first, like everything in the model.
inline model::ThreadStack thread(std::vector<model::Frame> frames) {
  return {.tid = 1, .comm = "python3", .state = 'S', .main = true, .frames = std::move(frames)};
}

inline model::ProcessStacks process(int rank, model::ThreadStack main) {
  model::ProcessStacks p;
  p.host = "a";
  p.pid = 100 + rank;
  p.rank = rank;
  p.role = model::ProcessRole::rank;
  p.wall_ns = 1;
  p.threads.push_back(std::move(main));
  return p;
}

inline model::ProcessStacks sample_rank(int rank) {
  model::Frame eval = native("_PyEval_EvalFrameDefault", "python3.11");
  eval.eval = true;
  if (rank == 2) {
    return process(
        rank, thread({native("clock_nanosleep", "libc.so.6"), py("load_batch", 31), py("main", 52), eval}));
  }
  return process(rank, thread({native("poll", "libc.so.6"), native("gloo::wait"),
                               py("all_reduce", 9, "/usr/lib/python3/dist-packages/torch/d.py"),
                               py("step", 44), py("main", 52), eval}));
}

inline std::vector<model::ProcessStacks> sample_job() {
  std::vector<model::ProcessStacks> out;
  for (int rank = 0; rank < 4; ++rank) {
    out.push_back(sample_rank(rank));
  }
  return out;
}

}  // namespace xpurun::testing
