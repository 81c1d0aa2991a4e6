// Prints the readings of PositionReader for a process: position_probe PID TIMES INTERVAL_MS. A reading ends
// with the first line outside of the standard library, and the number of lines up to there. The last line has
// the probe's CPU time in microseconds and peak memory in KiB, so that tests can check the budget.
#include "common/base/strings.h"
#include "stackdump/resolve/position.h"

#include <fmt/format.h>

#include <chrono>
#include <sys/resource.h>
#include <thread>

using namespace xpurun;

int main(int argc, char** argv) {
  if (argc != 4) {
    return 2;
  }
  const auto pid = static_cast<base::Pid>(base::parse_int(argv[1]).value_or(0));
  auto reader = stackdump::PositionReader::open(pid);
  if (!reader) {
    fmt::print("error {}\n", base::to_line(reader.error()));
    return 1;
  }
  for (int64_t i = 0; i < base::parse_int(argv[2]).value_or(1); ++i) {
    const auto p =
        reader->read([](std::string_view file) { return file.find("/lib/python3") == std::string::npos; });
    if (!p) {
      fmt::print("error {}\n", base::to_line(p.error()));
      return 1;
    }
    const stackdump::CodeLine user = p->lines.empty() ? stackdump::CodeLine() : p->lines.back();
    fmt::print("{:016x} {} {} {} {} | {} {} {} {}\n", p->fingerprint, p->has_python, p->function, p->file,
               p->line, user.function, user.file, user.line, p->lines.size());
    std::this_thread::sleep_for(std::chrono::milliseconds(base::parse_int(argv[3]).value_or(1)));
  }
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  fmt::print("cost {} {}\n",
             (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1'000'000 + usage.ru_utime.tv_usec +
                 usage.ru_stime.tv_usec,
             usage.ru_maxrss);
  return 0;
}
