// ChildLists: the children of processes during one walk over /proc.
#pragma once

#include "common/base/os/procfs.h"

#include <map>
#include <optional>
#include <vector>

namespace xpurun::launcher {

class ChildLists {
 public:
  explicit ChildLists(const base::ProcFs& proc) : proc_(proc) {}

  // `threads`: number of the process's threads, 0 if unknown.
  std::vector<base::Pid> of(base::Pid pid, int64_t threads) {
    if (!all_) {
      if (auto listed = proc_.listed_children(pid, threads)) {
        return std::move(*listed);
      }
      // The kernel has no lists of children: one look at all processes of the host serves the whole walk.
      all_ = proc_.children_of_all();
    }
    const auto it = all_->find(pid);
    return it == all_->end() ? std::vector<base::Pid>() : it->second;
  }

 private:
  const base::ProcFs& proc_;
  std::optional<std::map<base::Pid, std::vector<base::Pid>>> all_;
};

}  // namespace xpurun::launcher
