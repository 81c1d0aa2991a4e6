// Reads /proc/PID. Every function tolerates a process that vanishes: the result is then an error or empty,
// never partial. The proc root is a parameter so that tests can use a fabricated tree.
#pragma once

#include "common/base/ids.h"
#include "common/base/result.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace xpurun::base {

// Fields of /proc/PID/stat (or task/TID/stat), proc(5).
struct ProcStat {
  Pid pid = 0;
  std::string comm;
  char state = '?';  // R S D T t Z X I
  Pid ppid = 0;
  Pid pgrp = 0;
  Pid session = 0;
  uint64_t minor_faults = 0;    // page faults without I/O, since the start
  uint64_t major_faults = 0;    // page faults with I/O
  uint64_t utime_ticks = 0;     // user CPU time in clock ticks (sysconf(_SC_CLK_TCK))
  uint64_t stime_ticks = 0;     // kernel CPU time in clock ticks
  uint64_t children_ticks = 0;  // CPU time of ended children that were waited for, in clock ticks
  int64_t num_threads = 0;
  uint64_t start_ticks = 0;  // clock ticks after boot; together with the pid, a unique id of the process
  uint64_t rss_pages = 0;
  int processor = -1;  // CPU that it ran on last; -1: unknown
  int exit_code = 0;   // wait status; readable only for a zombie and with ptrace read permission
};

// Clock ticks in seconds.
double ticks_to_s(uint64_t ticks);

// The used fields of /proc/PID/status.
struct ProcStatus {
  std::vector<Pid> ns_pid;  // NSpid: pid in each namespace, outermost first
  Pid tracer_pid = 0;
  uint32_t uid = 0;  // real user id
  uint64_t voluntary_switches = 0;
  uint64_t involuntary_switches = 0;
  uint64_t thread_pending = 0;   // SigPnd: signals queued for this thread, bit N-1 for signal N
  uint64_t process_pending = 0;  // ShdPnd: signals queued for the process
  uint64_t ignored = 0;          // SigIgn
};

// /proc/PID/io; all zero if unreadable.
struct ProcIo {
  uint64_t read_chars = 0;   // bytes passed to read-like calls
  uint64_t write_chars = 0;  // bytes passed to write-like calls
  uint64_t calls = 0;        // read-like and write-like calls
};

// /proc/PID/statm.
struct ProcMemory {
  uint64_t resident_bytes = 0;
  uint64_t private_bytes = 0;  // the resident part that belongs to no file and to no shared memory
};

// /proc/PID/schedstat, in nanoseconds.
struct ProcRunTime {
  uint64_t cpu_ns = 0;    // on a CPU
  uint64_t queue_ns = 0;  // ready to run, but without a CPU
};

class ProcFs {
 public:
  explicit ProcFs(std::string root = "/proc") : root_(std::move(root)) {}

  Result<ProcStat> stat(Pid pid) const;
  Result<ProcStat> thread_stat(Pid pid, Tid tid) const;
  Result<ProcStatus> status(Pid pid) const;
  Result<ProcStatus> thread_status(Pid pid, Tid tid) const;
  ProcIo io(Pid pid) const;
  // Nothing if the process has ended.
  std::optional<ProcMemory> memory(Pid pid) const;
  // Of the main thread. Zeros if the kernel does not count.
  ProcRunTime main_run_time(Pid pid) const;
  std::vector<Tid> threads(Pid pid) const;
  // All processes, in no order.
  std::vector<Pid> processes() const { return numbers_in(root_); }
  // Children of all threads of pid. Uses task/TID/children if the kernel provides it.
  std::vector<Pid> children(Pid pid) const;
  // The same from task/TID/children; empty if the kernel has no such file (CONFIG_PROC_CHILDREN). With
  // `threads` 1, the list of threads is not read.
  std::optional<std::vector<Pid>> listed_children(Pid pid, int64_t threads = 0) const;
  // The children of every process, by one look at all processes.
  std::map<Pid, std::vector<Pid>> children_of_all() const;
  // Arguments split at NUL; empty for kernel threads and zombies.
  std::vector<std::string> cmdline(Pid pid) const;
  // Environment at exec time, split at the first '='. Empty if unreadable.
  std::map<std::string, std::string> environ(Pid pid) const;
  // Target of /proc/PID/exe, or empty.
  std::string exe(Pid pid) const { return link(pid, "exe"); }
  // Target of a symbolic link below /proc/PID, such as "fd/2"; empty on error.
  std::string link(Pid pid, std::string_view name) const;
  // Content of a file below /proc/PID, such as "wchan" or "syscall", without trailing whitespace; empty on
  // error.
  std::string text(Pid pid, std::string_view name) const;

  std::string path(Pid pid, std::string_view name) const;
  const std::string& root() const { return root_; }

 private:
  static std::vector<Pid> numbers_in(const std::string& directory);

  std::string root_;
};

// Parses the content of a stat file. Public for tests, because comm may contain anything, including
// parentheses.
Result<ProcStat> parse_proc_stat(std::string_view text);

}  // namespace xpurun::base
