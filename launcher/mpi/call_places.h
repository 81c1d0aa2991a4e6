// CallPlaces: the place in the program of a call that a preload library recorded by its return address:
// "heat.c:88 (residual)". A helper (xpurun-stackdump) reads the debug information, once for each address of
// each program or library, while the job runs. Event loop's thread only.
#pragma once

#include "common/base/ids.h"
#include "common/base/os/wait_status.h"
#include "launcher/os/event_loop.h"
#include "launcher/spawn/helper_process.h"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <signal.h>
#include <string>
#include <string_view>
#include <utility>

namespace xpurun::launcher {

class CallPlaces {
 public:
  struct Setup {
    EventLoop& loop;
    sigset_t signal_mask{};
    int stderr_fd = -1;
    std::function<void(base::Pid)> started;  // receives the helper's pid
  };

  explicit CallPlaces(Setup setup) : setup_(std::move(setup)) {}
  ~CallPlaces() { stop(); }
  CallPlaces(const CallPlaces&) = delete;
  CallPlaces& operator=(const CallPlaces&) = delete;

  // Nothing while the helper looks for the place. Empty if the process had ended before its files were known.
  // Without debug information "heat (residual)" or "heat+0x11a3".
  std::optional<std::string> find(base::Pid pid, uint64_t address);
  // A process whose calls are recorded from now on; its files are read now, because it may end at once.
  void attach(base::Pid pid) { processes_[pid] = {.parts = parts_of(pid), .known = {}}; }
  // Waits for the helper, two seconds at most; find() then knows all places. At the end of the job.
  void settle();
  bool is_helper(base::Pid pid) const { return helper_.pid() > 0 && helper_.pid() == pid; }
  // Call for every reaped child. True if the pid was the helper.
  bool helper_ended(base::Pid pid, base::WaitStatus status);

 private:
  using Key = std::pair<std::string, uint64_t>;  // path, offset in the file
  // A file mapping of a process, executable.
  struct Part {
    uint64_t lo = 0;
    uint64_t hi = 0;
    uint64_t offset = 0;
    std::string path;
    std::string line;  // of /proc/PID/maps
  };
  struct Process {
    std::map<uint64_t, Part> parts;  // by begin
    std::map<uint64_t, Key> known;   // by address
  };

  static std::map<uint64_t, Part> parts_of(base::Pid pid);
  static const Part* part_at(const Process& process, uint64_t address);
  void start();
  bool read_output();
  void take(std::string_view line);
  void give_up();
  void stop();

  Setup setup_;
  std::map<base::Pid, Process> processes_;
  std::map<Key, std::string> texts_;
  // The places that were asked for and not given to a helper yet: of which process, and the address there.
  std::map<Key, std::pair<base::Pid, uint64_t>> wanted_;
  std::map<uint64_t, Key> asked_;  // what the helper looks for, by address
  HelperProcess helper_;
  std::string text_;  // of the line that is not complete yet
  bool settled_ = false;
};

}  // namespace xpurun::launcher
