// ProcMaps: the mappings of a process at one moment, parsed from /proc/PID/maps.
#pragma once

#include "common/base/ids.h"
#include "common/base/result.h"
#include "stackdump/memory/remote_memory.h"

#include <string_view>

namespace xpurun::stackdump {

struct Mapping {
  Addr lo = 0;
  Addr hi = 0;
  bool readable = false;
  bool writable = false;
  bool executable = false;
  uint64_t offset = 0;  // in the file
  std::string device;   // "08:01"
  uint64_t inode = 0;
  std::string path;      // without " (deleted)"; "[stack]", "[vdso]" and so on for special mappings
  bool deleted = false;  // the file is gone or was replaced

  bool is_file() const { return !path.empty() && path[0] == '/'; }
  AddrRange range() const { return {lo, hi}; }
};

class ProcMaps {
 public:
  ProcMaps() = default;
  explicit ProcMaps(std::vector<Mapping> mappings);

  static base::Result<ProcMaps> read(base::Pid pid);
  // Unparsable lines are skipped.
  static ProcMaps parse(std::string_view text);

  const std::vector<Mapping>& all() const { return mappings_; }
  const Mapping* find(Addr a) const;

 private:
  std::vector<Mapping> mappings_;  // ascending
};

// In the kernel's format: parse() of the result gives the same mappings.
std::string to_text(const ProcMaps& maps);

}  // namespace xpurun::stackdump
