// Background: one thread for work that reads and writes files, in the order of its arrival. The results go
// back to the loop's thread through a descriptor.
#pragma once

#include "common/base/os/fd.h"

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace xpurun::nodes {

class Background {
 public:
  // Handles a result in the loop's thread.
  using Done = std::function<void()>;
  // Runs in the background and returns what follows.
  using Job = std::function<Done()>;

  Background();
  // Waits for the present job and drops the others.
  ~Background();
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  void add(Job job);
  // Readable when run_done() has something.
  int fd() const { return event_.get(); }
  void run_done();

 private:
  void work();

  base::UniqueFd event_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;
  std::deque<Job> jobs_;
  std::vector<Done> done_;
  std::thread thread_;
};

}  // namespace xpurun::nodes
