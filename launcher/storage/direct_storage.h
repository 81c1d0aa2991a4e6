// DirectStorage: performs operations at once, in the calling process. Used by tests, and on hosts where
// fork() fails (ulimit -u): a supervisor that a stalled disk can block is better than no run directory.
#pragma once

#include "launcher/os/event_loop.h"
#include "launcher/storage/failed_files.h"
#include "launcher/storage/storage.h"

namespace xpurun::launcher {

class DirectStorage final : public Storage {
 public:
  // Without a loop, results are delivered before submit() returns.
  explicit DirectStorage(EventLoop* loop = nullptr) : loop_(loop) {}

  void submit(FileOperation operation, Done done) override;
  void when_written(double patience_s, std::function<void(Written)> then) override;
  std::string problem() const override { return failed_.problem(); }

 private:
  void later(std::function<void()> what);

  EventLoop* loop_;
  FailedFiles failed_;
};

}  // namespace xpurun::launcher
