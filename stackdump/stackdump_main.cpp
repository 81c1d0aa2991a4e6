// xpurun-stackdump: dumps one process and exits. The protocol on standard output is described in
// docs/stackdump.md; the supervisor reads it.
#include "common/base/io.h"
#include "common/base/strings.h"
#include "common/model/redact.h"
#include "stackdump/options.h"
#include "stackdump/process_dump.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <malloc.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

namespace {

namespace base = xpurun::base;
namespace model = xpurun::model;
using xpurun::stackdump::Options;
using xpurun::stackdump::ProcessDump;

constexpr int kNiceness = -15;

// A reader that went away is no reason to leave a dump unwritten.
void say(std::string_view line) {
  if (!base::write_all(STDOUT_FILENO, line)) {
    base::write_all(STDERR_FILENO, "xpurun-stackdump: standard output is closed\n");
  }
}

int give_up(const base::Error& error) {
  std::string line = base::to_line(error);
  if (!error.cause.empty()) {
    line += "; " + error.cause;
  }
  if (!error.hint.empty()) {
    line += "; try: " + error.hint;
  }
  line = base::sanitize(line);
  fmt::print(stderr, "xpurun-stackdump: {}{}\n", line,
             error.id.empty() ? "" : fmt::format(" [{}]", error.id));
  say(fmt::format("done failed {}{}\n", line, error.id.empty() ? "" : fmt::format(" [{}]", error.id)));
  return 1;
}

// Until one byte or end of file.
void wait_at_barrier() {
  say("ready\n");
  char byte = 0;
  while (::read(STDIN_FILENO, &byte, 1) < 0 && errno == EINTR) {
  }
}

std::string host_name() {
  char name[256] = "";
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "";
}

int run(const Options& options) {
  auto dump = ProcessDump::prepare(options.target);
  if (!dump) {
    return give_up(dump.error());
  }
  if (options.barrier) {
    wait_at_barrier();
  }
  (*dump)->copy();
  // From here on nobody waits for us: what is being trained goes first.
  ::setpriority(PRIO_PROCESS, 0, 0);
  say(fmt::format("stopped {} {}\n", (*dump)->stop_ns(), (*dump)->pause_ns()));
  model::ProcessStacks stacks = (*dump)->resolve();
  stacks.host = options.host.empty() ? host_name() : options.host;
  stacks.rank = options.rank;
  stacks.local_rank = options.local_rank;
  stacks.role = options.role;
  stacks.cmdline = model::redact_argv(stacks.cmdline);
  const auto text = to_json(stacks).dump(1, ' ', false, nlohmann::json::error_handler_t::replace);
  if (auto written = base::write_file_atomic(options.out, text + '\n'); !written) {
    return give_up(written.error());
  }
  const std::string reason = base::sanitize(stacks.reason);
  if (!reason.empty()) {
    fmt::print(stderr, "xpurun-stackdump: {}\n", reason);
  }
  say(fmt::format("done {}{}{}\n", name_of(stacks.status), reason.empty() ? "" : " ", reason));
  return stacks.status == model::DumpStatus::failed ? 1 : 0;
}

}  // namespace

// What is freed stays with us, and threads share one heap: no page fault and no mprotect while a process is
// stopped.
void keep_heap() {
  constexpr int kSpare = 8 << 20;
  ::mallopt(M_ARENA_MAX, 1);
  ::mallopt(M_TOP_PAD, kSpare);
  ::mallopt(M_TRIM_THRESHOLD, kSpare * 8);
  ::mallopt(M_MMAP_THRESHOLD, kSpare);
}

int main(int argc, char** argv) {
  keep_heap();
  // A supervisor that dies must not leave us holding its ranks.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::signal(SIGPIPE, SIG_IGN);
  // While we hold a rank we should not queue behind its siblings. Refused without privilege; then we do.
  ::setpriority(PRIO_PROCESS, 0, kNiceness);
  const auto options = xpurun::stackdump::parse_options({argv + 1, argv + argc});
  if (!options) {
    fmt::print(stderr, "xpurun-stackdump: {}\n", base::to_line(options.error()));
    return 125;
  }
  return run(*options);
}
