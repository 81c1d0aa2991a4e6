#include "common/base/os/close_descriptors.h"

#include <charconv>
#include <cstring>
#include <dirent.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <vector>

namespace xpurun::base {

void close_descriptors(unsigned first, unsigned last) {
  if (first <= last && ::syscall(SYS_close_range, first, last, 0) != 0) {
    close_listed(first, last);
  }
}

void close_listed(unsigned first, unsigned last) {
  DIR* directory = ::opendir("/proc/self/fd");
  if (directory == nullptr) {
    return;
  }
  std::vector<int> found;
  while (const dirent* entry = ::readdir(directory)) {
    int fd = -1;
    std::from_chars(entry->d_name, entry->d_name + std::strlen(entry->d_name), fd);
    if (fd >= 0 && static_cast<unsigned>(fd) >= first && static_cast<unsigned>(fd) <= last &&
        fd != ::dirfd(directory)) {
      found.push_back(fd);
    }
  }
  ::closedir(directory);
  for (const int fd : found) {
    ::close(fd);
  }
}

}  // namespace xpurun::base
