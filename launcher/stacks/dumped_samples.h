// DumpedSamples: stacks of Python and native frames, by one dump of all processes per sample, which stops
// each of them for about a millisecond. Blocks the calling thread.
#pragma once

#include "common/base/clock.h"
#include "common/base/os/temporary_directory.h"
#include "common/base/result.h"
#include "launcher/stacks/live_dump.h"
#include "stackdump/resolve/python_sampler.h"

#include <map>
#include <string>
#include <tuple>
#include <vector>

namespace xpurun::launcher {

class DumpedSamples {
 public:
  static base::Result<DumpedSamples> open();

  // Dumps the processes.
  base::Status take(const std::vector<DumpTarget>& targets);
  // Threads of the last dump with Python frames or operations of PyTorch, and the main thread. Fails if the
  // process has no stacks.
  base::Result<std::vector<stackdump::SampledThread>> threads(base::Pid pid);
  // When the process was stopped.
  base::MonoNs moment(base::Pid pid) const;
  // All frames seen so far.
  const std::vector<stackdump::SampledFrame>& frames() const { return frames_; }

 private:
  uint32_t number_of(stackdump::SampledFrame frame);

  base::TemporaryDirectory directory_;
  std::map<base::Pid, model::ProcessStacks> last_;
  std::vector<stackdump::SampledFrame> frames_;
  std::map<std::tuple<std::string, std::string, int>, uint32_t> known_;
};

}  // namespace xpurun::launcher
