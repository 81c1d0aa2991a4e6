// Loops of the main thread, after the copy.
#include "stackdump/process_dump.h"
#include "stackdump/ptrace/loop_watch.h"
#include "stackdump/resolve/call_watch.h"
#include "stackdump/resolve/raise_watch.h"

#include <algorithm>

namespace xpurun::stackdump {

void ProcessDump::watch_for_loop(int64_t limit_ns) {
  const auto main = std::find_if(threads_.begin(), threads_.end(),
                                 [this](const ThreadCopy& t) { return t.tid == target_.pid; });
  if (main == threads_.end() || method_ != "ptrace") {
    return;
  }
  main_circles_ = main->registers && main->kernel.state == 'R' &&
                  main_thread_circles(target_.pid, live_, modules_.maps());
  if (main->kernel.state == 'R') {
    watch_for_exceptions(*main);
  }
  main_polls_ = polled_files(target_.pid, main->kernel, live_, limit_ns);
}

void ProcessDump::watch_for_exceptions(const ThreadCopy& main) {
  const auto python = python_of(main);
  const auto state = std::find_if(py_.threads.begin(), py_.threads.end(),
                                  [&](const PyThread& t) { return python && t.address == python->address; });
  if (state != py_.threads.end() && state->handled.type.empty()) {
    const Offsets& offsets = python_.runtime->offsets;
    state->handled = caught_again(target_.pid, live_, offsets, state->address);
    add_traceback_code(live_, offsets, state->handled, py_);
  }
}

}  // namespace xpurun::stackdump
