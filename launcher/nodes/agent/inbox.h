// Inbox: what the threads of the connection hand over to the loop's thread, with a limit on the bytes.
#pragma once

#include "common/base/clock.h"
#include "common/base/os/fd.h"

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace xpurun::nodes {

enum class TransportEvent {
  connected,    // text: URL without secrets; number: bytes of the largest message
  lost,         // text: reason. Another connection is tried at once
  unreachable,  // text: reason. Tried again
  refused,      // text: reason: wrong token, TLS, a file that cannot be read. Tried again
  message,      // text: the bytes
};

struct Received {
  TransportEvent event = TransportEvent::message;
  std::string text;
  uint64_t number = 0;
  base::MonoNs at = 0;  // when it arrived
  int64_t wall_ns = 0;
};

// Any thread.
class Inbox {
 public:
  Inbox();

  // Fills in the time. A message beyond the limit is counted and dropped; other events never are.
  void push(Received received);
  void count_dropped();

  // Readable when take() has something.
  int fd() const { return event_.get(); }
  std::vector<Received> take();
  // Since the last call.
  uint64_t take_dropped();

 private:
  base::UniqueFd event_;
  std::mutex mutex_;
  std::vector<Received> received_;
  size_t bytes_ = 0;
  uint64_t dropped_ = 0;
};

}  // namespace xpurun::nodes
