// The checks of `xpurun doctor`. Each check tries the real operation in child processes with time limits. A
// check never fails; a problem becomes a finding. The checks fork: single-threaded callers only.
#pragma once

#include "commands/doctor/context.h"
#include "commands/doctor/finding.h"

namespace xpurun::launcher {

// ptrace_check.cpp: stops a child process and reads its memory.
Findings check_ptrace(const DoctorContext& context);
// preload_check.cpp: whether the preload library works in a test program, and in the command.
Findings check_preload(const DoctorContext& context);
// python_check.cpp: positions and stacks of the installed Pythons.
Findings check_python(const DoctorContext& context);
// gpu_check.cpp: driver, NCCL and its profiler plugin, cuBLAS.
Findings check_gpu(const DoctorContext& context);
// gpu_health_check.cpp: errors, limits and connections of the GPUs, by NVML.
Findings check_gpu_health(const DoctorContext& context);
// host_check.cpp: kernel, container, limits, debuggers.
Findings check_host(const DoctorContext& context);
// machine_check.cpp: what the kernel lets this user read about links, pressure and errors.
Findings check_machine(const DoctorContext& context);
// place_check.cpp: run directory, sockets, ports, shared memory, clock.
Findings check_place(const DoctorContext& context);

}  // namespace xpurun::launcher
