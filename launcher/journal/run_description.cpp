#include "launcher/journal/run_description.h"

#include "common/base/clock.h"
#include "common/model/secrets/kept_environment.h"
#include "common/model/secrets/redact.h"
#include "launcher/spawn/environment.h"

#include <map>
#include <unistd.h>

namespace xpurun::launcher {

std::string host_name() {
  char buf[256] = {};
  if (::gethostname(buf, sizeof buf - 1) != 0) {
    return "localhost";
  }
  return buf;
}

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
  model::KeptEnvironment kept = model::keep_environment(env);
  manifest.env = std::move(kept.values);
  manifest.env_names = std::move(kept.names);
  manifest.supervisor_pid = ::getpid();
  manifest.hang_timeout_s = options.hang_timeout_s;
  manifest.options = options.origins;
  for (model::OptionOrigin& option : manifest.options) {
    option.value = model::redact_text(option.value);  // may be a command line, or a path with a token
  }
  manifest.verdict.kind = model::VerdictKind::running;
}

}  // namespace xpurun::launcher
