#include "launcher/options/run_settings.h"

#include <doctest/doctest.h>

#include <csignal>

namespace model = xpurun::model;
using namespace xpurun::launcher;

namespace {

xpurun::base::Result<RunOptions> options(const std::vector<std::string>& words) {
  const auto parsed = parse_words(*find_command("run"), words);
  REQUIRE(parsed);
  return to_run_options(parsed->settings);
}

std::string problem(const std::vector<std::string>& words) {
  const auto o = options(words);
  REQUIRE(!o);
  CHECK(o.error().id == "E-USAGE");
  return o.error().what;
}

}  // namespace

TEST_CASE("without settings every option has the default of the table") {
  const RunOptions o = default_run_options();
  CHECK(o.hang_timeout_s == 300);
  CHECK(o.busy_timeouts == 0);
  CHECK(o.on_hang == OnHang::report);
  CHECK(o.max_hangs == 3);
  CHECK(o.on_event.empty());
  CHECK(o.on_event_kinds.size() == model::kNames<model::JobEventKind>.size());
  CHECK(o.event_limit_s == 10);
  CHECK(o.plugins.empty());
  CHECK(o.poll_s == 0);
  CHECK(o.dump_signal == 0);
  CHECK(o.dump_deadline_s == 0.1);
  CHECK(o.gpu_stacks == xpurun::model::GpuStacks::automatic);
  CHECK(o.crash_wait_s == 5);
  CHECK(o.evidence_timeout_s == 20);
  CHECK_FALSE(o.flight_recorder);
  CHECK(o.grace_s == 30);
  CHECK(o.runs_dir == "xpurun-runs");
  CHECK(o.report);
  CHECK_FALSE(o.logs);
  CHECK_FALSE(o.prefix);
  CHECK(o.status == ShowStatus::automatic);
  CHECK(o.verbosity == 0);
  CHECK(o.preload);
  CHECK(o.timing == Timing::light);
  CHECK(o.nccl_profiler == NcclProfiler::automatic);
  CHECK(o.overhead_budget == doctest::Approx(0.001));
  CHECK(o.metrics_port == 0);
  CHECK_FALSE(o.shape_metrics);
  CHECK(o.event_bytes == uint64_t{64} << 20);
  CHECK(o.control_port == kNoPort);
  CHECK(o.control_token);
  CHECK(o.origins.empty());
}

TEST_CASE("the help lists the ports that auto means") {
  for (const auto& [name, port] :
       {std::pair("metrics-port", kMetricsPort), std::pair("control-port", kControlPort)}) {
    CHECK(find_option(run_options(), name)->help.find(std::to_string(port)) != std::string_view::npos);
  }
}

TEST_CASE("every default of the table is a value of its option") {
  for (const OptionSpec& o : run_options()) {
    if (!o.default_text.empty()) {
      CHECK(check_value(o, std::string(o.default_text)));
    }
  }
}

TEST_CASE("metrics, events and control") {
  const auto o = options({"--metrics-port=9999", "--shape-metrics", "--events=8M", "--control-port=auto",
                          "--control-auth=none"});
  REQUIRE(o);
  CHECK(o->metrics_port == 9999);
  CHECK(o->shape_metrics);
  CHECK(o->event_bytes == 8 << 20);
  CHECK(o->control_port == 0);
  CHECK_FALSE(o->control_token);
  CHECK(options({"--events=off"})->event_bytes == 0);
  CHECK(options({"--events=0"})->event_bytes == 0);
  CHECK(options({"--metrics-port=off"})->metrics_port == kNoPort);
  CHECK(problem({"--events=1000"}) == "--events: must be 0 or at least 1M");
  CHECK_FALSE(options({"--control-port=65536"}));
  CHECK(options({"--peak=bf16=989T,fp8=1979T"})->peaks ==
        *xpurun::model::Peaks::parse("bf16=989T,fp8=1979T"));
  CHECK(problem({"--peak=989Q"}) ==
        "--peak: '989Q' is not in FLOP/s; write 989T, 989e12 or bf16=989T,fp8=1979T");
  CHECK_FALSE(options({"--control-auth=maybe"}));
}

