#include "launcher/heap/heap_looks.h"

#include "common/base/output/log.h"
#include "launcher/heap/python_layout.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <utility>
#include <vector>

namespace xpurun::launcher {

namespace {

constexpr double kTickS = 0.5;
constexpr double kFirstTickS = 0.1;  // while the stacks of a new process have no lines of Python
constexpr int kFirstTries = 30;
constexpr double kWriteS = 10;
// An interpreter is there soon after the start of its program, or never.
constexpr int kMostTries = 120;
// With more segments than this, that of the lowest pid is dropped: a job may restart its ranks for days.
constexpr size_t kMostProcesses = 1024;

int64_t wall_ns() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

}  // namespace

HeapLooks::HeapLooks(Parts parts, Hooks hooks, uint32_t interval)
    : parts_(parts), hooks_(std::move(hooks)), interval_(interval), timer_(parts.loop) {}

void HeapLooks::attach(base::Pid pid, const std::function<void(int)>& answer) {
  if (interval_ == 0) {
    answer(-1);
    return;
  }
  auto memory = SealedMemory::create("xpurun-heap", sizeof(wire::HeapSegment), "memory to share with a rank");
  if (!memory) {
    base::log_warn("who holds the memory of pid {} is not seen: {}", pid, base::to_line(memory.error()));
    answer(-1);
    return;
  }
  if (const auto known = processes_.find(pid); known != processes_.end()) {
    read(pid, known->second, parts_.loop.now());  // the process calls exec
  }
  auto* segment = static_cast<wire::HeapSegment*>(memory->data());
  segment->magic = wire::kHeapSegmentMagic;
  segment->version = wire::kHeapSegmentVersion;
  segment->bytes = sizeof(wire::HeapSegment);
  segment->interval.store(interval_);
  if (processes_.size() >= kMostProcesses && !processes_.contains(pid)) {
    processes_.erase(processes_.begin());
  }
  Process& kept = processes_[pid];
  kept = {};
  kept.memory = std::move(*memory);
  parts_.places.attach(pid);
  answer(kept.memory.fd());
  kept.memory.close_fd();
  if (!timer_.running()) {
    timer_.after(kFirstTickS, [this] { tick(); });
  }
}

void HeapLooks::tick() {
  const base::MonoNs now = parts_.loop.now();
  for (auto it = processes_.begin(); it != processes_.end();) {
    it = read(it->first, it->second, now) ? std::next(it) : processes_.erase(it);
  }
  if (!processes_.empty()) {
    const bool is_new = std::any_of(processes_.begin(), processes_.end(), [](const auto& one) {
      return one.second.tries < kFirstTries && one.second.segment()->python.ready.load() == 0;
    });
    timer_.after(is_new ? kFirstTickS : kTickS, [this] { tick(); });
  }
}

bool HeapLooks::read(base::Pid pid, Process& process, base::MonoNs now) {
  const TrackedProcess* p = parts_.table.find(pid);
  const bool is_rank = p != nullptr && p->record.role == model::ProcessRole::rank;
  if (p == nullptr || !p->alive) {
    if (is_rank && is_last_look(process)) {
      write(pid, process);
    }
    return false;
  }
  describe_python(pid, process);
  if (is_rank) {
    ask_for_places(*process.segment(), [&](uint64_t address) { return parts_.places.find(pid, address); });
    if (base::ns_to_s(now - process.read) >= kTickS) {
      process.read = now;
      process.history.add(now, hooks_.steps(p->record.rank), held_by_stack(*process.segment()));
    }
    if (base::ns_to_s(now - process.written) >= kWriteS && is_worth_a_file(process)) {
      write(pid, process);
    }
  }
  return true;
}

int64_t HeapLooks::held_bytes(const Process& process) {
  const HeldByStack held = held_by_stack(*process.segment());
  return std::accumulate(held.begin(), held.end(), int64_t{0});
}

// Nobody asks who holds a few MiB, as each small program does.
bool HeapLooks::is_worth_a_file(const Process& process) {
  constexpr int64_t kLeastBytes = 16 << 20;
  return process.written > 0 || held_bytes(process) >= kLeastBytes;
}

// An interpreter that ends gives its memory back first: then the latest look before is the one that tells.
bool HeapLooks::is_last_look(const Process& process) {
  constexpr double kMostOfIt = 0.9;
  return is_worth_a_file(process) &&
         static_cast<double>(held_bytes(process)) >= kMostOfIt * static_cast<double>(process.written_bytes);
}

void HeapLooks::write(base::Pid pid, Process& process) {
  const TrackedProcess* p = parts_.table.find(pid);
  const base::MonoNs now = parts_.loop.now();
  process.written = now;
  process.written_bytes = held_bytes(process);
  const HeapHistory::Growth growth = process.history.growth();
  model::MemoryLook look;
  look.rank = p->record.rank;
  look.pid = pid;
  look.why = model::LookReason::heap;
  look.step = hooks_.steps(p->record.rank);
  look.steps = growth.steps;
  look.window_us = growth.time / 1000;
  look.at_ns = now;
  look.wall_ns = wall_ns();
  const wire::HeapSegment& memory = *process.segment();
  add_heap_holders(
      memory, held_by_stack(memory), growth.grown,
      [&](uint64_t address) { return parts_.places.find(pid, address); }, look);
  hooks_.keep(std::move(look));
}

void HeapLooks::describe_python(base::Pid pid, Process& process) {
  if (process.tries < kMostTries && process.segment()->python.ready.load() == 0) {
    ++process.tries;
    tell_python_layout(pid, process.segment()->python);
  }
}

void HeapLooks::look() {
  for (auto& [pid, process] : processes_) {
    if (samples(pid)) {
      write(pid, process);
    }
  }
}

void HeapLooks::look(base::Pid pid) {
  if (samples(pid)) {
    write(pid, processes_.at(pid));
  }
}

model::RankSet HeapLooks::ranks() const {
  model::RankSet out;
  for (const auto& [pid, process] : processes_) {
    if (samples(pid)) {
      out.insert(parts_.table.find(pid)->record.rank);
    }
  }
  return out;
}

bool HeapLooks::samples(base::Pid pid) const {
  const TrackedProcess* p = parts_.table.find(pid);
  return processes_.contains(pid) && p != nullptr && p->record.role == model::ProcessRole::rank;
}

void HeapLooks::finish() {
  timer_.stop();
  for (auto& [pid, process] : processes_) {
    if (samples(pid) && is_last_look(process)) {
      write(pid, process);
    }
  }
}

}  // namespace xpurun::launcher
