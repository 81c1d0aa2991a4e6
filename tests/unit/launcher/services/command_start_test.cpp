#include "launcher/supervise/command_start.h"

#include "common/base/os/io.h"
#include "common/wire/notice.h"
#include "common/wire/python.h"
#include "launcher/options/run_settings.h"
#include "tests/unit/launcher/services/log_lines.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <unistd.h>

using namespace xpurun;
using namespace xpurun::launcher;

namespace {

using Variables = std::vector<std::string>;

// A directory `tree` with a preload library and its bootstrap. Variables of this process that matter are
// unset.
struct CommandStartScene {
  test::LogLines log;
  RunOptions options = default_run_options();
  model::RunManifest manifest;
  // Configuration files of this host must not affect the test.
  Variables before = {"A=1", "NCCL_CONF_FILE=/nonexistent"};
  std::string tree;

  explicit CommandStartScene(const std::string& name = "tree")
      : tree(std::filesystem::current_path().string() + "/" + name) {
    std::filesystem::remove_all(tree);
    REQUIRE(base::make_dirs(tree + "/" + wire::kPythonDirectory));
    REQUIRE(base::write_file_atomic(tree + "/libxpurun_preload.so", "a library"));
    REQUIRE(base::write_file_atomic(fmt::format("{}/{}/sitecustomize.py", tree, wire::kPythonDirectory), ""));
    options.command = {"sh", "-c", "true"};
    options.preload = true;
    options.preload_path = tree + "/libxpurun_preload.so";
    options.timing = Timing::off;
    ::unsetenv(wire::kPythonHooksEnv);
    ::unsetenv("XDG_RUNTIME_DIR");
  }
  Variables setup() { return with_preload_setup(before, options, "/run/notice.sock", manifest); }
  // "-" if it is not set.
  static std::string value(const Variables& env, const std::string& name) {
    for (const std::string& entry : env) {
      if (entry.starts_with(name + "=")) {
        return entry.substr(name.size() + 1);
      }
    }
    return "-";
  }
  std::string set(const std::string& name) { return value(setup(), name); }
};

}  // namespace

TEST_CASE("command start: the library, and where it reports to") {
  CommandStartScene s;
  s.options.crash_wait_s = 2.5;
  const Variables env = s.setup();
  CHECK(CommandStartScene::value(env, "A") == "1");
  CHECK(CommandStartScene::value(env, "LD_PRELOAD") == s.tree + "/libxpurun_preload.so");
  CHECK(CommandStartScene::value(env, wire::kRunEnv) ==
        fmt::format("1:{}:2500:/run/notice.sock", ::getpid()));
  CHECK(CommandStartScene::value(env, wire::kPythonHooksEnv) == "-");
  CHECK(CommandStartScene::value(env, "NCCL_PROFILER_PLUGIN") == "-");
  CHECK(s.manifest.preload_path == s.options.preload_path);
  CHECK(s.manifest.preload_reason.empty());
  CHECK(s.manifest.python_reason.empty());
  CHECK(s.log.text().empty());
}

TEST_CASE("command start: a relative path of the library works in any directory") {
  CommandStartScene s;
  s.options.preload_path = "tree/libxpurun_preload.so";
  CHECK(s.set("LD_PRELOAD") == s.tree + "/libxpurun_preload.so");
  CHECK(s.manifest.preload_path == "tree/libxpurun_preload.so");
}

TEST_CASE("command start: the wait of a crashing process has a limit") {
  CommandStartScene s;
  s.options.crash_wait_s = kForever;
  CHECK(s.set(wire::kRunEnv).find(":3600000:") != std::string::npos);
}

TEST_CASE("command start: without the library the environment is the user's") {
  CommandStartScene s;
  SUBCASE("switched off") {
    s.options.preload = false;
    CHECK(s.setup() == s.before);
    CHECK(s.manifest.preload_reason == "switched off by --no-preload");
    CHECK(s.log.text().empty());
  }
  SUBCASE("not installed: this test has none beside it") {
    s.options.preload_path.clear();
    CHECK(s.setup() == s.before);
    CHECK(s.manifest.preload_reason.find("cannot find libxpurun_preload.so") != std::string::npos);
    CHECK(s.log.have("crashes will be seen without their stacks"));
  }
  CHECK(s.manifest.preload_path.empty());
  CHECK(s.manifest.python_reason == "the preload library, which brings the bootstrap, is not loaded");
}

