#include "launcher/control/control_http.h"

#include "common/base/strings.h"
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
  constexpr std::string_view kScheme = "Bearer ";
  const std::string* given = request.header("authorization");
  return given != nullptr && given->starts_with(kScheme) &&
         same_secret(std::string_view(*given).substr(kScheme.size()), token);
}

// Whether a web page makes this request: a browser then sends the page's address as Origin or, after DNS
// rebinding, a Host that is not this host's.
bool from_a_web_page(const HttpRequest& request) {
  if (request.header("origin") != nullptr) {
    return true;
  }
  const std::string* host = request.header("host");
  const std::string name = host == nullptr ? "localhost" : host->substr(0, host->rfind(':'));
  return name != "localhost" && name != "127.0.0.1";
}

}  // namespace

ControlCall control_call(const HttpRequest& request, const std::string& token) {
  if (from_a_web_page(request)) {
    return {.refused = refusal(403, "not for web pages; ask for localhost or 127.0.0.1"), .request = nullptr};
  }
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
  constexpr std::array<std::string_view, 6> kActions = {"/timing",  "/dump",         "/trace",
                                                        "/capture", "/trace-python", "/reset"};
  const bool acts = std::find(kActions.begin(), kActions.end(), request.path) != kActions.end();
  const bool status = request.path == "/status";
  const bool kernel_trace = request.path == kKernelTrace;
  if (!acts && !status && !kernel_trace) {
    return {.refused = refusal(
                404, "there are /status, /timing, /dump, /trace, /capture, /trace-python, /reset and " +
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
  HttpResponse out{
      .content_type = "application/json",
      // The reply holds names of files and processes, which need not be UTF-8: without `replace`, dump()
      // would throw.
      .body = reply.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n"};
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
