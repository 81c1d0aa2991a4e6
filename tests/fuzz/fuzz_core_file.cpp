// Input: a core file.
#include "stackdump/process_dump.h"

#include <fmt/format.h>

#include <cstdlib>
#include <sys/mman.h>
#include <unistd.h>

using namespace xpurun::stackdump;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const xpurun::base::UniqueFd file(::memfd_create("core", MFD_CLOEXEC));
  if (!file || ::write(file.get(), data, size) != static_cast<ssize_t>(size)) {
    std::abort();
  }
  auto dump = ProcessDump::from_core(fmt::format("/proc/self/fd/{}", file.get()), {.sysroot = "/nowhere"},
                                     LocalVariables::read);
  if (dump) {
    ResolveSettings settings;
    settings.line_budget_ns = 0;
    (*dump)->resolve(settings);
  }
  return 0;
}
