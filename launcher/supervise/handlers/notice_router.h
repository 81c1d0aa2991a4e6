// NoticeRouter: passes each notice of a preload library to the part that it concerns. Event loop's thread
// only.
#pragma once

#include "common/wire/notice.h"
#include "launcher/collect/python_segments.h"
#include "launcher/ending/job_state.h"
#include "launcher/processes/process_table.h"

#include <functional>

namespace xpurun::launcher {

class NoticeRouter {
 public:
  struct Parts {
    ProcessTable& table;
    const JobState& job;
  };
  // Answers with a descriptor for the process; -1: the process gets none.
  using Answer = std::function<void(int descriptor)>;
  struct Hooks {
    std::function<void(base::Pid)> started;  // a process is new, or has called exec
    std::function<void(const wire::Notice&, base::Pid, base::Tid)> crashed;
    std::function<void(base::Pid, const Answer&)> attach_timing;
    std::function<void(base::Pid, SpanWriter, const Answer&)> attach_spans;
    std::function<void(base::Pid, const Answer&)> attach_mpi;
    std::function<void(base::Pid, const Answer&)> attach_heap;
    std::function<void(base::Pid, const Answer&)> attach_capture;
    std::function<void(base::Pid, int descriptor)> answer;
  };

  NoticeRouter(Parts parts, Hooks hooks) : parts_(parts), hooks_(std::move(hooks)) {}

  void received(const wire::Notice& notice, base::Pid pid, base::Tid tid);

 private:
  Parts parts_;
  Hooks hooks_;
};

}  // namespace xpurun::launcher
