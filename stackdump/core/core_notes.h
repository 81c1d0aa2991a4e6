// CoreNotes: the notes of a core file: threads with registers, the signal, the mapped files. The file is
// untrusted: sizes are checked, and numbers of threads and mappings are limited.
#pragma once

#include "common/base/ids.h"
#include "stackdump/ptrace/registers.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace xpurun::stackdump {

// From NT_SIGINFO.
struct CoreSignal {
  int number = 0;
  int code = 0;          // si_code
  Addr address = 0;      // si_addr
  base::Pid sender = 0;  // si_pid
};

// One NT_PRSTATUS with the NT_SIGINFO after it.
struct CoreThread {
  base::Tid tid = 0;  // in the process's own PID namespace
  Registers registers;
  uint64_t cpu_ms = 0;
  int signal = 0;  // the kernel sets the fatal signal in the notes of all threads
  std::optional<CoreSignal> info;
};

// One line of NT_FILE.
struct CoreFileMapping {
  AddrRange range;
  uint64_t offset = 0;  // in bytes
  std::string path;     // " (deleted)" at the end if the file had no name any more
};

struct CoreNotes {
  std::vector<CoreThread> threads;  // the thread that got the signal first
  base::Pid pid = 0;                // NT_PRPSINFO, else the first thread; 0: unknown
  base::Pid parent = 0;
  std::string name;       // at most 15 bytes
  std::string arguments;  // joined with blanks, at most 79 bytes
  std::vector<CoreFileMapping> files;
  std::vector<uint64_t> auxv;  // pairs of type and value
};

// Reads bytes at a file offset; false if the file ends before.
using ReadAt = std::function<bool(uint64_t, std::span<std::byte>)>;

// Adds the notes in [offset, offset + size) of the file. Notes that are cut off or unknown are skipped.
void read_core_notes(const ReadAt& read, uint64_t offset, uint64_t size, CoreNotes& notes);

// Value of an AT_ type; 0 if the note has none.
uint64_t auxv_value(const CoreNotes& notes, uint64_t type);

}  // namespace xpurun::stackdump
