// The command line of xpurun-stackdump. Only the supervisor writes it, so it is strict and terse.
#pragma once

#include "common/base/ids.h"
#include "common/base/result.h"
#include "stackdump/process_dump.h"

#include <string>
#include <vector>

namespace xpurun::stackdump {

struct Options {
  DumpTarget target;
  std::string out;
  base::Rank rank = base::kNoRank;
  int local_rank = -1;
  model::ProcessRole role = model::ProcessRole::other;
  std::string host;  // empty: this host's name
  ResolveSettings resolve;
  DebuggerSettings debuggers;
  std::string snapshot;                   // also write the copied data to this file
  std::string from_snapshot;              // instead of a process
  std::string from_core;                  // a core file instead of a process
  ModuleFiles files;                      // search places for ELF files
  bool loops = false;                     // also find out whether the main thread circles
  int64_t loop_limit_ns = 1'200'000'000;  // how long a loop that sleeps is followed
  // No file: the frames of the main thread on standard output. --look has `loops`, --look-at-stack does not.
  bool look = false;
  bool barrier = false;  // wait for a byte on standard input before stopping
  // Instead of a dump: names of these addresses of the process, which may have ended, and the lines of its
  // /proc/PID/maps that they need.
  std::vector<Addr> places;
  std::string mappings;
};

// One of --pid, --from-snapshot and --from-core. --place needs --pid and --mapping. Every option but
// --barrier, --locals, --look, --look-at-stack, --loops, --module-calls and --no-stop takes a value:
// "--pid N" or "--pid=N".
base::Result<Options> parse_options(const std::vector<std::string>& args);

}  // namespace xpurun::stackdump
