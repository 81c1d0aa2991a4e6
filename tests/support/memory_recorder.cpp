// memory_recorder PID FILE: writes the memory image of an idle Python process to FILE, and the
// reader's result to standard output.
#include "common/base/os/io.h"
#include "common/base/strings.h"
#include "stackdump/memory/live_memory.h"
#include "stackdump/native/dynamic_symbol.h"
#include "tests/support/python_image.h"

#include <fmt/format.h>

using namespace xpurun;
using namespace xpurun::stackdump;

int main(int argc, char** argv) {
  const auto pid = argc == 3 ? base::parse_int(argv[1]) : std::nullopt;
  if (!pid) {
    fmt::print(stderr, "usage: memory_recorder PID FILE\n");
    return 2;
  }
  LiveMemory live(static_cast<base::Pid>(*pid));
  const auto maps = ProcMaps::read(static_cast<base::Pid>(*pid));
  const PythonLookup found = maps
                                 ? find_python(static_cast<base::Pid>(*pid), *maps, live, LocateEffort::quick)
                                 : PythonLookup{.reason = "no such process"};
  if (!found.runtime) {
    fmt::print(stderr, "memory_recorder: {}\n", found.reason);
    return 1;
  }
  MemoryImage image{.python = {.path = std::string(base::base_name(found.runtime->path))},
                    .runtime = found.runtime->address};
  for (const Mapping& m : maps->all()) {  // the copy of the image that is alive
    if (image.python.image == 0 && m.offset == 0 && m.path == found.runtime->path) {
      const auto symbol = find_dynamic_symbol(live, m.lo, "_PyRuntime");
      image.python.image = symbol && symbol->address == image.runtime ? m.lo : 0;
    }
  }
  RecordingMemory recorder(live);
  const std::string text = read_everything(recorder, image.python, image.runtime);
  image.ranges = recorder.ranges();
  if (auto written = base::write_file_atomic(argv[2], image.pack()); !written) {
    fmt::print(stderr, "memory_recorder: {}\n", base::to_line(written.error()));
    return 1;
  }
  fmt::print("{}", text);
  return 0;
}
