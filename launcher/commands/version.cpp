// xpurun version: the first line is for programs, the rest for bug reports.
#include "common/wire/notice.h"
#include "launcher/commands/commands.h"

#include <boost/version.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace xpurun::launcher {

int version_command(const Invocation& call) {
  if (!call.words.operands.empty()) {
    return complain_usage(call, "version takes no arguments");
  }
#ifdef __clang__
  constexpr const char* kCompiler = "clang++ " __clang_version__;
#else
  constexpr const char* kCompiler = "g++ " __VERSION__;
#endif
  return print(fmt::format(
      "xpurun {}\n"
      "compiler    {}\n"
      "libraries   Boost {}.{}.{}, fmt {}.{}.{}, nlohmann/json {}.{}.{}\n"
      "preload     notice version {}\n",
      XPURUN_VERSION, kCompiler, BOOST_VERSION / 100000, BOOST_VERSION / 100 % 1000, BOOST_VERSION % 100,
      FMT_VERSION / 10000, FMT_VERSION / 100 % 100, FMT_VERSION % 100, NLOHMANN_JSON_VERSION_MAJOR,
      NLOHMANN_JSON_VERSION_MINOR, NLOHMANN_JSON_VERSION_PATCH, wire::kNoticeVersion));
}

}  // namespace xpurun::launcher
