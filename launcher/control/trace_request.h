// Parses and checks trace requests: xpurun's own on the control socket, and xpu_timer's DumpKernelTrace.
// Pure.
#pragma once

#include "common/base/result.h"
#include "launcher/collect/trace.h"

#include <nlohmann/json_fwd.hpp>

namespace xpurun::launcher {

// {"count":1000,"at":1763721600,"kinds":["matmul"],"timeout_s":60,"name":"slow","wait":true}; all optional.
// `now` is the wall clock.
base::Result<TraceRequest> trace_request_from(const nlohmann::json& j, int64_t now_wall_ns);

struct KernelTraceRequest {
  bool reset = false;
  TraceRequest trace;
};
// {"dump_path":"...","dump_count":1000,"dump_time":1763721600,"reset":false,"dump_kernel_type":0}; all
// optional. Of the path the last part becomes the name of a directory in the run directory.
base::Result<KernelTraceRequest> kernel_trace_request_from(const nlohmann::json& j, int64_t now_wall_ns);

}  // namespace xpurun::launcher
