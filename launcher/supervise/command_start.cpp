#include "launcher/supervise/command_start.h"

#include "common/base/os/io.h"
#include "common/base/output/log.h"
#include "common/wire/notice.h"
#include "common/wire/python.h"
#include "launcher/spawn/command_spawner.h"
#include "launcher/spawn/environment.h"
#include "launcher/spawn/install_paths.h"
#include "launcher/spawn/preload_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <climits>
#include <cmath>
#include <cstdlib>
#include <unistd.h>

namespace xpurun::launcher {

namespace {

// The longest wait that the preload library accepts.
constexpr double kLongestCrashWaitS = 3600;

std::string absolute(const std::string& path) {
  char resolved[PATH_MAX];
  // Absolute, because processes of the job may change their directory before they load the library.
  if (::realpath(path.c_str(), resolved) != nullptr) {
    return resolved;
  }
  char cwd[PATH_MAX];
  const bool relative = !path.starts_with('/') && ::getcwd(cwd, sizeof cwd) != nullptr;
  return relative ? fmt::format("{}/{}", cwd, path) : path;
}

// Why no Python process of the job reports exceptions and calls; empty if they do. The library looks for the
// bootstrap in the directory from which it is loaded.
std::string why_no_python(const RunOptions& options, const std::string& loaded_from) {
  if (!options.python_hooks) {
    return "switched off by --no-python-hooks";
  }
  const std::string directory = loaded_from.substr(0, loaded_from.rfind('/'));
  const bool there =
      base::file_exists(fmt::format("{}/{}/sitecustomize.py", directory, wire::kPythonDirectory));
  return there ? std::string()
               : fmt::format("there is no bootstrap in {}/{}", directory, wire::kPythonDirectory);
}

// Waits for the GPU, and passes of a step that no stage covers. "?": where the program lacks the function,
// nothing is said.
constexpr std::string_view kTracedInFull =
    "?torch.cuda:synchronize,?torch.cuda:Event.synchronize,?torch.cuda:Event.wait,"
    "?torch.cuda:Stream.synchronize,?torch.cuda:Stream.wait_event,?torch.cuda:Stream.wait_stream,"
    "?torch.autograd:grad,?megatron.core.pipeline_parallel.schedules:forward_step,"
    "?megatron.core.pipeline_parallel.schedules:backward_step";

std::vector<std::string> with_traced_functions(std::vector<std::string> env, const RunOptions& options) {
  const std::string names = traced_at_start(options);
  if (names.empty()) {
    return env;
  }
  return with_variable(with_variable(std::move(env), wire::kTracePythonEnv, names), wire::kTracePythonMinEnv,
                       fmt::format("{:.9f}", options.trace_python_min_s));
}

}  // namespace

std::string traced_at_start(const RunOptions& options) {
  if (options.timing != Timing::full || !options.python_hooks) {
    return options.trace_python;
  }
  return fmt::format("{}{}{}", options.trace_python, options.trace_python.empty() ? "" : ",", kTracedInFull);
}

std::vector<std::string> with_preload_setup(std::vector<std::string> env, const RunOptions& options,
                                            const std::string& notice_path, model::RunManifest& manifest) {
  manifest.python_reason = "the preload library, which brings the bootstrap, is not loaded";
  if (!options.preload) {
    manifest.preload_reason = "switched off by --no-preload";
    return env;
  }
  const auto library = options.preload_path.empty() ? preload_library() : options.preload_path;
  if (!library) {
    manifest.preload_reason = base::to_line(library.error());
    base::log_warn("{}: crashes will be seen without their stacks", manifest.preload_reason);
    return env;
  }
  const auto program = resolve_program(options.command.at(0));
  const PreloadPlan plan = plan_preload(absolute(*library), program.value_or(""), env);
  manifest.preload_reason = plan.reason;
  if (plan.is_reported) {
    base::log_warn("{}", plan.reason);
  }
  if (plan.path.empty()) {
    return env;
  }
  manifest.preload_path = *library;
  manifest.python_reason = why_no_python(options, plan.path);
  const double wait_s = std::min(options.crash_wait_s, kLongestCrashWaitS);
  const std::string run = fmt::format("1:{}:{}:{}", ::getpid(), std::lround(wait_s * 1000), notice_path);
  env = with_variable(with_preload(std::move(env), plan.path), wire::kRunEnv, run);
  // An inherited value must not override the option.
  if (!options.python_hooks || std::getenv(wire::kPythonHooksEnv) != nullptr) {
    env = with_variable(std::move(env), wire::kPythonHooksEnv, options.python_hooks ? "on" : "off");
  }
  if (options.python_hooks) {
    env = with_traced_functions(std::move(env), options);
  }
  return with_nccl_profiler(std::move(env), absolute(*library), options.nccl_profiler,
                            options.timing == Timing::off ? Timed::no : Timed::yes);
}

}  // namespace xpurun::launcher
