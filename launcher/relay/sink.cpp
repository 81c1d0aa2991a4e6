#include "launcher/relay/sink.h"

#include <thread>

namespace xpurun::launcher {

namespace {
constexpr size_t kRoomBytes = 4 << 20;
}

Sink::Sink(std::function<void(const Output&)> write, std::function<void()> woken)
    : write_(std::move(write)), woken_(std::move(woken)) {
  // Detached, because a write that hangs could never be joined.
  std::thread([this] { work(); }).detach();
}

bool Sink::has_room() const {
  const std::lock_guard lock(mutex_);
  return queued_ < kRoomBytes;
}

bool Sink::idle() const {
  const std::lock_guard lock(mutex_);
  return queued_ == 0;
}

double Sink::stuck_s() const {
  const std::lock_guard lock(mutex_);
  return writing_since_ == 0 ? 0 : base::ns_to_s(base::mono_ns() - writing_since_);
}

void Sink::push(Output output) {
  if (output.bytes.empty()) {
    return;
  }
  const std::lock_guard lock(mutex_);
  queued_ += output.bytes.size();
  queue_.push_back(std::move(output));
  arrived_.notify_one();
}

void Sink::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    arrived_.wait(lock, [this] { return !queue_.empty(); });
    const Output output = std::move(queue_.front());
    queue_.pop_front();
    writing_since_ = base::mono_ns();
    lock.unlock();
    write_(output);
    lock.lock();
    writing_since_ = 0;
    const bool was_full = queued_ >= kRoomBytes;
    queued_ -= output.bytes.size();
    if ((was_full && queued_ < kRoomBytes) || queued_ == 0) {
      lock.unlock();
      woken_();
      lock.lock();
    }
  }
}

}  // namespace xpurun::launcher
