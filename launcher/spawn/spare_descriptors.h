// SpareDescriptors: descriptor numbers reserved for the start of the command. Under a low `ulimit -n`,
// xpurun's own sockets, log and lock fail instead, which costs a feature, not the job.
#pragma once

#include "common/base/os/fd.h"

#include <vector>

namespace xpurun::launcher {

class SpareDescriptors {
 public:
  // Takes up to `count` numbers.
  explicit SpareDescriptors(size_t count);

  size_t held() const { return held_.size(); }
  void release() { held_.clear(); }

 private:
  std::vector<base::UniqueFd> held_;
};

}  // namespace xpurun::launcher
