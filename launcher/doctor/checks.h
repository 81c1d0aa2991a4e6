// The checks of `xpurun doctor`. Each really tries what it is about, in child processes with time limits, and
// never fails: what goes wrong is a finding. Single-threaded callers only (they fork).
#pragma once

#include "launcher/doctor/context.h"
#include "launcher/doctor/finding.h"

namespace xpurun::launcher {

// ptrace_check.cpp: stops and reads a child of ours.
Findings check_ptrace(const DoctorContext& context);
// preload_check.cpp: the library arrives in a program; would it in the command?
Findings check_preload(const DoctorContext& context);
// python_check.cpp: positions and stacks of the Pythons that are found.
Findings check_python(const DoctorContext& context);
// gpu_check.cpp: driver, NCCL and its profiler plugin, cuBLAS.
Findings check_gpu(const DoctorContext& context);
// host_check.cpp: kernel, container, limits, debuggers.
Findings check_host(const DoctorContext& context);
// place_check.cpp: run directory, sockets, ports, shared memory, clock.
Findings check_place(const DoctorContext& context);

}  // namespace xpurun::launcher
