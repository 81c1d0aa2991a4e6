#include "launcher/nodes/agent/background.h"

#include <sys/eventfd.h>
#include <utility>

namespace xpurun::nodes {

Background::Background() : event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), thread_([this] { work(); }) {}

Background::~Background() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void Background::add(Job job) {
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(job));
  }
  wake_.notify_all();
}

void Background::run_done() {
  uint64_t count = 0;
  [[maybe_unused]] const auto n = ::read(event_.get(), &count, sizeof count);
  std::vector<Done> done;
  {
    const std::lock_guard lock(mutex_);
    done.swap(done_);
  }
  for (const Done& each : done) {
    each();
  }
}

void Background::work() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    if (jobs_.empty()) {
      wake_.wait(lock);
      continue;
    }
    const Job job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    Done done = job();
    lock.lock();
    done_.push_back(std::move(done));
    const uint64_t one = 1;
    [[maybe_unused]] const auto n = ::write(event_.get(), &one, sizeof one);
  }
}

}  // namespace xpurun::nodes
