// The settings of `xpurun run` from all sources except the command line, for run, env and doctor.
#pragma once

#include "common/base/result.h"
#include "launcher/options/settings.h"

#include <map>
#include <string>
#include <vector>

namespace xpurun::launcher {

struct ConfigFile {
  std::string path;
  bool found = false;   // and obeyed
  std::string ignored;  // why the file is there but not obeyed; empty: it is obeyed, or not there
};

struct RunConfig {
  Settings settings;
  std::vector<ConfigFile> files;               // in order of precedence
  std::map<std::string, std::string> env;      // of this process
  std::vector<std::string> about_environment;  // a line for each variable of xpu_timer that sets no option

  // The same, and a line for each file that is not obeyed.
  std::vector<std::string> warnings() const;
};

// `first` has the highest precedence: the command line. A file that xpurun finds by itself is obeyed only if
// the user or root owns it and nobody else may write it: with on-hang = kill, the file of a stranger in a
// shared directory would end the user's jobs. The file that --config names is obeyed whoever owns it.
base::Result<RunConfig> run_config(Settings first = {});

// To standard error, a line each.
void write_warnings(const std::vector<std::string>& warnings);

}  // namespace xpurun::launcher
