#include "launcher/control/control_http.h"

#include "common/base/ascii_case.h"
#include "common/base/strings.h"
#include "common/model/json/json_text.h"
#include "common/model/json_fields.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>

namespace xpurun::launcher {

namespace {

using nlohmann::json;

constexpr std::string_view kKernelTrace = "/HostingService/DumpKernelTrace";

HttpResponse refusal(int status, std::string_view why) {
  return control_response({{"ok", false}, {"status", status}, {"error", why}});
}

bool may_ask(const HttpRequest& request, const std::string& token) {
  if (token.empty()) {
    return true;
  }
  // The names of schemes are case-insensitive (RFC 9110, 11.1).
  constexpr std::string_view kScheme = "bearer ";
  const std::string* given = request.header("authorization");
  return given != nullptr && base::lower(given->substr(0, kScheme.size())) == kScheme &&
         same_secret(std::string_view(*given).substr(kScheme.size()), token);
}

}  // namespace

ControlCall control_call(const HttpRequest& request, const std::string& token) {
  const bool reads = request.method == "GET" || request.method == "HEAD";
  if (request.path == "/healthz") {
    return {.refused = reads ? HttpResponse{.body = "ok\n"} : refusal(405, "GET /healthz"),
            .request = nullptr};
  }
  if (!may_ask(request, token)) {
    return {.refused = refusal(401,
                               "send 'Authorization: Bearer' and what is in control.token of the run "
                               "directory"),
            .request = nullptr};
  }
  constexpr std::array<std::string_view, 7> kActions = {"/timing",       "/dump",   "/trace", "/capture",
                                                        "/trace-python", "/memory", "/reset"};
  const bool acts = std::find(kActions.begin(), kActions.end(), request.path) != kActions.end();
  const bool status = request.path == "/status";
  const bool kernel_trace = request.path == kKernelTrace;
  if (!acts && !status && !kernel_trace) {
    return {
        .refused = refusal(
            404, "there are /status, /timing, /dump, /trace, /capture, /trace-python, /memory, /reset and " +
                     std::string(kKernelTrace)),
        .request = nullptr};
  }
  const bool fits = status ? reads : request.method == "POST" || (kernel_trace && request.method == "GET");
  if (!fits) {
    return {.refused = refusal(405, status ? "GET /status" : "use POST"), .request = nullptr};
  }
  json fields = request.body.empty() || status ? json::object() : model::parse_json(request.body);
  if (!fields.is_object() || fields.contains("cmd")) {
    return {.refused = refusal(400, "the body must be a JSON object with the request's fields"),
            .request = nullptr};
  }
  fields["cmd"] = kernel_trace ? "DumpKernelTrace" : request.path.substr(1);
  return {.refused = std::nullopt, .request = std::make_shared<const json>(std::move(fields))};
}

HttpResponse control_response(const nlohmann::ordered_json& reply) {
  HttpResponse out{.content_type = "application/json", .body = model::json_text(reply) + "\n"};
  if (!reply.contains("ok") || reply["ok"] == true) {
    return out;
  }
  const std::string code = reply.value("code", "");
  out.status = reply.value("status", code == "bad_request" || code == "no_ranks" ? 400
                                     : code == "busy"                            ? 409
                                                                                 : 503);
  return out;
}

}  // namespace xpurun::launcher
