// Finds the live processes to dump and their roles: ranks and workers are recognised by their environment, as
// in a supervised run. Reads /proc only.
#pragma once

#include "common/base/os/procfs.h"
#include "common/base/result.h"
#include "launcher/stacks/dump_job.h"

#include <string_view>
#include <vector>

namespace xpurun::launcher {

// "12,13 14": numbers with commas, blanks or line breaks between them. Fails on anything else.
base::Result<std::vector<base::Pid>> parse_pids(std::string_view text);

// The processes themselves, each followed by its living descendants; `except` and its descendants are left
// out.
std::vector<base::Pid> with_descendants(const base::ProcFs& proc, const std::vector<base::Pid>& pids,
                                        base::Pid except);

// Whether the process has ended. A zombie leader whose other threads run on has not.
bool has_ended(const base::ProcFs& proc, base::Pid pid);

// In the given order, without duplicates. A process that does not exist is a target too; its dump fails with
// that reason.
std::vector<DumpTarget> identify_targets(const base::ProcFs& proc, const std::vector<base::Pid>& pids);

}  // namespace xpurun::launcher
