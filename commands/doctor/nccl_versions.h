// Known facts about the profiler plugin interface of each NCCL release. A pure function of the version
// number; the facts are in NCCL's tags and in issues 1992, 2112, 2221 and 2355 of NVIDIA/nccl.
#pragma once

#include "commands/doctor/finding.h"

#include <string>

namespace xpurun::launcher {

// 22809 -> "2.28.9"; before 2.9 NCCL counted 2804 for 2.8.4.
std::string nccl_version_text(int code);

// Whether this NCCL's profiler plugin interface can give device times of collectives. `where` names the
// library found.
Finding judge_nccl(int code, const std::string& where);

}  // namespace xpurun::launcher
