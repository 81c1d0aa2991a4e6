#include "launcher/spawn/environment.h"

#include "common/base/os/io.h"
#include "common/base/strings.h"
#include "common/wire/logs.h"
#include "common/wire/nccl_profiler.h"
#include "common/wire/notice.h"
#include "common/wire/python.h"
#include "launcher/spawn/preload_reach.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <strings.h>
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
  std::vector<std::string> entries = {library};
  bool has_sanitizer = false;
  for (const std::string& entry : env) {
    if (!entry.starts_with("LD_PRELOAD=")) {
      continue;
    }
    // ld.so separates entries by spaces and colons (ld.so(8)).
    std::string rest = entry.substr(11);
    std::replace(rest.begin(), rest.end(), ' ', ':');
    for (std::string_view other : base::split(rest, ':')) {
      if (!other.empty() && base::base_name(other) != base::base_name(library)) {
        entries.emplace_back(other);
        has_sanitizer = has_sanitizer || is_sanitizer_runtime(other);
      }
    }
    break;
  }
  // A sanitizer's runtime must be the first library.
  if (has_sanitizer) {
    std::rotate(entries.begin(), entries.begin() + 1, entries.end());
  }
  return with_variable(std::move(env), "LD_PRELOAD", fmt::format("{}", fmt::join(entries, ":")));
}

std::vector<std::string> without_preload(std::vector<std::string> env) {
  constexpr std::string_view kLibrary = "libxpurun_preload";
  constexpr std::string_view kPreload = "LD_PRELOAD=";
  std::vector<std::string> out;
  for (std::string& entry : env) {
    const std::string name = entry.substr(0, entry.find('='));
    const bool ours = name == wire::kRunEnv || name == wire::kLogsEnv || name == wire::kPythonHooksEnv ||
                      name == wire::kTracePythonEnv || name == wire::kTracePythonMinEnv ||
                      name == wire::kProfilerEnv ||
                      (name == wire::kNcclPluginEnv && base::base_name(entry).starts_with(kLibrary));
    if (ours) {
      continue;
    }
    if (!entry.starts_with(kPreload)) {
      out.push_back(std::move(entry));
      continue;
    }
    std::string rest = entry.substr(kPreload.size());
    std::replace(rest.begin(), rest.end(), ' ', ':');
    std::vector<std::string> others;
    for (const std::string_view other : base::split(rest, ':')) {
      if (!other.empty() && !base::base_name(other).starts_with(kLibrary)) {
        others.emplace_back(other);
      }
    }
    if (!others.empty()) {
      out.push_back(fmt::format("{}{}", kPreload, fmt::join(others, ":")));
    }
  }
  return out;
}

namespace {

constexpr size_t kLargestConf = 1 << 20;

std::optional<std::string> value_in(const std::vector<std::string>& env, std::string_view name) {
  for (const std::string& entry : env) {
    if (entry.size() > name.size() && entry[name.size()] == '=' && entry.starts_with(name)) {
      return entry.substr(name.size() + 1);
    }
  }
  return std::nullopt;
}

std::vector<std::string> without(std::vector<std::string> env, std::string_view name) {
  std::erase_if(env, [&](const std::string& entry) {
    return entry.size() > name.size() && entry[name.size()] == '=' && entry.starts_with(name);
  });
  return env;
}

// NCCL reads variables that are not in the environment from the first of these files that sets them.
std::optional<std::string> plugin_in_files(const std::vector<std::string>& env) {
  std::vector<std::string> paths = {"/etc/nccl.conf"};
  if (const auto file = value_in(env, "NCCL_CONF_FILE")) {
    paths.insert(paths.begin(), *file);
  } else if (const auto home = value_in(env, "HOME")) {
    paths.insert(paths.begin(), *home + "/.nccl.conf");
  }
  for (const std::string& path : paths) {
    const auto text = base::read_file(path, kLargestConf);
    if (!text) {
      continue;
    }
    for (const std::string_view line : base::split(*text, '\n')) {
      if (line.starts_with(wire::kNcclPluginEnv) &&
          line.substr(std::size(wire::kNcclPluginEnv) - 1).starts_with('=')) {
        return std::string(line.substr(std::size(wire::kNcclPluginEnv)));
      }
    }
  }
  return std::nullopt;
}

// The plugin recorded by an outer xpurun.
std::string remembered(const std::string& value) {
  for (const std::string_view mode : {wire::kProfilerAuto, wire::kProfilerAlways}) {
    if (value.starts_with(mode)) {
      return value.substr(mode.size());
    }
  }
  return "";
}

}  // namespace

std::vector<std::string> with_nccl_profiler(std::vector<std::string> env, const std::string& library,
                                            NcclProfiler when, Timed timing) {
  auto users = value_in(env, wire::kNcclPluginEnv);
  if (users && base::base_name(*users) == base::base_name(library)) {
    const std::string before = remembered(value_in(env, wire::kProfilerEnv).value_or(""));
    env = without(std::move(env), wire::kNcclPluginEnv);
    users.reset();
    if (!before.empty()) {
      env = with_variable(std::move(env), wire::kNcclPluginEnv, before);
      users = before;
    }
  }
  env = without(std::move(env), wire::kProfilerEnv);
  if (!users) {
    users = plugin_in_files(env);
  }
  const bool none = users && ::strcasecmp(users->c_str(), "none") == 0;
  const bool unwanted = when == NcclProfiler::automatic && (timing == Timed::no || none);
  // NCCL copies the name into a buffer of fixed size.
  if (when == NcclProfiler::never || unwanted || library.size() >= wire::kNcclPluginNameBytes) {
    return env;
  }
  const char* mode = when == NcclProfiler::always ? wire::kProfilerAlways : wire::kProfilerAuto;
  env = with_variable(std::move(env), wire::kProfilerEnv, mode + users.value_or(""));
  return with_variable(std::move(env), wire::kNcclPluginEnv, library);
}

}  // namespace xpurun::launcher
