// xpu_timer's matmul_*.bin: the throughput of each matmul by rank and problem. The file has no times, so the
// matmuls of a rank follow each other. Untrusted.
#pragma once

#include "common/base/result.h"
#include "report/events/activity.h"
#include "report/events/record_owner.h"

#include <string>
#include <string_view>
#include <vector>

namespace xpurun::report {

base::Result<std::vector<RecordOwner>> owners_of_xpu_timer_matmuls(const std::string& path);
// Adds the matmuls of the rank of `out`.
base::Status add_xpu_timer_matmuls(Activity& out, const std::string& path);

// The same of the bytes of a file. Ranks up to the damage.
std::vector<RecordOwner> owners_in_xpu_timer_matmuls(std::string_view bytes);
// False: there is damage.
bool parse_xpu_timer_matmuls(Activity& out, std::string_view bytes);

}  // namespace xpurun::report
