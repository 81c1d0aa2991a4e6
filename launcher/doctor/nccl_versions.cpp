#include "launcher/doctor/nccl_versions.h"

#include "common/wire/nccl_profiler.h"

#include <fmt/format.h>

namespace xpurun::launcher {

namespace {

struct Version {
  int major;
  int minor;
  int patch;
};

Version split(int code) {
  return code < 10000 ? Version{code / 1000, code / 100 % 10, code % 100}
                      : Version{code / 10000, code / 100 % 100, code % 100};
}

}  // namespace

std::string nccl_version_text(int code) {
  const Version v = split(code);
  return fmt::format("{}.{}.{}", v.major, v.minor, v.patch);
}

Finding judge_nccl(int code, const std::string& where) {
  const Version v = split(code);
  const std::string name = fmt::format("NCCL {} at {}", nccl_version_text(code), where);
  const std::string lost =
      "times of collectives without events on their streams; hangs and crashes are still found";
  if (v.major != 2) {
    return {.check = "nccl",
            .grade = Grade::warn,
            .text = name + ": unknown version",
            .lost = lost,
            .remedy = "use a later xpurun"};
  }
  if (const char* trouble = wire::trouble_of_nccl(code)) {
    return {.check = "nccl",
            .grade = Grade::warn,
            .text = fmt::format("{}: {}; --nccl-profiler auto does not use it", name, trouble),
            .lost = lost,
            .remedy = "use another release of NCCL"};
  }
  if (v.minor < 23) {
    return {.check = "nccl",
            .grade = Grade::warn,
            .text = name + ": no profiler interface (added in 2.23)",
            .lost = lost,
            .remedy = "use NCCL 2.27 or later"};
  }
  if (v.minor < 27) {
    return {.check = "nccl",
            .grade = Grade::warn,
            .text = fmt::format("{}: its profiler interface {}", name,
                                v.minor < 26 ? "does not report when kernels run"
                                             : "reports when kernels run by host clocks only"),
            .lost = lost,
            .remedy = "use NCCL 2.27 or later"};
  }
  return {.check = "nccl", .text = name + ": collectives can be timed by its profiler interface"};
}

}  // namespace xpurun::launcher
