#include "launcher/doctor/nccl_versions.h"

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

struct Known {
  int minor;
  int patch;
  std::string_view trouble;
};

// Of NCCL 2.
constexpr Known kBad[] = {
    {30, 3, "its profiler interface is known to crash (NVIDIA/nccl issue 2112)"},
    {31, 2, "its profiler costs 4 to 13 % on messages of 128 KiB to 4 MiB (NVIDIA/nccl issue 2355)"},
};

}  // namespace

std::string nccl_version_text(int code) {
  const Version v = split(code);
  return fmt::format("{}.{}.{}", v.major, v.minor, v.patch);
}

Finding judge_nccl(int code, const std::string& where) {
  const Version v = split(code);
  const std::string name = fmt::format("NCCL {} at {}", nccl_version_text(code), where);
  const std::string lost = "device times of collectives; hangs and crashes are found without them";
  if (v.major != 2) {
    return {.check = "nccl",
            .grade = Grade::warn,
            .text = name + ": not a version that is known here",
            .lost = lost,
            .remedy = "use a later xpurun"};
  }
  for (const Known& bad : kBad) {
    if (v.minor == bad.minor && v.patch == bad.patch) {
      return {.check = "nccl",
              .grade = Grade::warn,
              .text = fmt::format("{}: {}", name, bad.trouble),
              .lost = lost,
              .remedy = "use another release of NCCL"};
    }
  }
  if (v.minor < 23) {
    return {.check = "nccl",
            .grade = Grade::warn,
            .text = name + ": it has no profiler plugin (2.23 has the first)",
            .lost = lost,
            .remedy = "use NCCL 2.27 or later"};
  }
  if (v.minor < 27) {
    return {.check = "nccl",
            .grade = Grade::warn,
            .text = fmt::format("{}: its profiler plugin {}", name,
                                v.minor < 26 ? "does not tell when kernels run"
                                             : "tells when kernels run by host clocks only"),
            .lost = lost,
            .remedy = "use NCCL 2.27 or later"};
  }
  return {.check = "nccl", .text = name + ": its profiler plugin is usable"};
}

}  // namespace xpurun::launcher
