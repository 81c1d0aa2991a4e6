// Why a thread is not on a CPU.
#include "launcher/stacks/off_cpu.h"

#include <doctest/doctest.h>

using namespace xpurun;
using namespace xpurun::launcher;

namespace {

stackdump::KernelView kernel_view(char state, std::string syscall, std::string wchan = {},
                                  std::string file = {}) {
  stackdump::KernelView out;
  out.state = state;
  out.syscall_text = syscall.empty() ? "-1 0x7f 0x7f" : "1 0x0";
  out.syscall = std::move(syscall);
  out.wchan = std::move(wchan);
  out.syscall_file = std::move(file);
  return out;
}

}  // namespace

TEST_CASE("off CPU: the reason of a thread that sleeps") {
  struct Case {
    stackdump::KernelView view;
    std::string reason;
  };
  stackdump::KernelView masked = kernel_view('S', "", "futex_wait_queue");
  masked.syscall_text.clear();
  stackdump::KernelView nothing = kernel_view('D', "");
  nothing.syscall_text.clear();
  for (const Case& c : {Case{kernel_view('R', ""), ""}, Case{kernel_view('S', "futex"), "futex"},
                        Case{kernel_view('S', "clock_nanosleep"), "sleep"},
                        Case{kernel_view('S', "epoll_wait"), "wait: epoll_wait"},
                        Case{kernel_view('S', "read", "pipe_read", "pipe:[4711]"), "wait: read"},
                        Case{kernel_view('S', "read", "request_wait_answer", "/data/x"), "io: read"},
                        Case{kernel_view('S', "openat", "request_wait_answer"), "io: openat"},
                        Case{kernel_view('D', "fsync", "jbd2_log_wait_commit", "/ckpt/x"), "io: fsync"},
                        Case{kernel_view('D', "", "folio_wait_bit_common"), "page fault"},
                        Case{kernel_view('S', "", "request_wait_answer"), "page fault"},
                        Case{kernel_view('S', "read", "handle_userfault", "/data/x"), "page fault"},
                        Case{kernel_view('T', "read"), "stopped"}, Case{masked, "futex"}, Case{nothing, "io"},
                        Case{kernel_view('Z', ""), ""}}) {
    CAPTURE(c.reason);
    CHECK(off_cpu_reason(c.view) == c.reason);
  }
}

TEST_CASE("off CPU: as many samples wait in the run queue as the scheduler has counted") {
  constexpr base::MonoNs kStep = 10'000'000;
  for (const int percent : {0, 25, 60, 100}) {
    CAPTURE(percent);
    ReadySamples samples;
    int waiting = 0;
    for (int i = 1; i <= 1001; ++i) {
      const auto at = static_cast<uint64_t>(i * kStep);
      const uint64_t waited = at / 100 * static_cast<uint64_t>(percent);
      waiting += samples.waits(i * kStep, at - waited, waited) ? 1 : 0;
    }
    CHECK(waiting == doctest::Approx(10 * percent).epsilon(0.01));
  }
}

TEST_CASE("off CPU: a wait that lasts is counted when it ends, so nothing that grows means waiting") {
  ReadySamples samples;
  CHECK_FALSE(samples.waits(0, 1000, 1000));
  CHECK_FALSE(samples.waits(5'000'000, 1000, 1000));  // less than a tick
  CHECK(samples.waits(30'000'000, 1000, 1000));
  CHECK_FALSE(samples.waits(40'000'000, 9'000'000, 1000));
  samples.skip(50'000'000, 20'000'000, 1000);  // slept meanwhile
  CHECK_FALSE(samples.waits(60'000'000, 30'000'000, 1000));
}
