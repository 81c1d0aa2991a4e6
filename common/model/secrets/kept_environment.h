// What of the environment a run directory keeps. Values are kept of variables that help to understand a run
// and are not made for secrets: those of launchers and of CUDA, NCCL, PyTorch, OpenMP and the like. Of all
// others only the name is kept, because no rule tells every secret by its name.
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

// Whether the variable is on the list of those whose values are kept.
bool is_kept_variable(std::string_view name);
KeptEnvironment keep_environment(const std::map<std::string, std::string>& env);

}  // namespace xpurun::model
