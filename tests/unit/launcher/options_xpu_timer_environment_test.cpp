#include "launcher/options/run_settings.h"
#include "launcher/options/xpu_timer_environment.h"

#include <doctest/doctest.h>

using namespace xpurun::launcher;

namespace {

using XpuTimerVariables = std::map<std::string, std::string>;
using XpuTimerWarnings = std::vector<std::string>;

std::string value_set(const Settings& settings, std::string_view name) {
  const Setting* s = settings.find(name);
  return s == nullptr ? "-" : s->value + " from " + s->source;
}

}  // namespace

TEST_CASE("xpu_timer's variables set options") {
  Settings s;
  const XpuTimerVariables env = {
      {"XPU_TIMER_HANG_TIMEOUT", "120"},
      {"XPU_TIMER_HANG_KILL", "1"},
      {"XPU_TIMER_BASEPORT", "18900"},
      {"XPU_TIMER_HOST_TRACING_FUNC", "train@Model@step,torch.distributed.all_gather,main"},
      {"XPU_TIMER_EXIT_HOOK_PLUGIN", "a.py"},
      {"HANG_TIMEOUT", "5"}};
  CHECK(add_xpu_timer_environment(s, env).empty());
  CHECK(value_set(s, "hang-timeout") == "120 from XPU_TIMER_HANG_TIMEOUT");
  CHECK(value_set(s, "on-hang") == "kill from XPU_TIMER_HANG_KILL");
  CHECK(value_set(s, "control-port") == "18900 from XPU_TIMER_BASEPORT");
  CHECK(value_set(s, "metrics-port") == "18901 from XPU_TIMER_BASEPORT");
  CHECK(value_set(s, "trace-python") ==
        "train:Model.step,torch:distributed.all_gather,__main__:main from XPU_TIMER_HOST_TRACING_FUNC");
  const auto options = to_run_options(s);
  REQUIRE(options);
  CHECK(options->hang_timeout_s == 120);
  CHECK(options->on_hang == OnHang::kill);
  CHECK(options->metrics_port == 18901);
}

TEST_CASE("xpu_timer's variables: the user's own options are stronger") {
  Settings s;
  s.set("hang-timeout", {.value = "7", .source = "command line"});
  CHECK(add_xpu_timer_environment(s, {{"XPU_TIMER_HANG_TIMEOUT", "120"}, {"XPU_TIMER_PORT", "500"}}).empty());
  CHECK(value_set(s, "hang-timeout") == "7 from command line");
  CHECK(value_set(s, "metrics-port") == "500 from XPU_TIMER_PORT");
  CHECK(value_set(s, "control-port") == "499 from XPU_TIMER_PORT");
}

TEST_CASE("xpu_timer's variables: what has no effect is said") {
  Settings s;
  const XpuTimerWarnings said = add_xpu_timer_environment(s, {{"XPU_TIMER_BASEPORT", "70000"},
                                                              {"XPU_TIMER_DEBUG_MODE", "1"},
                                                              {"XPU_TIMER_HANG_TIMEOUT", "soon"},
                                                              {"XPU_TIMER_HANG_TIMOUT", "1"},
                                                              {"XPU_TIMER_HOST_TRACING_FUNC", "not a name"},
                                                              {"XPU_TIMER_PROMETHEUS_UPDATE_INTERVAL", "5"},
                                                              {"XPU_TIMER_QQ", "1"}});
  REQUIRE(said.size() == 7);
  CHECK(said[0].starts_with("XPU_TIMER_BASEPORT is ignored: '70001' is not a port"));
  CHECK(said[1] == "XPU_TIMER_DEBUG_MODE has no effect: xpurun works with any part of the GPUs");
  CHECK(said[2] == "XPU_TIMER_HANG_TIMEOUT is ignored: 'soon' is not a number");
  CHECK(said[3] == "XPU_TIMER_HANG_TIMOUT is not known; did you mean XPU_TIMER_HANG_TIMEOUT?");
  CHECK(said[4].starts_with("XPU_TIMER_HOST_TRACING_FUNC is ignored: "));
  CHECK(said[5] == "XPU_TIMER_PROMETHEUS_UPDATE_INTERVAL has no effect: metrics are computed at each scrape");
  CHECK(said[6] == "XPU_TIMER_QQ is not known");
  CHECK(s.all().empty());
}

TEST_CASE("xpu_timer's variables: what is switched off or not set is not said") {
  Settings s;
  CHECK(add_xpu_timer_environment(s, {{"XPU_TIMER_CONFIG", "NOT_SET"},
                                      {"XPU_TIMER_DEBUG_MODE", "0"},
                                      {"XPU_TIMER_HANG_KILL", "false"},
                                      {"XPU_TIMER_QQ", ""}})
            .empty());
  CHECK(s.all().empty());
}
