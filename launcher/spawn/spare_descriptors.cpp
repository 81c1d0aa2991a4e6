#include "launcher/spawn/spare_descriptors.h"

#include <fcntl.h>

namespace xpurun::launcher {

SpareDescriptors::SpareDescriptors(size_t count) {
  while (held_.size() < count) {
    // The current directory instead of /dev/null, which some chroots lack.
    base::UniqueFd fd(::open(".", O_PATH | O_CLOEXEC));
    if (!fd) {
      return;
    }
    held_.push_back(std::move(fd));
  }
}

}  // namespace xpurun::launcher
