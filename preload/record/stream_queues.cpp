#include "preload/record/stream_queues.h"

namespace xpurun::preload {

namespace {
void* const kStreamPerThread = reinterpret_cast<void*>(2);  // cudaStreamPerThread
}

// Streams beyond kStreams share the last queue.
uint32_t StreamQueues::number_of(void* handle, int32_t device) {
  for (uint32_t i = 0; i < count_; ++i) {
    if (streams_[i].handle == handle && streams_[i].device == device) {
      return i;
    }
  }
  if (count_ == kStreams) {
    return kStreams - 1;
  }
  streams_[count_] = {handle, device, 0, 0, 0};
  return count_++;
}

uint32_t StreamQueues::free_place() {
  if (free_ != 0) {
    const uint32_t place = free_;
    free_ = next_[place];
    return place;
  }
  return fresh_ < kItems ? ++fresh_ : 0;
}

bool StreamQueues::push(const Pending& item) {
  const uint32_t place = free_place();
  if (place == 0) {
    return false;
  }
  item_[place] = item;
  next_[place] = 0;
  Stream& queue = streams_[number_of(item.stream, item.device)];
  if (queue.last == 0) {
    queue.first = place;
  } else {
    next_[queue.last] = place;
  }
  queue.last = place;
  ++items_;
  return true;
}

const Pending* StreamQueues::front(const Stream& stream) const {
  return stream.first == 0 ? nullptr : &item_[stream.first];
}

const Pending* StreamQueues::ahead(const Stream& stream, uint32_t* number) const {
  uint32_t place = stream.first;
  uint32_t at = 1;
  while (at < *number && next_[place] != 0) {
    place = next_[place];
    ++at;
  }
  *number = at;
  return place == 0 ? nullptr : &item_[place];
}

bool StreamQueues::is_in_order(const Stream& stream) const {
  const bool shared = count_ == kStreams && &stream == &streams_[kStreams - 1];
  return !shared && stream.handle != kStreamPerThread;
}

void StreamQueues::pop(Stream& stream) {
  const uint32_t place = stream.first;
  stream.first = next_[place];
  if (stream.first == 0) {
    stream.last = 0;
  }
  next_[place] = free_;
  free_ = place;
  --items_;
}

}  // namespace xpurun::preload
