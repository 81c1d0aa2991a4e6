// While it lives, this process has no free descriptor, or only a few.
#pragma once

#include "common/base/os/fd.h"

#include <doctest/doctest.h>

#include <fcntl.h>
#include <sys/resource.h>
#include <utility>
#include <vector>

namespace xpurun::test {

class NoDescriptors {
 public:
  explicit NoDescriptors(size_t free = 0) {
    REQUIRE(::getrlimit(RLIMIT_NOFILE, &before_) == 0);
    for (size_t i = 0; i < free + 1; ++i) {
      REQUIRE(open_one());
    }
    rlimit fewer = before_;
    fewer.rlim_cur = static_cast<rlim_t>(taken_.back().get()) + 1;
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &fewer) == 0);
    while (open_one()) {
    }
    taken_.resize(taken_.size() - free);
  }
  ~NoDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  NoDescriptors(const NoDescriptors&) = delete;
  NoDescriptors& operator=(const NoDescriptors&) = delete;

 private:
  bool open_one() {
    base::UniqueFd fd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    const bool opened = fd.valid();
    if (opened) {
      taken_.push_back(std::move(fd));
    }
    return opened;
  }

  rlimit before_{};
  std::vector<base::UniqueFd> taken_;
};

}  // namespace xpurun::test
