#include "launcher/spawn/environment.h"

#include "common/base/strings.h"

#include <fmt/format.h>

#include <algorithm>
#include <unistd.h>

namespace xpurun::launcher {

std::vector<std::string> current_environment() {
  std::vector<std::string> out;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    out.emplace_back(*entry);
  }
  return out;
}

std::vector<std::string> with_variable(std::vector<std::string> env, const std::string& name,
                                       const std::string& value) {
  const std::string prefix = name + "=";
  std::erase_if(env, [&](const std::string& entry) { return entry.starts_with(prefix); });
  env.push_back(prefix + value);
  return env;
}

std::vector<std::string> with_preload(std::vector<std::string> env, const std::string& library) {
  std::string value = library;
  for (const std::string& entry : env) {
    if (!entry.starts_with("LD_PRELOAD=")) {
      continue;
    }
    // ld.so separates entries by spaces and colons (ld.so(8)).
    std::string rest = entry.substr(11);
    std::replace(rest.begin(), rest.end(), ' ', ':');
    for (std::string_view other : base::split(rest, ':')) {
      if (!other.empty() && base::base_name(other) != base::base_name(library)) {
        value += fmt::format(":{}", other);
      }
    }
    break;
  }
  return with_variable(std::move(env), "LD_PRELOAD", value);
}

}  // namespace xpurun::launcher
