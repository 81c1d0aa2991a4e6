// WriterProcess: a fork of the supervisor that does all work on the files of the run directory. A thread
// is not enough: a thread in uninterruptible sleep keeps its whole process from ending, and even close(2) can
// sleep (FUSE sends FLUSH). The writer holds the lock on the directory, so the supervisor has no
// descriptor there. The writer ends when the supervisor's end of the socket is closed and everything received
// is written.
#pragma once

#include "common/base/ids.h"
#include "common/base/os/fd.h"
#include "common/base/result.h"
#include "launcher/storage/opened_dir.h"

#include <functional>

namespace xpurun::launcher {

class WriterProcess {
 public:
  using Open = std::function<base::Result<OpenedDir>()>;

  struct Started;
  // Forks; `open` runs in the fork, and `at_end` once the socket is closed and all is written. Waits at most
  // `patience_s` for `open`. An error without an id means that the process could not be started; every other
  // error is from `open`.
  static base::Result<Started> start(const Open& open, double patience_s,
                                     const std::function<void()>& at_end = {});

  WriterProcess() = default;
  WriterProcess(base::Pid pid, base::UniqueFd socket) : pid_(pid), socket_(std::move(socket)) {}

  base::Pid pid() const { return pid_; }
  int socket() const { return socket_.get(); }  // non-blocking; close-on-exec
  void close() { socket_.reset(); }

 private:
  base::Pid pid_ = 0;
  base::UniqueFd socket_;
};

struct WriterProcess::Started {
  WriterProcess writer;
  DirFacts dir;
};

}  // namespace xpurun::launcher
