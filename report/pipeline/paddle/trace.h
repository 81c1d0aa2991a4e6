// The two files of Paddle's pipeline visualiser: Chrome's trace JSON with a row for each GPU and one for the
// steps. Its readers are chrome://tracing (pipeline_profile.json) and ui.perfetto.dev
// (pipeline_profile_perfetto.json, whose rows are numbered and named by metadata).
#pragma once

#include "common/model/speed/pipeline.h"
#include "report/timeline/output/output_file.h"

#include <string_view>

namespace xpurun::report {

enum class PaddleTrace { chrome, perfetto };
// "forward_3", as Paddle's tool writes, or "forward_3 (12.250 ms)", as its document says.
enum class JobNames { plain, with_durations };

inline constexpr std::string_view kPaddleChromeFile = "pipeline_profile.json";
inline constexpr std::string_view kPaddlePerfettoFile = "pipeline_profile_perfetto.json";

// Without finish().
void write_paddle_trace(OutputFile& out, const model::PipelineReport& report, PaddleTrace form,
                        JobNames names = JobNames::plain);

}  // namespace xpurun::report
