// TracedProcess: stops every thread of a process without ever blocking on one, and detaches from all threads
// in the destructor. Thread rule: ptrace attachments belong to the attaching thread, so create, use and
// destroy the object in one thread. When that thread ends (or the program is killed), the kernel detaches and
// resumes the remaining threads.
#pragma once

#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/base/result.h"
#include "stackdump/ptrace/registers.h"

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace xpurun::stackdump {

enum class StopState {
  seized,   // attached, stop requested, stop not yet seen
  stopped,  // registers are readable
  asleep,   // in uninterruptible sleep: stops only when the sleep ends
  gone,     // has exited
};

struct TracedThread {
  base::Tid tid = 0;
  StopState state = StopState::seized;
  int pending_signal = 0;  // taken from the thread by the stop, delivered on detach
};

class TracedProcess {
 public:
  // Attaches to all threads and waits until each is stopped, asleep or gone, at most until `deadline`.
  // Fails only if not a single thread could be attached.
  static base::Result<TracedProcess> stop(base::Pid pid, base::MonoNs deadline);
  // The same for one thread of the process.
  static base::Result<TracedProcess> stop_thread(base::Pid pid, base::Tid tid, base::MonoNs deadline);
  ~TracedProcess() { resume(); }
  TracedProcess(TracedProcess&& other) noexcept;
  TracedProcess& operator=(TracedProcess&&) = delete;
  TracedProcess(const TracedProcess&) = delete;
  TracedProcess& operator=(const TracedProcess&) = delete;

  const std::vector<TracedThread>& threads() const { return threads_; }
  base::MonoNs deadline() const { return deadline_; }
  base::MonoNs first_stop_ns() const { return first_stop_ns_; }
  // Empty for a thread that is not stopped.
  std::optional<Registers> registers(const TracedThread& thread) const;
  // Floating-point and vector registers, as the kernel gives them; empty for a thread that is not stopped.
  std::string vector_registers(const TracedThread& thread) const;
  // Detaches from all threads and delivers their pending signals. Afterwards threads() is empty.
  void resume();

 private:
  TracedProcess(base::Pid pid, base::MonoNs deadline) : pid_(pid), deadline_(deadline) {}
  base::Result<TracedProcess> stopped() &&;
  size_t attach_new();
  void wait_for_stops();
  void look_at(TracedThread& thread, int wait_options);
  bool set_aside(TracedThread& thread);

  base::Pid pid_;
  base::MonoNs deadline_;
  base::Tid only_ = 0;  // the thread to stop; 0: all
  base::MonoNs first_stop_ns_ = 0;
  int attach_errno_ = 0;
  std::vector<TracedThread> threads_;
  std::unordered_map<base::Tid, size_t> index_;
};

}  // namespace xpurun::stackdump
