// Which calls of GPU work a file of events holds, by the file itself and what lies beside it.
#pragma once

#include "common/model/timing/event_file.h"

#include <string>

namespace xpurun::report {

enum class RecordedCalls : uint8_t {
  some,         // samples, or chosen kinds only
  all,          // from the first event to the last one
  all_but_end,  // of the last calls some are missing, because the number of calls ended the trace
};

// `path`: of the file.
RecordedCalls recorded_calls(const model::EventFile& file, const std::string& path);

}  // namespace xpurun::report