TEST_CASE("options of several nodes, and their secrets") {
  CHECK_FALSE(options({})->nodes.wanted());
  CHECK(options({})->nodes.node_rank == -1);
  const auto o = options({"--nats=nats://user:geheim@h:4222", "--nats-token=geheim", "--nats-user=u",
                          "--nats-password=geheim", "--nats-creds=c", "--nats-ca=a", "--nats-cert=b",
                          "--nats-key=k", "--nats-secret=s", "--collect=all", "--nodes=4", "--node-rank=0"});
  REQUIRE(o);
  CHECK(o->nodes.wanted());
  CHECK_FALSE(o->nodes.automatic());
  CHECK(o->nodes.token == "geheim");
  CHECK(o->nodes.password == "geheim");
  CHECK(o->nodes.secret_file == "s");
  CHECK(o->nodes.collect_all);
  CHECK(o->nodes.nodes == 4);
  CHECK(o->nodes.node_rank == 0);
  for (const xpurun::model::OptionOrigin& origin : o->origins) {
    CAPTURE(origin.name);
    CHECK(origin.value.find("geheim") == std::string::npos);
  }
  CHECK(options({"--nats=auto"})->nodes.automatic());
  CHECK(problem({"--nats=http://u:geheim@h"}) ==
        "--nats: 'http://****@h' is neither nats://HOST:PORT or tls://HOST:PORT nor auto or off");
  CHECK_FALSE(options({"--node-rank=-1"}));
  CHECK_FALSE(options({"--nodes=0"}));
}

TEST_CASE("every option reaches RunOptions") {
  const auto o = options({"--hang-timeout=5m", "--busy-timeouts=7", "--on-hang=kill", "--poll=250ms",
                          "--dump-signal=USR2", "--dump-deadline=1s", "--crash-wait=2", "--grace=1.5h",
                          "--out=o", "--status=never", "--runs-dir=r", "--name=n", "--no-report", "--prefix",
                          "-v", "--no-preload", "--preload-library=l", "--gpu-stacks=never", "--hang-idle"});
  REQUIRE(o);
  CHECK(o->hang_timeout_s == 300);
  CHECK(o->busy_timeouts == 7);
  CHECK(o->on_hang == OnHang::kill);
  CHECK(o->poll_s == 0.25);
  CHECK(o->dump_signal == SIGUSR2);
  CHECK(o->dump_deadline_s == 1);
  CHECK(o->gpu_stacks == xpurun::model::GpuStacks::never);
  CHECK(o->crash_wait_s == 2);
  CHECK(o->grace_s == 5400);
  CHECK(o->out_dir == "o");
  CHECK(o->runs_dir == "r");
  CHECK(o->name == "n");
  CHECK_FALSE(o->report);
  CHECK(o->prefix);
  CHECK(o->logs);
  CHECK(o->status == ShowStatus::never);
  CHECK(o->verbosity == 1);
  CHECK_FALSE(o->preload);
  CHECK(o->preload_path == "l");
  CHECK(o->hang_idle);
  CHECK(o->origins.size() == 19);
  CHECK(o->origins.front().source == "command line");
}

TEST_CASE("user programs, and restarts") {
  const auto o = options({"--on-event=cat", "--on-event-kinds=hang,end", "--on-event-kinds=crash",
                          "--on-event-timeout=3s", "--plugin=a.py", "--plugin=b.py", "--on-hang=restart",
                          "--max-hangs=2"});
  REQUIRE(o);
  CHECK(o->on_event == "cat");
  CHECK(o->on_event_kinds ==
        JobEventKinds{model::JobEventKind::hang, model::JobEventKind::crash, model::JobEventKind::end});
  CHECK(o->event_limit_s == 3);
  CHECK(o->plugins == "a.py,b.py");
  CHECK(o->on_hang == OnHang::restart);
  CHECK(o->max_hangs == 2);
  CHECK(problem({"--on-event-kinds=hang,silent"}) ==
        "--on-event-kinds: 'silent' is not one of hang, crash, exception, recovery, slow, end, stall, "
        "memory, mismatch");
  CHECK(options({"--slow-threshold=35%"})->slow_threshold == doctest::Approx(0.35));
  CHECK(options({"--slow-threshold=off"})->slow_threshold == 0);
  CHECK(default_run_options().slow_threshold == doctest::Approx(0.2));
  CHECK(default_run_options().slow_capture_s == 10);
  CHECK(options({"--slow-capture=off"})->slow_capture_s == 0);
  CHECK(options({"--slow-capture=2s"})->slow_capture_s == 2);
  CHECK(options({"--slow-capture=10m"})->slow_capture_s == 60);
  CHECK(options({"--slow-capture=20steps"})->slow_capture_steps == 20);
  CHECK(options({"--slow-capture=20steps"})->slow_capture_s == 0);
  CHECK(options({"--slow-capture=2s"})->slow_capture_steps == 0);
  for (const char* wrong : {"often", "steps", "0steps", "-1steps", "1.5steps", "1000000steps", "20 stepsx"}) {
    CHECK(problem({std::string("--slow-capture=") + wrong}).find("is not a duration, such as 10s") !=
          std::string::npos);
  }
  CHECK(problem({"--slow-threshold=often"}).starts_with("--slow-threshold: 'often' is not a share"));
  CHECK(problem({"--on-event-timeout=0"}) == "--on-event-timeout: must be longer than 0");
}

