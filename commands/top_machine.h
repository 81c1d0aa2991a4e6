// MachineView: what `xpurun top --machine` shows: the use of this host and its GPUs now, what each of its
// ranks gets, and what was wrong with the host, from the run directory. Asks neither the supervisor nor the
// ranks. NVML is read by a helper, because its calls may block.
#pragma once

#include "common/model/evidence/gpu_health.h"
#include "common/model/run_dir.h"
#include "common/model/run_manifest.h"
#include "launcher/machine/host_use.h"
#include "launcher/os/run_delay.h"
#include "launcher/spawn/helper_process.h"

#include <map>
#include <string>
#include <vector>

namespace xpurun::launcher {

class MachineView {
 public:
  explicit MachineView(model::RunDir dir) : dir_(std::move(dir)) {}
  ~MachineView() { stop_helper(); }
  MachineView(const MachineView&) = delete;
  MachineView& operator=(const MachineView&) = delete;

  // False if the run has ended. Rates begin with the second reading.
  bool read();
  // At most `rows` lines; 0: all.
  std::string text(size_t columns, size_t rows) const;

 private:
  struct RankNow {
    base::Pid pid = 0;
    RunDelay delay;
    std::string cpus;  // "0-3"
    double cpu_s = 0;  // so far
    base::ProcIo io = {};
    double cores = -1;  // since the reading before; negative: unknown, also of the values below
    double ready = -1;  // share of the time
    double read_rate = -1;
    double written_rate = -1;
  };
  void read_rank(const model::ProcessRecord& process, double seconds);
  void read_gpus();
  void stop_helper();
  std::vector<std::string> gpu_lines() const;

  model::RunDir dir_;
  model::RunManifest run_;
  HostFiles host_;
  HostUseReader use_;
  model::MachineReading reading_;
  model::MachineHistory history_;
  std::map<base::Rank, RankNow> ranks_;
  base::MonoNs at_ = 0;
  HelperProcess helper_;  // reads NVML; started as soon as the run has used a GPU
  bool helper_begun_ = false;
  std::string helper_text_;  // of the line that is not complete yet
  std::vector<model::UseValue> gpu_use_;
};

}  // namespace xpurun::launcher
