// HelperWatch: samples the threads and processes that one rank started, while its main thread is still
// and waits for them. Reads /proc and, with process_vm_readv, Python positions; stops nothing. The cost is
// bounded: a limited number of threads and processes, and only after the rank has been still for a while.
#pragma once

#include "common/base/clock.h"
#include "common/base/os/procfs.h"
#include "common/model/dump_manifest.h"
#include "launcher/processes/descendant.h"
#include "launcher/watch/helper_progress.h"
#include "launcher/watch/kernel_wait.h"
#include "launcher/watch/tight_loop.h"
#include "launcher/watch/wait_reason.h"
#include "stackdump/native/kernel_view.h"
#include "stackdump/resolve/position.h"

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace xpurun::launcher {

class HelperWatch {
 public:
  HelperWatch(base::Pid rank, base::MonoNs hang_timeout, base::ProcFs proc = base::ProcFs())
      : proc_(std::move(proc)), rank_(rank), progress_(hang_timeout) {}

  // Call while the main thread is still, before its helpers are sampled.
  void watch_sleep(base::MonoNs now);
  // Takes one sample. `reader` belongs to the rank; null without Python.
  void look(base::MonoNs now, stackdump::PositionReader* reader, const std::vector<Descendant>& processes);
  // Call when the main thread has made progress.
  void forget();
  // The rank and its processes were stopped for a dump, which wakes their threads.
  void held();

  // How often the main thread has woken up lately, per second; 0 if not known.
  double wake_rate() const { return wake_rate_; }
  // The last look met the main thread in a sleep.
  bool sleeps() const { return sleeps_; }
  // Whether the main thread has read or written data since the last sample, in one place.
  bool transferred() const { return transferred_; }
  model::HelperLife life() const { return progress_.life(); }
  model::OutsideWait outside() const { return reason_.outside; }
  WaitTarget target() const { return reason_.target; }
  // The most significant processes, at most kMostObserved.
  std::vector<model::HelperObservation> observe(base::MonoNs now) const;

  // The lines of the user's code that the processes were in at the last sample.
  std::map<base::Pid, model::CodeLocation> places() const;

  static constexpr size_t kMostObserved = 4;

 private:
  struct Child {
    std::optional<stackdump::PositionReader> reader;
    base::MonoNs next_open = 0;
    stackdump::Position position;
    TightLoop loop;
    model::CodeLocation user_place;   // empty: none
    bool loops = false;               // HelperSample::loops, of its main thread
    std::optional<uint64_t> threads;  // positions of its other threads in the program's code
    uint64_t moves = 0;               // samples that showed progress
    TransferWatch transfers;
    bool reads_input = false;        // at the last sample
    stackdump::KernelView waits_in;  // of a program without Python that is awaited, as of its present call
    Descendant process;
  };

  bool wakes(bool asleep);
  void note_wakes(base::MonoNs now, const KernelWait& wait);
  KernelWait current_wait();
  void vote(const WaitReason& reason);
  bool holds(base::MonoNs now, base::Pid pid, const std::set<std::string>& pipes);
  std::set<base::Pid> awaited(base::MonoNs now, const KernelWait& wait,
                              const std::vector<Descendant>& processes);
  static bool runs_alone(stackdump::PositionReader* reader);
  void sample_threads(stackdump::PositionReader& reader, std::vector<HelperSample>& out) const;
  // Returns whether the rank waits for programs that all are quiet.
  bool sample_processes(base::MonoNs now, const KernelWait& wait, const std::vector<Descendant>& processes,
                        std::vector<HelperSample>& out);
  void sample_native_threads(std::vector<HelperSample>& out) const;
  void read_position(base::MonoNs now, Child& child) const;
  static bool threads_move(Child& child);
  void note_transfer(Child& child) const;
  void name_call(Child& child) const;
  bool is_quiet(const Descendant& process) const;

  base::ProcFs proc_;
  base::Pid rank_;
  KernelWait wait_;
  HelperProgress progress_;
  std::map<base::Pid, Child> children_;
  std::set<std::string> pipes_;  // the pipes of the cached holders_
  base::MonoNs pipes_at_ = 0;
  std::map<base::Pid, bool> holders_;
  WaitReason reason_;               // of most of the latest samples
  std::deque<WaitReason> reasons_;  // the latest samples, without those that met the thread awake
  int awake_ = 0;                   // samples since then that met it awake
  base::MonoNs last_look_ = 0;
  base::MonoNs rate_at_ = 0;  // 0: no sample
  uint64_t rate_from_ = 0;
  double wake_rate_ = 0;
  bool sleeps_ = false;        // at the last sample
  bool listens_ = false;       // of the sockets in wait_, as of sockets_
  bool wakes_itself_ = false;  // likewise
  std::set<std::string> sockets_;
  TransferWatch transfers_;  // of the main thread
  bool transferred_ = false;
  uint64_t switches_ = 0;
  bool slept_ = false;  // switches_ is of a sleeping thread
  bool held_ = false;   // the rank was held since the last sample
  int woken_ = 0;       // number of samples before which the main thread had been awake
};

}  // namespace xpurun::launcher
