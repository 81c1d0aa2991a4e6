#include "launcher/nodes/agent/inbox.h"

#include "launcher/nodes/node_limits.h"

#include <sys/eventfd.h>
#include <utility>

namespace xpurun::nodes {

Inbox::Inbox() : event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

void Inbox::push(Received received) {
  // Stamped on arrival: a busy loop would add its delay to the measurement of the other node's clock.
  received.at = base::mono_ns();
  received.wall_ns = base::wall_ns();
  {
    const std::lock_guard lock(mutex_);
    if (received.event == TransportEvent::message) {
      if (bytes_ + received.text.size() > launcher::kMostReceivedBytes) {
        ++dropped_;
        return;
      }
      bytes_ += received.text.size();
    }
    received_.push_back(std::move(received));
  }
  const uint64_t one = 1;
  [[maybe_unused]] const auto n = ::write(event_.get(), &one, sizeof one);
}

void Inbox::count_dropped() {
  const std::lock_guard lock(mutex_);
  ++dropped_;
}

std::vector<Received> Inbox::take() {
  uint64_t count = 0;
  [[maybe_unused]] const auto n = ::read(event_.get(), &count, sizeof count);
  const std::lock_guard lock(mutex_);
  bytes_ = 0;
  return std::exchange(received_, {});
}

uint64_t Inbox::take_dropped() {
  const std::lock_guard lock(mutex_);
  return std::exchange(dropped_, 0);
}

}  // namespace xpurun::nodes