TEST_CASE("command start: a library below a path with a space is loaded through a link, or not at all") {
  CommandStartScene s("a tree");
  SUBCASE("through a link") {
    REQUIRE(base::make_dirs("links"));
    const std::string links = std::filesystem::current_path().string() + "/links";
    ::setenv("XDG_RUNTIME_DIR", links.c_str(), 1);
    const std::string loaded = s.set("LD_PRELOAD");
    CHECK(loaded.starts_with(links + "/"));
    CHECK(std::filesystem::read_symlink(loaded) == s.options.preload_path);
    CHECK(s.manifest.preload_path == s.options.preload_path);
    CHECK(s.manifest.python_reason.empty());
  }
  SUBCASE("nowhere to make a link") {
    ::setenv("XDG_RUNTIME_DIR", "/nonexistent", 1);
    CHECK(s.setup() == s.before);
    CHECK(s.manifest.preload_path.empty());
    CHECK(s.manifest.preload_reason.find("cannot preload") != std::string::npos);
    CHECK(s.log.have("cannot preload"));
  }
  ::unsetenv("XDG_RUNTIME_DIR");
}

TEST_CASE("command start: hooks in Python") {
  CommandStartScene s;
  s.options.trace_python = "train:step";
  s.options.trace_python_min_s = 0.001;
  SUBCASE("functions to trace") {
    const Variables env = s.setup();
    CHECK(CommandStartScene::value(env, wire::kTracePythonEnv) == "train:step");
    CHECK(CommandStartScene::value(env, wire::kTracePythonMinEnv) == "0.001000000");
  }
  SUBCASE("switched off") {
    s.options.python_hooks = false;
    const Variables env = s.setup();
    CHECK(CommandStartScene::value(env, wire::kPythonHooksEnv) == "off");
    CHECK(CommandStartScene::value(env, wire::kTracePythonEnv) == "-");
    CHECK(s.manifest.python_reason == "switched off by --no-python-hooks");
    CHECK(s.manifest.preload_path == s.options.preload_path);
  }
  SUBCASE("on, although an outer xpurun has switched them off") {
    ::setenv(wire::kPythonHooksEnv, "off", 1);
    CHECK(s.set(wire::kPythonHooksEnv) == "on");
    ::unsetenv(wire::kPythonHooksEnv);
  }
  SUBCASE("not installed") {
    std::filesystem::remove_all(s.tree + "/" + wire::kPythonDirectory);
    CHECK(s.set("LD_PRELOAD") != "-");
    CHECK(s.manifest.python_reason.starts_with("there is no bootstrap in " + s.tree));
  }
}

TEST_CASE("command start: level full also traces the waits for the GPU, where the program has them") {
  CommandStartScene s;
  s.options.trace_python = "a:b";
  CHECK(s.set(wire::kTracePythonEnv) == "a:b");
  s.options.timing = Timing::full;
  const std::string names = s.set(wire::kTracePythonEnv);
  CHECK(names.starts_with("a:b,?torch.cuda:synchronize,?"));
  CHECK(names.ends_with(",?megatron.core.pipeline_parallel.schedules:backward_step"));
  s.options.trace_python.clear();
  CHECK(s.set(wire::kTracePythonEnv).starts_with("?torch.cuda:synchronize,"));
  s.options.python_hooks = false;
  CHECK(s.set(wire::kTracePythonEnv) == "-");
}

TEST_CASE("command start: collectives are timed by NCCL's plugin if anything is timed") {
  CommandStartScene s;
  s.options.timing = Timing::light;
  CHECK(s.set("NCCL_PROFILER_PLUGIN") == s.tree + "/libxpurun_preload.so");
  s.options.nccl_profiler = NcclProfiler::never;
  CHECK(s.set("NCCL_PROFILER_PLUGIN") == "-");
}
