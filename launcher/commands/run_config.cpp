#include "launcher/commands/run_config.h"

#include "common/base/os/io.h"

namespace xpurun::launcher {

base::Result<RunConfig> run_config(Settings first) {
  const CommandSpec& run = *find_command("run");
  RunConfig out{.settings = std::move(first), .files = {}, .env = process_environment()};
  add_environment(out.settings, run, out.env);
  const auto add = [&](const std::string& path, FileLevel level) {
    out.files.push_back({path, base::file_exists(path)});
    return add_config_file(out.settings, run, path, level);
  };
  XPURUN_TRY(add("xpurun.conf", FileLevel::project));
  if (const std::string path = user_config_path(out.env); !path.empty()) {
    XPURUN_TRY(add(path, FileLevel::user));
  }
  return out;
}

}  // namespace xpurun::launcher
