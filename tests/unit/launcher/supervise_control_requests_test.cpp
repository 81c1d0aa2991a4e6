#include "launcher/control/control_http.h"
#include "launcher/control/trace_request.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace xpurun::launcher;
using nlohmann::json;

namespace {

constexpr int64_t kRequestTime = 1'763'721'600'000'000'000;

HttpRequest request(std::string method, std::string path, std::string body,
                    std::vector<std::pair<std::string, std::string>> headers) {
  return {.method = std::move(method),
          .path = std::move(path),
          .query = "",
          .headers = std::move(headers),
          .body = std::move(body)};
}

int status_of(const ControlCall& call) {
  return call.refused ? call.refused->status : 0;
}

}  // namespace

TEST_CASE("requests for a trace") {
  const auto plain = trace_request_from(json::parse(R"({"cmd":"trace"})"), kRequestTime);
  REQUIRE(plain);
  CHECK(plain->count == 1000);
  CHECK(plain->start_wall_ns == 0);
  CHECK(plain->kinds == kTraceGpu);
  const auto full = trace_request_from(
      json::parse(
          R"({"count":7,"at":1763721660,"kinds":["memory","host"],"timeout_s":2.5,"name":"x-1","wait":true})"),
      kRequestTime);
  REQUIRE(full);
  CHECK(full->start_wall_ns == kRequestTime + 60'000'000'000);
  CHECK(full->kinds == (kTraceMemory | kTraceHost));
  CHECK(full->timeout_s == 2.5);
  CHECK(full->name == "x-1");
  CHECK(trace_request_from(json::parse(R"({"at":1763721500})"), kRequestTime)->start_wall_ns == 0);
  for (const char* bad : {R"({"count":0})",
                          R"({"count":-1})",
                          R"({"count":1000001})",
                          R"({"count":1.5})",
                          R"({"count":"7"})",
                          R"({"count":1e99})",
                          R"({"at":"now"})",
                          R"({"at":-1})",
                          R"({"at":1763721600000})",
                          R"({"at":1e300})",
                          R"({"kinds":[]})",
                          R"({"kinds":"matmul"})",
                          R"({"kinds":["matmul","x"]})",
                          R"({"kinds":[1]})",
                          R"({"timeout_s":0})",
                          R"({"timeout_s":1e9})",
                          R"({"timeout_s":"1"})",
                          R"({"name":"../x"})",
                          R"({"name":""})",
                          R"({"name":7})",
                          R"({"name":".."})",
                          R"({"wait":1})",
                          R"({"cuont":7})"}) {
    CAPTURE(bad);
    CHECK_FALSE(trace_request_from(json::parse(bad), kRequestTime));
  }
}

TEST_CASE("xpu_timer's request") {
  const auto all = kernel_trace_request_from(
      json::parse(R"({"dump_path":"/data/timeline/","dump_count":20,"dump_time":1763721605,"reset":false,
                      "dump_kernel_type":3,"oss_args":{"oss_ak":"","oss_path":""}})"),
      kRequestTime);
  REQUIRE(all);
  CHECK(all->trace.name == "timeline");
  CHECK(all->trace.count == 20);
  CHECK(all->trace.start_wall_ns == kRequestTime + 5'000'000'000);
  CHECK(all->trace.kinds == (kTraceMatmul | kTraceCollective));
  CHECK_FALSE(all->reset);
  CHECK(kernel_trace_request_from(json::parse(R"({"reset":true})"), kRequestTime)->reset);
  CHECK(kernel_trace_request_from(json::parse(R"({"dump_kernel_type":0})"), kRequestTime)->trace.kinds ==
        kTraceGpu);
  for (const char* bad :
       {R"({"dump_path":"/a/../../etc/cron.d"})", R"({"dump_path":".."})", R"({"dump_path":3})",
        R"({"dump_path":"a b"})", R"({"dump_path":"a\u0000b"})", R"({"dump_count":0})",
        R"({"dump_count":4294967296000})", R"({"dump_time":1763721600000})", R"({"dump_kernel_type":8})",
        R"({"dump_kernel_type":-1})", R"({"reset":1})", R"({"oss_args":{"oss_path":"s3://x"}})",
        R"({"oss_args":7})", R"({"count":7})"}) {
    CAPTURE(bad);
    CHECK_FALSE(kernel_trace_request_from(json::parse(bad), kRequestTime));
  }
}

TEST_CASE("authorisation over HTTP") {
  const std::string token = "0123456789abcdef";
  const std::pair<std::string, std::string> good = {"authorization", "Bearer 0123456789abcdef"};
  CHECK(status_of(control_call(request("GET", "/status", "", {}), token)) == 401);
  CHECK(status_of(control_call(request("GET", "/nothing", "", {}), token)) == 401);
  CHECK(status_of(control_call(request("GET", "/status", "", {{"authorization", "Bearer 0123456789abcdeF"}}),
                               token)) == 401);
  CHECK(status_of(control_call(request("GET", "/status", "", {{"authorization", "Bearer "}}), token)) == 401);
  CHECK(status_of(control_call(request("GET", "/status", "", {good}), token)) == 0);
  CHECK(status_of(control_call(request("GET", "/status", "", {}), "")) == 0);
  CHECK(status_of(control_call(request("GET", "/healthz", "", {}), token)) == 200);
  CHECK(status_of(control_call(request("GET", "/status", "", {{"authorization", "bearer 0123456789abcdef"}}),
                               token)) == 0);
}

TEST_CASE("the translation of HTTP requests") {
  const auto call = [](const char* method, const char* path, const char* body) {
    return control_call(request(method, path, body, {}), "");
  };
  CHECK(*call("POST", "/timing", R"({"level":"full"})").request ==
        json({{"cmd", "timing"}, {"level", "full"}}));
  CHECK(*call("POST", "/dump", "").request == json({{"cmd", "dump"}}));
  CHECK(*call("GET", "/HostingService/DumpKernelTrace", R"({"reset":true})").request ==
        json({{"cmd", "DumpKernelTrace"}, {"reset", true}}));
  CHECK(status_of(call("GET", "/dump", "")) == 405);
  CHECK(status_of(call("POST", "/status", "")) == 405);
  CHECK(status_of(call("DELETE", "/HostingService/DumpKernelTrace", "")) == 405);
  CHECK(status_of(call("POST", "/HostingService/DumpStringStacktrace", "")) == 404);
  CHECK(status_of(call("POST", "/trace", "{")) == 400);
  CHECK(status_of(call("POST", "/trace", "[]")) == 400);
  CHECK(status_of(call("POST", "/trace", R"({"cmd":"dump"})")) == 400);
  CHECK(control_response({{"ok", true}}).status == 200);
  CHECK(control_response({{"node", "a"}, {"msg", "x"}}).status == 200);
  CHECK(control_response({{"ok", false}, {"code", "bad_request"}}).status == 400);
  CHECK(control_response({{"ok", false}, {"code", "no_ranks"}}).status == 400);
  CHECK(control_response({{"ok", false}, {"code", "busy"}}).status == 409);
  CHECK(control_response({{"ok", false}, {"code", "ending"}}).status == 503);
}
