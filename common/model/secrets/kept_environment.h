// Decides which part of the environment a run directory keeps. Values are kept only for variables that help
// to understand a run and are not meant for secrets: those of launchers, CUDA, NCCL, PyTorch, OpenMP and the
// like. Of all others only the name is kept, because no rule recognises every secret by its name.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace xpurun::model {

struct KeptEnvironment {
  std::map<std::string, std::string> values;  // secrets masked
  std::vector<std::string> names;             // sorted
};

// Whether the variable is on the list of variables with kept values.
bool is_kept_variable(std::string_view name);
KeptEnvironment keep_environment(const std::map<std::string, std::string>& env);

}  // namespace xpurun::model
