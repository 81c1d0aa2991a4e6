#include "common/base/os/host.h"

#include <unistd.h>

namespace xpurun::base {

std::string host_name() {
  char name[256] = "";  // HOST_NAME_MAX is 64
  return ::gethostname(name, sizeof name - 1) == 0 && name[0] != '\0' ? name : "localhost";
}

}  // namespace xpurun::base
