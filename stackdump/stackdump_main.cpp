// xpurun-stackdump: dumps one process and exits. The protocol on standard output is described in
// docs/stackdump.md; the supervisor reads it.
#include "common/base/os/host.h"
#include "common/base/os/io.h"
#include "common/base/strings.h"
#include "common/model/json/json_text.h"
#include "common/model/secrets/kept_environment.h"
#include "common/model/secrets/redact.h"
#include "common/model/stacks/stack_file.h"
#include "stackdump/debuggers/cuda_gdb.h"
#include "stackdump/debuggers/gdb_stacks.h"
#include "stackdump/options.h"
#include "stackdump/process_dump.h"
#include "stackdump/resolve/place_names.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
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
constexpr size_t kMostFrames = 64;  // of --look

// The dump file is written even if the reader of standard output has gone.
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

// Blocks until one byte or end of file.
void wait_at_barrier() {
  say("ready\n");
  char byte = 0;
  while (::read(STDIN_FILENO, &byte, 1) < 0 && errno == EINTR) {
  }
}

// Status and reason as the last line, and the exit status.
int finish(const model::ProcessStacks& stacks) {
  const std::string reason = base::sanitize(stacks.reason);
  if (!reason.empty()) {
    fmt::print(stderr, "xpurun-stackdump: {}\n", reason);
  }
  say(fmt::format("done {}{}{}\n", name_of(stacks.status), reason.empty() ? "" : " ", reason));
  return stacks.status == model::DumpStatus::failed ? 1 : 0;
}

base::Status write_stacks(const model::ProcessStacks& stacks, const std::string& path) {
  return base::write_file_atomic(path, model::stacks_file(stacks));
}

int run_from_snapshot(const Options& options) {
  const auto content = base::read_file(options.from_snapshot);
  if (!content) {
    return give_up(content.error());
  }
  auto dump = ProcessDump::load(*content, options.files);
  if (!dump) {
    return give_up(std::move(dump.error()).context(options.from_snapshot));
  }
  const model::ProcessStacks stacks = (*dump)->resolve(options.resolve);
  if (auto written = write_stacks(stacks, options.out); !written) {
    return give_up(written.error());
  }
  return finish(stacks);
}

// Facts that the caller needs and that have no place in the stacks file.
std::string core_facts(const xpurun::stackdump::CoreSource& core) {
  const auto kept = model::keep_environment(core.arguments.environment);
  const nlohmann::json facts{{"parent", core.file.notes().parent}, {"environment", kept.values}};
  return model::json_text(facts);
}

int run_from_core(const Options& options) {
  auto dump = ProcessDump::from_core(options.from_core, options.files, options.target.locals);
  if (!dump) {
    const base::Error& e = dump.error();
    const nlohmann::json told{{"what", base::to_line(e)}, {"cause", e.cause}, {"hint", e.hint}, {"id", e.id}};
    say(fmt::format("error {}\n", model::json_text(told)));
    return give_up(e);
  }
  model::ProcessStacks stacks = (*dump)->resolve(options.resolve);
  stacks.cmdline = model::redact_argv(stacks.cmdline);
  if (auto written = write_stacks(stacks, options.out); !written) {
    return give_up(written.error());
  }
  say(fmt::format("core {}\n", core_facts(*(*dump)->core())));
  return finish(stacks);
}

// Adds data that only other debuggers have. The stacks are already in their file, so this helper may be
// killed at any time.
bool ask_debuggers(model::ProcessStacks& stacks, const Options& options) {
  namespace sd = xpurun::stackdump;
  bool changed = false;
  if (sd::wants_gdb(stacks, options.resolve)) {
    if (const auto threads = sd::gdb_stacks(stacks.pid, options.debuggers)) {
      sd::apply_gdb_stacks(stacks, *threads);
    } else {
      stacks.notes.push_back("no native frames by gdb: " + base::to_line(threads.error()));
    }
    changed = true;
  }
  return sd::add_gpu_kernels(stacks, options.debuggers) || changed;
}

