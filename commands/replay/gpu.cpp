#include "commands/replay/gpu.h"

#include "common/base/strings.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace xpurun::launcher {

namespace {

constexpr size_t kLeastOverwrite = size_t{64} << 20;
constexpr int kPairs = 32;
constexpr int kOverwrites = 8;

std::string uuid_text(const vendor::Uuid& uuid) {
  std::string out = "GPU-";
  for (size_t i = 0; i < sizeof uuid.bytes; ++i) {
    out += fmt::format("{}{:02x}", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
                       static_cast<unsigned char>(uuid.bytes[i]));
  }
  return out;
}

base::Error no_gpu(std::string what, std::string cause) {
  return {.what = std::move(what),
          .id = "E-NO-GPU",
          .cause = std::move(cause),
          .hint = "xpurun doctor checks the driver; in a container: --gpus all"};
}

}  // namespace

GpuBuffer::~GpuBuffer() {
  if (address_ != 0) {
    driver_->release(address_);
  }
}

void* GpuBuffer::pointer(size_t offset) const {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the libraries take device addresses as pointers
  return reinterpret_cast<void*>(static_cast<uintptr_t>(address_ + offset));
}

base::Result<int> Gpu::count(const vendor::Driver& driver) {
  const int started = driver.init(0);
  int count = 0;
  if (started != 0 && started != vendor::kNoDevice) {
    const char* text = nullptr;
    driver.error_text(started, &text);
    return base::fail(no_gpu("the NVIDIA driver cannot be used",
                             fmt::format("cuInit fails with error {}: {}", started,
                                         text == nullptr ? "unknown" : base::sanitize(text))));
  }
  if (started == vendor::kNoDevice || driver.device_count(&count) != 0 || count < 1) {
    return base::fail(no_gpu("this machine has no GPU that programs may use",
                             "a driver is installed, but it shows no GPU (CUDA_VISIBLE_DEVICES?)"));
  }
  return count;
}

base::Result<std::unique_ptr<Gpu>> Gpu::open(const vendor::Driver& driver, int index) {
  XPURUN_TRY_ASSIGN(const int devices, count(driver));
  if (index < 0 || index >= devices) {
    return base::fail(no_gpu(fmt::format("there is no GPU {}", index),
                             fmt::format("the GPUs of this machine are 0 to {}", devices - 1)));
  }
  std::unique_ptr<Gpu> out(new Gpu(driver));
  XPURUN_TRY(out->set_up(index));
  return out;
}

Gpu::~Gpu() {
  if (context_ == nullptr) {
    return;
  }
  make_current();
  cache_ = GpuBuffer();
  for (const auto& [begin, end] : events_) {
    driver_.event_destroy(begin);
    driver_.event_destroy(end);
  }
  if (stream_ != nullptr) {
    driver_.stream_destroy(stream_);
  }
  driver_.context_release(device_);
}

std::string Gpu::words(int error) const {
  const char* text = nullptr;
  driver_.error_text(error, &text);
  return text == nullptr ? fmt::format("CUDA error {}", error) : base::sanitize(text);
}

base::Status Gpu::check(int error, const char* doing) const {
  return error == 0 ? base::Status()
                    : base::fail(fmt::format("GPU {}: {}: {}", facts_.index, doing, words(error)));
}

base::Status Gpu::set_up(int index) {
  facts_.index = index;
  XPURUN_TRY(check(driver_.device_get(&device_, index), "opening"));
  XPURUN_TRY(check(driver_.context_retain(&context_, device_), "opening"));
  make_current();
  char text[256] = {};
  if (driver_.device_name(text, sizeof text - 1, device_) == 0) {
    facts_.name = base::sanitize(text);
  }
  char bus[32] = {};
  if (driver_.device_bus_id(bus, sizeof bus - 1, device_) == 0) {
    facts_.bus_id = base::sanitize(bus);
  }
  if (vendor::Uuid uuid{}; driver_.device_uuid(&uuid, device_) == 0) {
    facts_.uuid = uuid_text(uuid);
  }
  int version = 0;
  driver_.driver_version(&version);
  facts_.driver = fmt::format("{}.{}", version / 1000, version % 1000 / 10);
  driver_.device_memory(&facts_.memory_bytes, device_);
  int l2 = 0;
  driver_.device_attribute(&l2, vendor::kL2Bytes, device_);
  facts_.l2_bytes = static_cast<size_t>(std::max(l2, 0));
  driver_.device_attribute(&facts_.compute_major, vendor::kComputeMajor, device_);
  return check(driver_.stream_create(&stream_, vendor::kNonBlocking), "making a stream");
}

