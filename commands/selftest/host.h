// TestHost: the parts of the selftest that a Python of this host can run, as reported by the job itself
// (`job.py probe`).
#pragma once

#include "commands/selftest/injection.h"
#include "common/base/result.h"

#include <string>
#include <vector>

namespace xpurun::launcher {

struct TestHost {
  std::string python;   // version
  std::string torch;    // version; empty: torch cannot be imported
  std::string problem;  // why
  bool gloo = false;
  bool nccl = false;
  int gpus = 0;
  bool mpi = false;  // mpirun and mpi4py
};

base::Result<TestHost> test_host_from_json(std::string_view text);

// Runs the Python, for at most 60 s; blocks. `scratch` is a directory for the answer.
base::Result<TestHost> probe_host(const std::vector<std::string>& python, const std::string& job,
                                  const std::string& scratch);

// Why the injection cannot run here; empty if it can.
std::string reason_to_skip(const Injection& injection, Device device, const TestHost& host);

}  // namespace xpurun::launcher