TEST_CASE("words instead of durations, and signals") {
  CHECK(options({"--hang-timeout=off"})->hang_timeout_s == 0);
  CHECK(options({"--hang-timeout=0"})->hang_timeout_s == 0);
  CHECK(options({"--crash-wait=off"})->crash_wait_s == 0);
  CHECK(options({"--evidence-timeout=off"})->evidence_timeout_s == 0);
  CHECK(options({"--flight-recorder"})->flight_recorder);
  CHECK(options({"--grace=none"})->grace_s == kForever);
  CHECK(options({"--grace=0"})->grace_s == 0);
  CHECK(options({"--dump-signal=HUP"})->dump_signal == SIGHUP);
  CHECK(options({"--dump-signal=QUIT"})->dump_signal == SIGQUIT);
  CHECK(options({"--dump-signal=USR1"})->dump_signal == SIGUSR1);
}

TEST_CASE("verbosity") {
  CHECK(options({"-vvvv"})->verbosity == 2);
  CHECK(options({"-q"})->verbosity == -1);
  CHECK(options({"-q", "-v"})->verbosity == -1);
  Settings s = parse_words(*find_command("run"), {"-v"})->settings;
  add_environment(s, *find_command("run"), {{"XPURUN_QUIET", "1"}});
  CHECK(to_run_options(s)->verbosity == 1);
  Settings quiet = parse_words(*find_command("run"), {"-q"})->settings;
  add_environment(quiet, *find_command("run"), {{"XPURUN_VERBOSE", "2"}});
  CHECK(to_run_options(quiet)->verbosity == -1);
}

TEST_CASE("bad values name the option and the place") {
  CHECK(problem({"--grace=5x"}) ==
        "--grace: '5x' is not a duration; write 90, 90s, 5m, 1.5h, 2d or 250ms, or none");
  CHECK(problem({"--hang-timeout=-1"}).starts_with("--hang-timeout: '-1' is not a duration"));
  CHECK(problem({"--hang-timeout=1e9h"}).ends_with("is longer than three years"));
  CHECK(problem({"--on-hang=stop"}) == "--on-hang: 'stop' is not one of report, kill, restart");
  CHECK(problem({"--dump-signal=KILL"}).ends_with("is not one of none, HUP, QUIT, USR1, USR2"));
  CHECK(problem({"--busy-timeouts=0"}).starts_with("--busy-timeouts: '0' is not a number from 1"));
  CHECK(problem({"--busy-timeouts=99999999999999999999"}).starts_with("--busy-timeouts"));
  CHECK(problem({"--poll=0"}) == "--poll: must be longer than 0");
  CHECK(problem({"--dump-deadline=0ms"}) == "--dump-deadline: must be longer than 0");
  SUBCASE("from the environment and from a file") {
    Settings env;
    add_environment(env, *find_command("run"), {{"XPURUN_LOGS", "maybe"}});
    CHECK(to_run_options(env).error().what == "--logs: 'maybe' is neither on nor off (set in XPURUN_LOGS)");
    Settings file;
    REQUIRE(add_config_text(file, *find_command("run"), "grace=soon\n", "a/b.conf", FileLevel::user));
    CHECK(to_run_options(file).error().what.starts_with("a/b.conf: grace: 'soon' is not a duration"));
    CHECK(to_run_options(file).error().id == "E-CONFIG");
  }
}

TEST_CASE("print_config shows the source of each value") {
  const auto parsed = parse_words(*find_command("run"), {"--grace=1"});
  const std::string text = print_config(parsed->settings);
  CHECK(text.find("grace            1                command line\n") != std::string::npos);
  CHECK(text.find("hang-timeout     300s             default\n") != std::string::npos);
  CHECK(text.find("print-config") == std::string::npos);
}
