// PythonSampler: the Python stacks of all threads of a process, read with process_vm_readv many times a
// second. Stops nothing, opens no file of the target but its maps, survives any content. The process runs
// while it is read: a stack that changed meanwhile and cannot be followed to its end is marked as torn.
#pragma once

#include "common/base/ids.h"
#include "common/base/result.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace xpurun::stackdump {

struct SampledFrame {
  std::string function;  // qualified from 3.11 on; "nn.Module: Linear" for the call of a module of torch
  std::string file;
  int line = 0;  // 1-based; 0: unknown
};

struct SampledThread {
  uint64_t id = 0;    // pthread_self()
  base::Tid tid = 0;  // 0: unknown, before 3.11 or in another PID namespace
  bool main = false;
  bool holds_gil = false;
  bool torn = false;
  std::string name;              // threading.Thread.name; empty: unknown
  std::vector<uint32_t> frames;  // outermost first, as indexes into frames()
};

class PythonSampler {
 public:
  // Fails while the process has no initialised Python of a known version.
  static base::Result<PythonSampler> open(base::Pid pid);
  PythonSampler(PythonSampler&&) noexcept;
  PythonSampler& operator=(PythonSampler&&) noexcept;
  ~PythonSampler();

  // The threads that have Python frames. Fails when the process is gone or has started another program.
  base::Result<std::vector<SampledThread>> sample();
  // All frames seen so far; grows with sample().
  const std::vector<SampledFrame>& frames() const;

 private:
  struct State;
  explicit PythonSampler(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace xpurun::stackdump
