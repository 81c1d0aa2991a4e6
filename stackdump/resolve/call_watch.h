// What a loop asks for that sleeps between its checks, or that asks in vain again and again: the paths and
// addresses of its system calls. Such a call takes microseconds, so that no sample ever meets one.
#pragma once

#include "common/base/ids.h"
#include "common/model/stack_snapshot.h"
#include "stackdump/memory/live_memory.h"
#include "stackdump/native/kernel_view.h"

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace xpurun::stackdump {

// How long a loop is followed at least, where it sleeps.
inline constexpr int64_t kCallWatchNs = 1'200'000'000;

// Whether the call, from the text of /proc/PID/syscall, is a sleep: nanosleep, or select and poll of nothing.
bool is_sleep(std::string_view syscall_text);

// Whether that sleep may end within this time. A loop that sleeps for longer is not followed.
bool ends_soon(std::string_view syscall_text, LiveMemory& memory, int64_t limit_ns = kCallWatchNs);

// Follows the main thread from one sleep to the next, for at most `limit_ns`, and stops only this thread,
// for some microseconds at each call. Empty if the thread does not wake up in that time. A thread that does
// not sleep is followed for a tenth of a second, and what it asks for with success does not count.
// `at_call` is called at each stop.
std::vector<model::PolledFile> polled_files(base::Pid pid, const KernelView& main, LiveMemory& memory,
                                            int64_t limit_ns = kCallWatchNs,
                                            const std::function<void()>& at_call = {});

}  // namespace xpurun::stackdump
