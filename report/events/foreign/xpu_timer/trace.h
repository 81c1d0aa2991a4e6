// xpu_timer's traces: RRRRR-WWWWW.timeline (protobuf KernelTraces) with the names in
// RRRRR-WWWWW.timeline.meta.
#pragma once

#include "common/base/result.h"
#include "report/events/activity.h"
#include "report/events/record_owner.h"

#include <string>
#include <string_view>

namespace xpurun::report {

// The rank in the file's name.
base::Result<RecordOwner> owner_of_xpu_timer_file(const std::string& path);

// Adds the events of a .timeline file. A missing .meta file leaves kernels without names.
base::Status add_xpu_timer_trace(Activity& out, const std::string& path);

// The two files' bytes, which are untrusted. False: the protobuf is damaged; what came before is kept.
bool parse_xpu_timer_trace(Activity& out, std::string_view timeline, std::string_view meta);

}  // namespace xpurun::report
