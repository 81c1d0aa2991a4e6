// SpareDescriptors: descriptor numbers kept free for the start of the command. Under a low `ulimit -n`
// everything that xpurun opens beside them (sockets, log, lock) fails instead, which costs a feature and not
// the job.
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
