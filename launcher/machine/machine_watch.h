// MachineWatch: the host below the job while the job runs. A helper process (machine_helper.h) reads the
// counters every few seconds and at moments that matter; this object keeps their history and writes
// machine.json. A job of a second or two starts no helper. Event loop's thread only.
#pragma once

#include "common/base/os/wait_status.h"
#include "common/model/evidence/machine.h"
#include "launcher/machine/places.h"
#include "launcher/os/timer.h"
#include "launcher/spawn/helper_process.h"
#include "launcher/storage/storage.h"

#include <functional>
#include <signal.h>
#include <string>
#include <string_view>
#include <vector>

namespace xpurun::launcher {

class MachineWatch {
 public:
  struct Setup {
    EventLoop& loop;
    Storage& storage;
    std::string run_dir;  // absolute
    sigset_t signal_mask{};
    int stderr_fd = -1;
    std::function<void(base::Pid)> started;  // receives the helper's pid
    std::function<std::vector<WatchedRank>()> ranks;
    std::string program = "/proc/self/exe";
    double first_s = 2;  // from start() to the first reading
    double interval_s = 5;
  };

  explicit MachineWatch(Setup setup) : setup_(std::move(setup)) {}
  ~MachineWatch();
  MachineWatch(const MachineWatch&) = delete;
  MachineWatch& operator=(const MachineWatch&) = delete;

  // Acts once; later calls do nothing.
  void start();
  // Reads now, unless a reading is under way or none has been made so far.
  void look();
  // Writes the file, and ends the helper.
  void finish();
  const model::MachineHistory& history() const { return history_; }
  bool is_helper(base::Pid pid) const { return helper_.pid() > 0 && helper_.pid() == pid; }
  // Call for every reaped child. True if the pid was the helper.
  bool helper_ended(base::Pid pid, base::WaitStatus status);

 private:
  void tick();
  bool launch();
  void ask();
  void readable();
  void take(std::string_view line);
  void save();
  void stop();

  Setup setup_;
  bool begun_ = false;
  bool asked_ = false;  // and not answered
  Timer timer_{setup_.loop};
  HelperProcess helper_;
  std::string text_;  // of the line that is not complete yet
  model::MachineHistory history_;
  size_t spells_saved_ = 0;
  base::MonoNs saved_ = 0;
};

}  // namespace xpurun::launcher
