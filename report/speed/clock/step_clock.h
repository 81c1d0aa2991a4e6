// StepClock: how long the steps of one rank take, where the work is. A host that reads its loss every tenth
// step runs ahead of its GPU: the ends of its steps lie 3 ms apart while each step takes 30 ms. So the
// durations come from the GPU (the first collective or kernel of each step was timed), else from windows
// between two moments at which the host waited for the GPU, and from the host only where the host is shown to
// wait in each step, or there is no GPU. Fed in the order of time; the same object serves a running job and a
// finished one. Pure; bounded memory.
#pragma once

#include "common/model/timing/speed_report.h"
#include "common/wire/segment.h"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

namespace xpurun::report {

// One step as its host saw it.
struct HostStep {
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  int64_t aside_ns = 0;  // of this, in checkpoints and evaluations
};

// Timed work of a GPU.
struct GpuStart {
  int64_t called_ns = 0;  // by the host
  int64_t begin_ns = 0;   // on the GPU, by the host's clock
  uint64_t kind = 0;      // equal for work that may stand at the same place of each step
  bool collective = false;
  // The call was the first of this kind since the step before had ended on the host.
  bool first_of_step = false;
  uint64_t number = 0;  // of a collective, in its communicator; 0: unknown
};

// Whether a timed call tells when the GPU began it; `flags` are of wire::EventFlag.
bool tells_start(wire::OpClass op_class, wire::Source source, unsigned flags);

struct ClockedStep {
  model::ClockSource source = model::ClockSource::none;
  int64_t begin_ns = 0;
  int64_t duration_ns = 0;  // with the time aside
  int64_t aside_ns = 0;
  // The step's first work other than a collective: begin on the GPU, and how far the host was ahead then;
  // negative: unknown.
  int64_t work_ns = -1;
  int64_t lead_ns = -1;
  size_t together = 1;  // the mean of so many steps
};

class StepClock {
 public:
  void uses_gpu() { gpu_ = true; }
  void ended(const HostStep& step);
  void started(const GpuStart& start);

  // The steps whose durations are known now, in order: the first call returns those from the first step on.
  // The last step of a GPU has no known end.
  std::vector<ClockedStep> take();
  // At the end: the rest. Steps that nothing tells of are left out.
  std::vector<ClockedStep> finish();
  // Why the durations are not certain; empty if they are.
  const std::string& why() const { return why_; }

 private:
  struct Pending {
    HostStep host;
    std::optional<GpuStart> first;  // of the usual kind: begins the step
    std::optional<GpuStart> work;   // no collective
  };

  void assign();
  bool is_usual(uint64_t kind) const;
  std::optional<size_t> next_known(size_t from) const;
  void emit_between(int64_t begin_ns, int64_t end_ns, size_t count, double steps,
                    std::vector<ClockedStep>& out);
  void emit_all_on_gpu(std::vector<ClockedStep>& out);
  void emit_on_gpu(std::vector<ClockedStep>& out);
  void emit_without_gpu(size_t count, bool all, std::vector<ClockedStep>& out);
  void emit_windows(size_t count, bool all, std::vector<ClockedStep>& out);
  void emit_host(size_t count, model::ClockSource source, std::vector<ClockedStep>& out);
  void drop(size_t count);
  bool waits_for_gpu() const;
  bool runs_ahead() const;
  double held_above() const;
  std::optional<bool> has_caught_up(size_t index, size_t count, double above) const;

  bool gpu_ = false;
  bool any_emitted_ = false;
  bool awaits_gpu_ = true;  // the first work of steps is timed, as far as known
  std::deque<Pending> pending_;
  std::deque<GpuStart> starts_;  // first ones whose host step is not known yet
  std::deque<uint64_t> kinds_;   // of the latest first ones
  std::deque<int64_t> ends_;     // of the latest host steps
  std::deque<double> host_s_;    // latest host steps, without the time aside
  std::deque<double> leads_s_;   // of the latest timed work
  std::deque<GpuStart> timed_;   // the same, by the call
  double window_step_s_ = 0;     // of the latest window
  std::string why_;
};

}  // namespace xpurun::report
