// xpurun version: the first line is for programs, the rest for bug reports.
#include "commands/commands.h"
#include "common/base/tr.h"
#include "common/model/dump_manifest.h"
#include "common/model/json/json_text.h"
#include "common/model/run_manifest.h"
#include "common/model/stacks/stack_file.h"
#include "common/model/verdict.h"
#include "common/wire/notice.h"
#include "launcher/spawn/install_paths.h"

#include <boost/version.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <gnu/libc-version.h>
#include <string>
#include <sys/utsname.h>
#include <utility>
#include <vector>

namespace xpurun::launcher {

namespace {

using Facts = std::vector<std::pair<std::string, std::string>>;

std::string found_at(const base::Result<std::string>& path) {
  return path ? *path : base::to_line(path.error());
}

Facts built_with() {
#ifdef __clang__
  constexpr const char* kCompiler = "clang++ " __clang_version__;
#else
  constexpr const char* kCompiler = "g++ " __VERSION__;
#endif
  return {{"compiler", kCompiler},
          {"libraries",
           fmt::format("Boost {}.{}.{}, fmt {}.{}.{}, nlohmann/json {}.{}.{}", BOOST_VERSION / 100000,
                       BOOST_VERSION / 100 % 1000, BOOST_VERSION % 100, FMT_VERSION / 10000,
                       FMT_VERSION / 100 % 100, FMT_VERSION % 100, NLOHMANN_JSON_VERSION_MAJOR,
                       NLOHMANN_JSON_VERSION_MINOR, NLOHMANN_JSON_VERSION_PATCH)},
          {"preload", fmt::format("notice version {}", wire::kNoticeVersion)}};
}

Facts more() {
  utsname host{};
  ::uname(&host);
  return {{"program", found_at(own_program())},
          {"library", found_at(preload_library())},
          {"dumper", found_at(stackdump_program())},
          {"formats", fmt::format("{}, {}, {}, {}", model::kRunSchema, model::kDumpSchema,
                                  model::kStacksSchema, model::kVerdictSchema)},
          {"libc",
           fmt::format("glibc {} (built with {}.{})", ::gnu_get_libc_version(), __GLIBC__, __GLIBC_MINOR__)},
          {"host", fmt::format("{} {} {}", host.sysname, host.release, host.machine)}};
}

}  // namespace

int version_command(const Invocation& call) {
  if (!call.words.operands.empty()) {
    return complain_usage(call, base::cli_text("version takes no arguments"));
  }
  // `xpurun --version` takes the options of run, where --verbose counts.
  const bool own = call.command.name == "version";
  Facts facts = built_with();
  if (call.words.settings.has("verbose")) {
    for (auto& fact : more()) {
      facts.push_back(std::move(fact));
    }
  }
  if (own && call.words.settings.has("json")) {
    nlohmann::ordered_json j;
    j["schema"] = "xpurun.version/1";
    j["version"] = XPURUN_VERSION;
    for (const auto& [name, value] : facts) {
      j[name] = value;
    }
    return print(model::json_text(j, 2) + "\n");
  }
  std::string out = fmt::format("xpurun {}\n", XPURUN_VERSION);
  for (const auto& [name, value] : facts) {
    out += fmt::format("{:<11} {}\n", name, value);
  }
  return print(out);
}

}  // namespace xpurun::launcher
