// The control socket's requests over HTTP, and xpu_timer's DumpKernelTrace: who may ask, and what an HTTP
// request means. Pure; docs/control.md is the specification.
#pragma once

#include "common/base/result.h"
#include "launcher/http/http_request.h"
#include "launcher/http/token.h"

#include <nlohmann/json_fwd.hpp>

#include <memory>
#include <optional>
#include <string>

namespace xpurun::launcher {

struct ControlCall {
  // Set: the answer is known without asking the supervisor.
  std::optional<HttpResponse> refused;
  // Otherwise the request for the control socket's handler; "cmd" is DumpKernelTrace for xpu_timer's request.
  std::shared_ptr<const nlohmann::json> request;
};

// An empty `token` means that requests need none. Requests that a web page may have made are always refused.
ControlCall control_call(const HttpRequest& request, const std::string& token);

// From the reply of the control socket's handler: 200, or 4xx by its "code".
HttpResponse control_response(const nlohmann::ordered_json& reply);

}  // namespace xpurun::launcher
