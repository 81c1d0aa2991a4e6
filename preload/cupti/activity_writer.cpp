#include "preload/cupti/activity_writer.h"

#include <string.h>

namespace xpurun::preload::cupti {

namespace {

constexpr size_t kLongestName = 4096;
constexpr char kOther[] = "(other)";  // the first name: stands for all names beyond the limit

// cudaMemcpyKind
constexpr uint8_t kCudaHostToDevice = 1;
constexpr uint8_t kCudaDeviceToHost = 2;
constexpr uint8_t kCudaDeviceToDevice = 3;

// wire::HostMemory
constexpr uint8_t kIsPageable = 1;
constexpr uint8_t kIsPinned = 2;

uint32_t hash_of(const char* text, size_t length) {
  // FNV-1a, 32 bits.
  uint32_t hash = 0x811c9dc5;
  for (size_t i = 0; i < length; ++i) {
    hash = (hash ^ static_cast<uint8_t>(text[i])) * 0x01000193;
  }
  return hash;
}

// "cudaLaunchKernel_v7000" is cudaLaunchKernel since CUDA 7.0.
size_t length_without_version(const char* name) {
  const size_t length = strlen(name);
  size_t at = length;
  while (at > 0 && name[at - 1] >= '0' && name[at - 1] <= '9') {
    --at;
  }
  return at >= 2 && at < length && name[at - 1] == 'v' && name[at - 2] == '_' ? at - 2 : length;
}

bool is_of_cupti(uint32_t overhead) {
  for (const uint32_t kind : kOverheadOfCupti) {
    if (kind == overhead) {
      return true;
    }
  }
  return false;
}

uint8_t cuda_copy_kind(uint8_t kind) {
  switch (kind) {
    case kHostToDevice:
      return kCudaHostToDevice;
    case kDeviceToHost:
      return kCudaDeviceToHost;
    case kDeviceToDevice:
    case kPeerToPeer:
      return kCudaDeviceToDevice;
    default:
      return 0;
  }
}

uint8_t host_memory(uint8_t source, uint8_t destination) {
  if (source == kPageable || destination == kPageable) {
    return kIsPageable;
  }
  return source == kPinned || destination == kPinned ? kIsPinned : 0;
}

const char* name_of_copy(uint8_t kind) {
  switch (kind) {
    case kHostToDevice:
      return "Memcpy HtoD";
    case kDeviceToHost:
      return "Memcpy DtoH";
    case kDeviceToDevice:
      return "Memcpy DtoD";
    case kPeerToPeer:
      return "Memcpy PtoP";
    default:
      return "Memcpy";
  }
}

}  // namespace

void ActivityWriter::begin(wire::CaptureSegment& memory, const Functions& cupti, int64_t to_host_ns,
                           int32_t poller) {
  memset(static_cast<void*>(this), 0, sizeof(*this));
  memory_ = &memory;
  cupti_ = &cupti;
  to_host_ns_ = to_host_ns;
  poller_ = poller;
  name_of(kOther, sizeof(kOther) - 1);
}

uint32_t ActivityWriter::name_of(const char* text, size_t length) {
  if (text == nullptr || length == 0) {
    return 0;
  }
  length = length < kLongestName ? length : kLongestName;
  uint32_t slot = hash_of(text, length) % kHashSlots;
  while (slots_[slot] != 0) {
    const uint32_t index = slots_[slot] - 1u;
    const wire::CapturedName& known = memory_->names[index];
    if (known.length == length && memcmp(memory_->text + known.offset, text, length) == 0) {
      return index;
    }
    slot = (slot + 1) % kHashSlots;
  }
  if (names_ >= wire::kCaptureNames || length > wire::kCaptureText - text_) {
    return 0;
  }
  memcpy(memory_->text + text_, text, length);
  memory_->names[names_] = {text_, static_cast<uint32_t>(length)};
  text_ += static_cast<uint32_t>(length);
  slots_[slot] = static_cast<uint16_t>(++names_);
  // Relaxed, because the release store of the first record with this name publishes it.
  memory_->header.names.store(names_, std::memory_order_relaxed);
  return names_ - 1;
}

uint32_t ActivityWriter::name_of_call(uint32_t callback) {
  if (callback >= kCalls) {
    return 0;
  }
  uint16_t& known = calls_[callback];
  if (known == 0) {
    const char* name = nullptr;
    const bool has_name = cupti_->callback_name(kRuntimeApi, callback, &name) == kSuccess && name != nullptr;
    known = static_cast<uint16_t>((has_name ? name_of(name, length_without_version(name)) : 0) + 1);
  }
  return known - 1u;
}

// Work that had not ended when the buffer was delivered has no end.
void ActivityWriter::put(wire::CapturedRecord record, uint64_t start, uint64_t end) {
  if (start == 0 || end < start) {
    return;
  }
  if (is_full()) {
    memory_->header.no_room.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  record.begin_ns = start + static_cast<uint64_t>(to_host_ns_);
  record.duration_ns = end - start;
  // The record before the count: the supervisor reads the memory while it is being written.
  memory_->records[records_] = record;
  memory_->header.records.store(++records_, std::memory_order_release);
}

void ActivityWriter::take_kernel(const KernelRecord& record) {
  wire::CapturedRecord out{};
  out.kind = static_cast<uint8_t>(wire::CapturedKind::kernel);
  out.name = record.name == nullptr ? 0 : name_of(record.name, strlen(record.name));
  out.correlation = record.correlation;
  out.lane = record.stream;
  put(out, record.start, record.end);
}

void ActivityWriter::take_copy(const CopyRecord& record) {
  wire::CapturedRecord out{};
  out.kind = static_cast<uint8_t>(wire::CapturedKind::copy);
  const char* name = name_of_copy(record.copy);
  out.name = name_of(name, strlen(name));
  out.bytes = record.bytes;
  out.correlation = record.correlation;
  out.lane = record.stream;
  out.copy = cuda_copy_kind(record.copy);
  out.pinned = host_memory(record.source, record.destination);
  put(out, record.start, record.end);
}

void ActivityWriter::take_set(const SetRecord& record) {
  wire::CapturedRecord out{};
  out.kind = static_cast<uint8_t>(wire::CapturedKind::set);
  out.name = name_of("Memset", 6);
  out.bytes = record.bytes;
  out.correlation = record.correlation;
  out.lane = record.stream;
  put(out, record.start, record.end);
}

void ActivityWriter::take_call(const CallRecord& record) {
  // The poller's calls are this library's, not the program's.
  if (static_cast<int32_t>(record.thread) == poller_) {
    return;
  }
  wire::CapturedRecord out{};
  out.kind = static_cast<uint8_t>(wire::CapturedKind::runtime);
  out.name = name_of_call(record.callback);
  out.correlation = record.correlation;
  out.lane = record.thread;
  put(out, record.start, record.end);
}

void ActivityWriter::take_overhead(const OverheadRecord& record) {
  const uint64_t begin = memory_->header.begin_ns.load(std::memory_order_relaxed);
  // Overhead before the begin belongs to the set-up, whose time is measured separately.
  if (is_of_cupti(record.overhead) && record.end > record.start &&
      record.start + static_cast<uint64_t>(to_host_ns_) >= begin) {
    memory_->header.overhead_ns.fetch_add(record.end - record.start, std::memory_order_relaxed);
  }
}

void ActivityWriter::take(const void* record) {
  switch (*static_cast<const uint32_t*>(record)) {
    case kConcurrentKernel:
      return take_kernel(*static_cast<const KernelRecord*>(record));
    case kMemcpy:
      return take_copy(*static_cast<const CopyRecord*>(record));
    case kMemset:
      return take_set(*static_cast<const SetRecord*>(record));
    case kRuntime:
      return take_call(*static_cast<const CallRecord*>(record));
    case kOverhead:
      return take_overhead(*static_cast<const OverheadRecord*>(record));
    default:
      return;
  }
}

}  // namespace xpurun::preload::cupti
