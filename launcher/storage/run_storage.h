// RunStorage: a new run directory and the storage that writes it.
#pragma once

#include "launcher/os/event_loop.h"
#include "launcher/storage/opened_dir.h"
#include "launcher/storage/storage.h"
#include "launcher/storage/writer_process.h"

#include <memory>

namespace xpurun::launcher {

class RunStorage {
 public:
  // Forks the writer. Call early, while the process is small and has no thread and no blocked signal.
  // `at_end` runs in the writer once the supervisor has ended, even if it was killed.
  static base::Result<RunStorage> open(const WriterProcess::Open& open_dir,
                                       const std::function<void()>& at_end = {});

  const DirFacts& dir() const { return dir_; }
  // Connects the storage with the loop, which must outlive the storage. Call once.
  std::unique_ptr<Storage> connect(EventLoop& loop);

 private:
  DirFacts dir_;
  WriterProcess writer_;         // absent if fork() failed
  std::optional<RunLock> lock_;  // held by this process if there is no writer
};

}  // namespace xpurun::launcher
