// SealedMemory: a memfd that the supervisor shares with one process of the job, all zero at first. Sealed
// against shrinking, so that the process cannot cause SIGBUS here. The mapping outlives the process.
#pragma once

#include "common/base/os/fd.h"
#include "common/base/result.h"

#include <cstddef>
#include <string>

namespace xpurun::launcher {

class SealedMemory {
 public:
  SealedMemory() = default;
  // `name`: of the memfd; `what`: for the error, "memory to share with a rank".
  static base::Result<SealedMemory> create(const char* name, size_t bytes, const std::string& what);
  SealedMemory(SealedMemory&& other) noexcept;
  SealedMemory& operator=(SealedMemory&& other) noexcept;
  SealedMemory(const SealedMemory&) = delete;
  ~SealedMemory();

  // The descriptor to send; -1 after close_fd().
  int fd() const { return fd_.get(); }
  void close_fd() { fd_.reset(); }
  void* data() const { return data_; }

 private:
  base::UniqueFd fd_;
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace xpurun::launcher
