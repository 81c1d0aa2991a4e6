// HostFiles: the kernel's files about the host, below roots that tests replace.
#pragma once

#include "common/base/os/procfs.h"
#include "common/model/evidence/machine.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace xpurun::launcher {

class HostFiles {
 public:
  explicit HostFiles(std::string proc = "/proc", std::string sys = "/sys")
      : proc_root_(std::move(proc)), sys_root_(std::move(sys)) {}

  base::ProcFs proc() const { return base::ProcFs(proc_root_); }
  // Content without the blanks around; empty if there is none. Paths are relative to the root: "net/snmp",
  // "class/net/eth0/operstate".
  std::string proc_text(std::string_view path) const;
  std::string sys_text(std::string_view path) const;
  std::optional<uint64_t> sys_number(std::string_view path) const;
  // Names in a directory, sorted; empty if it cannot be read.
  std::vector<std::string> sys_names(std::string_view directory) const;
  // The target of a symbolic link; empty if it is none.
  std::string sys_link(std::string_view path) const;
  std::string sys_path(std::string_view path) const;

  // Whether these are the files of this host, so that questions to its kernel fit.
  bool is_this_host() const { return sys_root_ == "/sys"; }

  // Why a file cannot be read, as a source that is missing; empty if it can.
  std::optional<model::MissingSource> missing(const std::string& path) const;
  std::string proc_path(std::string_view path) const;

 private:
  std::string proc_root_;
  std::string sys_root_;
};

}  // namespace xpurun::launcher
