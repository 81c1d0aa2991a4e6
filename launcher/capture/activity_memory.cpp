#include "launcher/capture/activity_memory.h"

#include "common/base/strings.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace xpurun::launcher {

void ActivityMemory::Unmap::operator()(wire::CaptureSegment* memory) const {
  ::munmap(memory, sizeof(wire::CaptureSegment));
}

base::Result<ActivityMemory> ActivityMemory::create(double seconds) {
  // Sealed, because a rank that shrank the memfd would kill the supervisor with SIGBUS.
  base::UniqueFd fd(::memfd_create("xpurun-capture", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd || ::ftruncate(fd.get(), sizeof(wire::CaptureSegment)) != 0 ||
      ::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return base::fail_errno("cannot create memory for a capture");
  }
  void* mapped =
      ::mmap(nullptr, sizeof(wire::CaptureSegment), PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (mapped == MAP_FAILED) {
    return base::fail_errno("cannot map memory for a capture");
  }
  // A new memfd has zero pages, which is the initial state. Pages that the rank does not write cost nothing.
  auto* memory = static_cast<wire::CaptureSegment*>(mapped);
  memory->header.magic = wire::kCaptureMagic;
  memory->header.version = wire::kCaptureVersion;
  memory->header.bytes = sizeof(wire::CaptureSegment);
  memory->header.duration_ms.store(static_cast<uint32_t>(std::lround(seconds * 1000)));
  return ActivityMemory(std::move(fd), memory);
}

// The rank owns the number. An invalid value is bounded here.
uint64_t ActivityMemory::records() const {
  return std::min<uint64_t>(memory_->header.records.load(std::memory_order_acquire), wire::kCaptureRecords);
}

std::span<const wire::CapturedRecord> ActivityMemory::take(size_t most) {
  const uint64_t end = std::min<uint64_t>(records(), taken_ + most);
  const uint64_t begin = std::exchange(taken_, std::max(taken_, end));
  return {memory_->records + begin, static_cast<size_t>(taken_ - begin)};
}

uint64_t ActivityMemory::samples() const {
  return std::min<uint64_t>(memory_->header.sampling.samples.load(std::memory_order_acquire),
                            wire::kResourceSamples);
}

std::span<const wire::ResourceSample> ActivityMemory::take_samples(size_t most) {
  const uint64_t end = std::min<uint64_t>(samples(), samples_taken_ + most);
  const uint64_t begin = std::exchange(samples_taken_, std::max(samples_taken_, end));
  return {memory_->samples + begin, static_cast<size_t>(samples_taken_ - begin)};
}

bool ActivityMemory::has_resource(wire::Resource resource) const {
  return (memory_->header.sampling.resources.load(std::memory_order_acquire) >>
              static_cast<uint32_t>(resource) &
          1) != 0;
}

std::string ActivityMemory::metric(wire::Resource resource) const {
  // The rank writes the text, which may lack its terminator.
  const char* text = memory_->header.sampling.metrics[static_cast<size_t>(resource)];
  return base::sanitize(std::string(text, ::strnlen(text, wire::kMetricText)));
}

std::string_view ActivityMemory::name(uint32_t index) const {
  if (index >= wire::kCaptureNames) {
    return {};
  }
  // Copied before the check, because the rank can change the numbers at any time.
  const uint32_t offset = memory_->names[index].offset;
  const uint32_t length = memory_->names[index].length;
  if (offset >= wire::kCaptureText || length > wire::kCaptureText - offset) {
    return {};
  }
  return {memory_->text + offset, length};
}

}  // namespace xpurun::launcher
