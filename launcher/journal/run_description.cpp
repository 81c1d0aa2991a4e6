#include "launcher/journal/run_description.h"

#include "common/base/clock.h"
#include "common/base/os/procfs.h"
#include "common/model/secrets/kept_environment.h"
#include "common/model/secrets/redact.h"
#include "launcher/spawn/environment.h"

#include <map>
#include <unistd.h>

namespace xpurun::launcher {

namespace {

void describe_environment(model::RunManifest& manifest, const std::map<std::string, std::string>& env) {
  model::KeptEnvironment kept = model::keep_environment(env);
  manifest.env = std::move(kept.values);
  manifest.env_names = std::move(kept.names);
}

}  // namespace

void describe_run(model::RunManifest& manifest, const RunOptions& options, const std::string& host) {
  manifest.version = XPURUN_VERSION;
  manifest.host = host;
  manifest.started_wall_ns = base::wall_ns();
  manifest.command = model::redact_argv(options.command);
  char cwd[4096];
  manifest.cwd = ::getcwd(cwd, sizeof cwd) != nullptr ? cwd : "";
  std::map<std::string, std::string> env;
  for (const std::string& entry : current_environment()) {
    const size_t eq = entry.find('=');
    env.emplace(entry.substr(0, eq), eq == std::string::npos ? "" : entry.substr(eq + 1));
  }
  describe_environment(manifest, env);
  manifest.supervisor_pid = ::getpid();
  manifest.hang_timeout_s = options.hang_timeout_s;
  manifest.options = options.origins;
  for (model::OptionOrigin& option : manifest.options) {
    option.value = model::redact_text(option.value);  // a command line, a path with a token
    option.typed = model::redact_text(option.typed);
  }
  manifest.verdict.kind = model::VerdictKind::running;
}

void describe_foreign_job(model::RunManifest& manifest, base::Pid pid) {
  manifest.preload_reason = "the job was started without xpurun";
  manifest.python_reason = manifest.preload_reason;
  manifest.main_pid = pid;
  const base::ProcFs proc;
  manifest.cwd = proc.link(pid, "cwd");
  describe_environment(manifest, proc.environ(pid));
}

}  // namespace xpurun::launcher
