// Loops of the main thread, after the copy.
#include "stackdump/process_dump.h"
#include "stackdump/ptrace/loop_watch.h"
#include "stackdump/resolve/call_watch.h"
#include "stackdump/resolve/raise_watch.h"

#include <algorithm>
#include <ctime>

namespace xpurun::stackdump {

namespace {

// Where the thread waits. The dump may have met a loop that sleeps within one of its turns: then its next
// sleep.
KernelView next_wait(base::Pid pid, KernelView now) {
  constexpr int kLooks = 10;
  constexpr timespec kBetweenLooks{.tv_nsec = 20'000'000};
  for (int i = 0; i < kLooks && now.state == 'R'; ++i) {
    ::nanosleep(&kBetweenLooks, nullptr);
    now = read_kernel_view(pid, pid);
  }
  return now;
}

}  // namespace

void ProcessDump::watch_for_loop(int64_t limit_ns) {
  const auto main = std::find_if(threads_.begin(), threads_.end(),
                                 [this](const ThreadCopy& t) { return t.tid == target_.pid; });
  if (main == threads_.end() || method_ != "ptrace") {
    return;
  }
  main_circles_ = main->registers && main->kernel.state == 'R' &&
                  main_thread_circles(target_.pid, live_, modules_.maps());
  PyThread* const python = main_python(*main);
  const KernelView wait = main_circles_ ? main->kernel : next_wait(target_.pid, main->kernel);
  if (python != nullptr && wait.state == 'R' && python->handled.type.empty()) {
    python->handled = caught_again(target_.pid, live_, python_.runtime->offsets, python->address);
    add_traceback_code(live_, python_.runtime->offsets, python->handled, py_);
  }
  follow_calls(wait, python, limit_ns);
}

PyThread* ProcessDump::main_python(const ThreadCopy& main) {
  const auto python = python_of(main);
  const auto state = std::find_if(py_.threads.begin(), py_.threads.end(),
                                  [&](const PyThread& t) { return python && t.address == python->address; });
  return state == py_.threads.end() ? nullptr : &*state;
}

// A handler that has ended leaves an exception in a variable, or handles one during a call of the kernel:
// libraries close files and connections then.
void ProcessDump::follow_calls(const KernelView& wait, PyThread* python, int64_t limit_ns) {
  const bool sleeps =
      python != nullptr && python->handled.type.empty() && wait.state == 'S' && is_sleep(wait.syscall_text);
  if (!sleeps) {
    main_polls_ = polled_files(target_.pid, wait, live_, limit_ns);
    return;
  }
  const Offsets& offsets = python_.runtime->offsets;
  python->caught = kept_by(live_, offsets, *python);
  add_traceback_code(live_, offsets, python->caught, py_);
  const bool kept = !python->caught.type.empty();
  main_polls_ = polled_files(target_.pid, wait, live_, limit_ns, [&] {
    HandledException now = kept ? HandledException() : handled_by(live_, offsets, python->address);
    if (!now.type.empty()) {
      add_traceback_code(live_, offsets, now, py_);
      python->caught = std::move(now);
    }
  });
}

}  // namespace xpurun::stackdump
