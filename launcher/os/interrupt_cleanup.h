// Removes a temporary directory when the program is interrupted (INT, TERM, HUP, PIPE), then lets the signal
// end the program. One object at a time; child processes start with the default actions.
#pragma once

#include "common/base/os/fd.h"
#include "common/base/os/temporary_directory.h"

#include <csignal>
#include <memory>
#include <string>
#include <thread>
#include <utility>

namespace xpurun::launcher {

// While it lives, the signals that InterruptCleanup handles wait: for the time from the creation of a
// directory to its cleanup. One thread.
class HeldInterrupts {
 public:
  HeldInterrupts();
  HeldInterrupts(const HeldInterrupts&) = delete;
  HeldInterrupts& operator=(const HeldInterrupts&) = delete;
  ~HeldInterrupts();

 private:
  sigset_t before_{};
};

class InterruptCleanup {
 public:
  explicit InterruptCleanup(std::string directory);
  InterruptCleanup(const InterruptCleanup&) = delete;
  InterruptCleanup& operator=(const InterruptCleanup&) = delete;
  ~InterruptCleanup();

 private:
  void wait();

  std::string directory_;
  base::UniqueFd signalled_;  // one byte a signal, its number; 0 ends the thread
  std::thread thread_;
};

// A temporary directory that is removed at its end and on an interrupt, from its creation on.
class ScratchDirectory {
 public:
  static base::Result<std::unique_ptr<ScratchDirectory>> create(const std::string& prefix);
  explicit ScratchDirectory(base::TemporaryDirectory made) : cleanup_(made.path()), made_(std::move(made)) {}
  const std::string& path() const { return made_.path(); }

 private:
  InterruptCleanup cleanup_;  // ends after the directory
  base::TemporaryDirectory made_;
};

}  // namespace xpurun::launcher
