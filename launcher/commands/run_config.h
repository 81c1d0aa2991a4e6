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
  bool found = false;
};

struct RunConfig {
  Settings settings;
  std::vector<ConfigFile> files;           // in order of precedence
  std::map<std::string, std::string> env;  // of this process
};

// `first` has the highest precedence: the command line.
base::Result<RunConfig> run_config(Settings first = {});

}  // namespace xpurun::launcher
