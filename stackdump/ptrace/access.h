// Why a process cannot be stopped or read: finds the actual cause of an errno on this host.
#pragma once

#include "common/base/ids.h"
#include "common/base/result.h"

namespace xpurun::stackdump {

// The process exists, is no zombie and no kernel thread; E-NO-PROCESS otherwise.
base::Status check_alive(base::Pid pid);

// A thread of the process that still has its memory: the main thread, or another one after pthread_exit in
// main. Use this thread id for /proc and process_vm_readv.
base::Pid living_thread(base::Pid pid);

// The tracer of the process, 0 if none.
base::Pid tracer_of(base::Pid pid);

// Error for a refused ptrace or memory read: E-PTRACE-TRACED, E-PTRACE-YAMA, E-PTRACE-PERM or E-NO-PROCESS.
base::Error explain_refusal(base::Pid pid, int err);

}  // namespace xpurun::stackdump
