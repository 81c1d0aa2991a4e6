#include "launcher/machine/cpu/cpu_switches.h"

#include "common/base/os/fd.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <linux/perf_event.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>

namespace xpurun::launcher {

namespace {

// A user may lock 516 KiB for each CPU without privilege.
constexpr size_t kDataPages = 16;
constexpr size_t kMostRings = 256;

// Reads numbers of a record one after another.
class Fields {
 public:
  explicit Fields(std::span<const std::byte> bytes) : left_(bytes) {}

  template <typename T>
  T next() {
    T out{};
    if (left_.size() < sizeof(T)) {
      good_ = false;
      return out;
    }
    std::memcpy(&out, left_.data(), sizeof(T));
    left_ = left_.subspan(sizeof(T));
    return out;
  }
  // Up to the terminating NUL, which is padded to eight bytes.
  std::string text() const {
    const auto* begin = reinterpret_cast<const char*>(left_.data());
    return {begin, ::strnlen(begin, left_.size())};
  }
  bool good() const { return good_; }

 private:
  std::span<const std::byte> left_;
  bool good_ = true;
};

perf_event_attr wanted() {
  perf_event_attr attr{};
  attr.type = PERF_TYPE_SOFTWARE;
  attr.size = sizeof attr;
  attr.config = PERF_COUNT_SW_DUMMY;
  attr.sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME;
  attr.sample_id_all = 1;
  attr.context_switch = 1;
  attr.comm = 1;
  attr.task = 1;  // forks, for the parents of processes that have ended
  attr.use_clockid = 1;
  attr.clockid = CLOCK_MONOTONIC;
  return attr;
}

}  // namespace

SwitchSums::Current& SwitchSums::current(int cpu) {
  return current_.try_emplace(cpu, Current{.since = begin_, .pid = -1}).first->second;
}

void SwitchSums::left(int cpu, base::Pid pid, base::Pid next, base::MonoNs at) {
  Current& now = current(cpu);
  if (now.since > 0 && at > now.since && pid > 0) {
    times_.seconds[pid][cpu] += base::ns_to_s(at - now.since);
  }
  now = {.since = at, .pid = next};
}

void SwitchSums::take(int cpu, std::span<const std::byte> records) {
  while (records.size() >= sizeof(perf_event_header)) {
    perf_event_header header{};
    std::memcpy(&header, records.data(), sizeof header);
    if (header.size < sizeof header || header.size > records.size()) {
      return;
    }
    Fields fields(records.subspan(sizeof header, header.size - sizeof header));
    if (header.type == PERF_RECORD_SWITCH_CPU_WIDE && (header.misc & PERF_RECORD_MISC_SWITCH_OUT) != 0) {
      const auto next = fields.next<int32_t>();
      fields.next<int32_t>();
      const auto own = fields.next<int32_t>();
      fields.next<int32_t>();
      const auto at = static_cast<base::MonoNs>(fields.next<uint64_t>());
      if (fields.good()) {
        left(cpu, own, next, at);
      }
    } else if (header.type == PERF_RECORD_COMM) {
      const auto pid = fields.next<int32_t>();
      const auto tid = fields.next<int32_t>();
      if (fields.good() && pid == tid) {
        times_.seen[pid].command = fields.text();
      }
    } else if (header.type == PERF_RECORD_FORK) {
      const auto pid = fields.next<int32_t>();
      const auto parent = fields.next<int32_t>();
      if (fields.good() && pid != parent) {
        times_.seen[pid].parent = parent;
      }
    } else if (header.type == PERF_RECORD_LOST) {
      current(cpu) = {};
    }
    records = records.subspan(header.size);
  }
}

void SwitchSums::name_new(const base::ProcFs& proc) {
  for (const auto& [pid, cpus] : times_.seconds) {
    CpuTimes::Seen& seen = times_.seen[pid];
    if (!seen.command.empty() && seen.parent > 0) {
      continue;
    }
    if (const auto stat = proc.stat(pid)) {
      seen = {.command = stat->comm, .parent = stat->ppid};
    }
  }
}

CpuTimes SwitchSums::until(base::MonoNs now) const {
  CpuTimes out = times_;
  for (const auto& [cpu, current] : current_) {
    if (current.since > 0 && current.pid > 0 && now > current.since) {
      out.seconds[current.pid][cpu] += base::ns_to_s(now - current.since);
    }
  }
  return out;
}

struct CpuSwitches::Ring {
  int cpu = 0;
  base::UniqueFd fd;
  void* memory = MAP_FAILED;  // a page of the kernel's, then the data
  size_t size = 0;

  Ring(int number, base::UniqueFd descriptor) : cpu(number), fd(std::move(descriptor)) {}
  Ring(Ring&& other) noexcept
      : cpu(other.cpu),
        fd(std::move(other.fd)),
        memory(std::exchange(other.memory, MAP_FAILED)),
        size(other.size) {}
  Ring& operator=(Ring&& other) noexcept {
    std::swap(cpu, other.cpu);
    std::swap(fd, other.fd);
    std::swap(memory, other.memory);
    std::swap(size, other.size);
    return *this;
  }
  ~Ring() {
    if (memory != MAP_FAILED) {
      ::munmap(memory, size);
    }
  }

  bool map() {
    const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
    size = (kDataPages + 1) * page;
    memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
    return memory != MAP_FAILED;
  }

  // Copies what the kernel has written, and gives the room back.
  std::vector<std::byte> take() {
    const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
    auto* control = static_cast<perf_event_mmap_page*>(memory);
    const auto* data = static_cast<const std::byte*>(memory) + page;
    const size_t room = kDataPages * page;
    const uint64_t head = std::atomic_ref<__u64>(control->data_head).load(std::memory_order_acquire);
    const uint64_t tail = control->data_tail;
    std::vector<std::byte> out;
    if (head - tail <= room) {
      for (uint64_t at = tail; at != head;) {
        const size_t from = at % room;
        const size_t length = std::min<uint64_t>(head - at, room - from);
        out.insert(out.end(), data + from, data + from + length);
        at += length;
      }
    }
    std::atomic_ref<__u64>(control->data_tail).store(head, std::memory_order_release);
    return out;
  }
};

CpuSwitches::CpuSwitches(std::vector<Ring> rings, base::MonoNs now) : rings_(std::move(rings)), sums_(now) {}
CpuSwitches::CpuSwitches(CpuSwitches&&) noexcept = default;
CpuSwitches& CpuSwitches::operator=(CpuSwitches&&) noexcept = default;
CpuSwitches::~CpuSwitches() = default;

base::Result<CpuSwitches> CpuSwitches::open(const std::vector<int>& cpus, base::MonoNs now) {
  if (cpus.empty() || cpus.size() > kMostRings) {
    return base::fail(fmt::format("{} CPUs are too many to watch", cpus.size()));
  }
  std::vector<Ring> rings;
  for (const int cpu : cpus) {
    perf_event_attr attr = wanted();
    const long fd = ::syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
    if (fd < 0) {
      return base::fail_errno("perf_event_open");
    }
    Ring& ring = rings.emplace_back(cpu, base::UniqueFd(static_cast<int>(fd)));
    if (!ring.map()) {
      return base::fail_errno("map the ring of perf_event_open");
    }
  }
  return CpuSwitches(std::move(rings), now);
}

void CpuSwitches::drain(const base::ProcFs& proc) {
  for (Ring& ring : rings_) {
    sums_.take(ring.cpu, ring.take());
  }
  sums_.name_new(proc);
}

}  // namespace xpurun::launcher