// One line for each address: "place 0x401136 heat.c:88 (residual)".
int name_places(const Options& options) {
  for (const auto& [place, text] :
       xpurun::stackdump::name_places({.pid = options.target.pid, .symbols = options.files.symbols},
                                      options.mappings, options.places, options.resolve)) {
    say(fmt::format("place {:#x} {}\n", place, base::sanitize(text)));
  }
  return 0;
}

// The main thread's frames, innermost first: "frame 0x401136 spin wait_flag" with program or library and
// function, and "circles" if it circles.
int tell_frames(const model::ProcessStacks& stacks) {
  const model::ThreadStack* main = stacks.main_thread();
  for (size_t i = 0; main != nullptr && i < main->frames.size() && i < kMostFrames; ++i) {
    const model::Frame& f = main->frames[i];
    if (f.kind == model::FrameKind::native && !f.inlined) {
      say(fmt::format("frame {:#x} {} {}\n", f.pc, f.module.empty() ? "?" : base::sanitize(f.module),
                      base::sanitize(f.func)));
    }
  }
  if (main != nullptr && main->circles) {
    say("circles\n");
  }
  return finish(stacks);
}

int run(const Options& options) {
  auto dump = ProcessDump::prepare(options.target);
  if (!dump) {
    return give_up(dump.error());
  }
  (*dump)->look_for_symbols_in(options.files.symbols);
  if (options.barrier) {
    wait_at_barrier();
  }
  (*dump)->copy();
  // From here on no process is stopped, so the raised priority ends: the training job goes first.
  ::setpriority(PRIO_PROCESS, 0, 0);
  say(fmt::format("stopped {} {}\n", (*dump)->stop_ns(), (*dump)->pause_ns()));
  if (options.loops) {
    (*dump)->watch_for_loop(options.loop_limit_ns);
  }
  model::ProcessStacks stacks = (*dump)->resolve(options.resolve);
  if (options.look) {
    return tell_frames(stacks);
  }
  stacks.host = options.host.empty() ? base::host_name() : options.host;
  stacks.rank = options.rank;
  stacks.local_rank = options.local_rank;
  stacks.role = options.role;
  stacks.cmdline = model::redact_argv(stacks.cmdline);
  if (auto written = write_stacks(stacks, options.out); !written) {
    return give_up(written.error());
  }
  // The supervisor does not check the file itself, because the file system could block it.
  say("wrote\n");
  if (!options.snapshot.empty()) {
    if (auto saved = (*dump)->save(options.snapshot, stacks); !saved) {
      fmt::print(stderr, "xpurun-stackdump: {}\n", base::sanitize(base::to_line(saved.error())));
    }
  }
  if (ask_debuggers(stacks, options)) {
    if (auto written = write_stacks(stacks, options.out); !written) {
      return give_up(written.error());
    }
  }
  return finish(stacks);
}

}  // namespace

// malloc keeps freed memory, and all threads share one heap: no page faults and no mprotect while a process
// is stopped.
void keep_heap() {
  constexpr int kSpare = 8 << 20;
  ::mallopt(M_ARENA_MAX, 1);
  ::mallopt(M_TOP_PAD, kSpare);
  ::mallopt(M_TRIM_THRESHOLD, kSpare * 8);
  ::mallopt(M_MMAP_THRESHOLD, kSpare);
}

int main(int argc, char** argv) {
  keep_heap();
  // This helper must not hold ranks stopped after the supervisor has died.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::signal(SIGPIPE, SIG_IGN);
  ::unsetenv("DEBUGINFOD_URLS");  // a dump never waits for a server
  // While a rank is stopped, this helper should not queue behind other ranks for a processor. Without
  // privilege the kernel refuses, and the helper queues.
  ::setpriority(PRIO_PROCESS, 0, kNiceness);
  const auto options = xpurun::stackdump::parse_options({argv + 1, argv + argc});
  if (!options) {
    fmt::print(stderr, "xpurun-stackdump: {}\n", base::to_line(options.error()));
    return 125;
  }
  if (!options->places.empty()) {
    return name_places(*options);
  }
  if (!options->from_core.empty()) {
    return run_from_core(*options);
  }
  return options->from_snapshot.empty() ? run(*options) : run_from_snapshot(*options);
}
