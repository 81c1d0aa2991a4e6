#include "launcher/doctor/nccl_versions.h"

#include "common/base/tr.h"
#include "common/wire/nccl_profiler.h"

#include <fmt/format.h>

namespace xpurun::launcher {

namespace {

// The texts of wire::kBadNccl, for translation: common/wire cannot include tr.h.
[[maybe_unused]] constexpr std::string_view kTroubles[] = {
    base::later("its profiler interface is known to crash (NVIDIA/nccl issue 2112)"),
    base::later("its profiler costs 4 to 13 % on messages of 128 KiB to 4 MiB (NVIDIA/nccl issue 2355)")};

using base::tr;

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
  const std::string name = tr("NCCL {} at {}", nccl_version_text(code), where);
  const std::string lost =
      tr("times of collectives without events on their streams; hangs and crashes are still found");
  if (v.major != 2) {
    return {.check = "nccl",
            .grade = Grade::warn,
            .text = tr("{}: unknown version", name),
            .lost = lost,
            .remedy = tr("use a later xpurun")};
  }
  if (const char* trouble = wire::trouble_of_nccl(code)) {
    return {.check = "nccl",
            .grade = Grade::warn,
            .text = tr("{}: {}; --nccl-profiler auto does not use it", name, tr(trouble)),
            .lost = lost,
            .remedy = tr("use another release of NCCL")};
  }
  if (v.minor < 23) {
    return {.check = "nccl",
            .grade = Grade::warn,
            .text = tr("{}: no profiler interface (added in 2.23)", name),
            .lost = lost,
            .remedy = tr("use NCCL 2.27 or later")};
  }
  if (v.minor < 27) {
    return {.check = "nccl",
            .grade = Grade::warn,
            .text = tr("{}: its profiler interface {}", name,
                       v.minor < 26 ? tr("does not report when kernels run")
                                    : tr("reports when kernels run by host clocks only")),
            .lost = lost,
            .remedy = tr("use NCCL 2.27 or later")};
  }
  return {.check = "nccl", .text = tr("{}: collectives can be timed by its profiler interface", name)};
}

}  // namespace xpurun::launcher