void Gpu::make_current() {
  driver_.context_set(context_);
}

base::Result<GpuBuffer> Gpu::allocate(size_t bytes) {
  vendor::Address address = 0;
  const int error = driver_.allocate(&address, std::max<size_t>(bytes, 256));
  if (error == vendor::kOutOfMemory) {
    size_t free = 0;
    size_t total = 0;
    driver_.memory_info(&free, &total);
    return base::fail(fmt::format("out of memory of the GPU: needs {} more, {} are free",
                                  base::human_size(bytes), base::human_size(free)));
  }
  XPURUN_TRY(check(error, "allocating memory"));
  return GpuBuffer(driver_, address, bytes);
}

base::Status Gpu::fill(const GpuBuffer& buffer, const std::vector<std::byte>& block) {
  size_t filled = std::min(buffer.bytes(), block.size());
  if (filled == 0) {
    return {};
  }
  XPURUN_TRY(check(driver_.copy_in(buffer.address(), block.data(), filled), "copying data"));
  while (filled < buffer.bytes()) {
    const size_t more = std::min(filled, buffer.bytes() - filled);
    XPURUN_TRY(check(driver_.copy(buffer.address() + filled, buffer.address(), more), "copying data"));
    filled += more;
  }
  // These copies are on the default stream, for which the own stream does not wait.
  return check(driver_.stream_wait(nullptr), "copying data");
}

base::Status Gpu::overwrite_cache(int times) {
  if (cache_.bytes() == 0) {
    XPURUN_TRY_ASSIGN(cache_, allocate(std::max(2 * facts_.l2_bytes, kLeastOverwrite)));
    XPURUN_TRY(measure_overwrite());
  }
  for (int i = 0; i < times; ++i) {
    XPURUN_TRY(
        check(driver_.fill(cache_.address(), 0, cache_.bytes() / 4, stream_), "overwriting the cache"));
  }
  return {};
}

base::Status Gpu::measure_overwrite() {
  XPURUN_TRY(overwrite_cache(kOverwrites));
  XPURUN_TRY(begin(0));
  XPURUN_TRY(overwrite_cache(kOverwrites));
  XPURUN_TRY(end(0));
  for (size_t i = 1; i <= kPairs; ++i) {
    XPURUN_TRY(begin(i));
    XPURUN_TRY(end(i));
  }
  XPURUN_TRY(wait());
  XPURUN_TRY_ASSIGN(const double all, elapsed_ns(0));
  overwrite_ns_ = all / kOverwrites;
  empty_pair_ns_ = std::numeric_limits<double>::max();
  for (size_t i = 1; i <= kPairs; ++i) {
    XPURUN_TRY_ASSIGN(const double pair, elapsed_ns(i));
    empty_pair_ns_ = std::min(empty_pair_ns_, pair);
  }
  return {};
}

base::Status Gpu::record(size_t i, bool is_end) {
  while (events_.size() <= i) {
    std::pair<void*, void*> pair;
    XPURUN_TRY(check(driver_.event_create(&pair.first, 0), "making an event"));
    XPURUN_TRY(check(driver_.event_create(&pair.second, 0), "making an event"));
    events_.push_back(pair);
  }
  return check(driver_.event_record(is_end ? events_[i].second : events_[i].first, stream_),
               "recording an event");
}

base::Status Gpu::begin(size_t i) {
  return record(i, false);
}
base::Status Gpu::end(size_t i) {
  return record(i, true);
}

base::Status Gpu::wait() {
  return check(driver_.stream_wait(stream_), "waiting for the GPU");
}

base::Result<double> Gpu::elapsed_ns(size_t i) {
  float ms = 0;
  XPURUN_TRY(check(driver_.event_elapsed(&ms, events_[i].first, events_[i].second), "reading an event"));
  return static_cast<double>(ms) * 1e6;
}

}  // namespace xpurun::launcher
