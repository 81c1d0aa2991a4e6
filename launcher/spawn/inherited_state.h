// InheritedState: process attributes that xpurun changes for itself and restores for the command: two signals
// for failed writes are ignored, and the soft limit of open files is raised.
#pragma once

#include <signal.h>
#include <sys/resource.h>

namespace xpurun::launcher {

class InheritedState {
 public:
  // Records the current attributes of the process.
  InheritedState();

  // SIGPIPE (the reader of a stream is gone) and SIGXFSZ (a file is at RLIMIT_FSIZE) must not end the
  // supervisor: the write fails with EPIPE or EFBIG instead. The soft limit of open files becomes the hard
  // limit.
  void change_for_supervisor() const;
  // Restores the recorded attributes. For a child between fork and exec: async-signal-safe.
  void restore() const;

 private:
  struct sigaction pipe_ {};
  struct sigaction file_size_ {};
  rlimit open_files_{};
};

}  // namespace xpurun::launcher
