// HelperList: the helper processes that the parts of the supervisor have started, so that a child that has
// ended is taken for one of them and not for a process of the job. Event loop's thread only.
#pragma once

#include "common/base/ids.h"
#include "common/base/os/wait_status.h"

#include <functional>
#include <vector>

namespace xpurun::launcher {

class HelperList {
 public:
  struct Owner {
    std::function<bool(base::Pid)> may_own;                   // the pid may be a helper of this part
    std::function<bool(base::Pid, base::WaitStatus)> reaped;  // true if the pid was a helper of this part
  };

  void add(Owner owner) { owners_.push_back(std::move(owner)); }
  // A part that may have several helpers while busy() is true.
  template <typename Part>
  void add_busy(Part& part) {
    add({[&part](base::Pid) { return part.busy(); },
         [&part](base::Pid pid, base::WaitStatus status) { return part.helper_ended(pid, status); }});
  }
  // A part that knows its helper by pid.
  template <typename Part>
  void add_known(Part& part) {
    add({[&part](base::Pid pid) { return part.is_helper(pid); },
         [&part](base::Pid pid, base::WaitStatus status) { return part.helper_ended(pid, status); }});
  }

  bool may_be_helper(base::Pid pid) const;
  // Call for every reaped child. Asks the parts in their order until one owns the pid.
  bool helper_ended(base::Pid pid, base::WaitStatus status) const;

 private:
  std::vector<Owner> owners_;
};

}  // namespace xpurun::launcher
