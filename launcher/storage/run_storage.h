// RunStorage: a new run directory together with the storage that writes it.
#pragma once

#include "launcher/os/event_loop.h"
#include "launcher/storage/opened_dir.h"
#include "launcher/storage/storage.h"
#include "launcher/storage/writer_process.h"

#include <memory>

namespace xpurun::launcher {

class RunStorage {
 public:
  // Forks the writer: call it early, while there is little to copy, no thread and no blocked signal.
  static base::Result<RunStorage> open(const WriterProcess::Open& open_dir);

  const DirFacts& dir() const { return dir_; }
  // Connects the storage with the loop, which must outlive it. Once.
  std::unique_ptr<Storage> connect(EventLoop& loop);

 private:
  DirFacts dir_;
  WriterProcess writer_;         // none if no process could be forked
  std::optional<RunLock> lock_;  // then it is ours
};

}  // namespace xpurun::launcher
