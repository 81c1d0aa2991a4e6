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
constexpr double kUnknownS = 10;  // until the table of processes knows the process, at most
// An interpreter is there soon after the start of its program, or never.
constexpr int kMostTries = 120;
// With more segments than this, that of the lowest pid is dropped: a job may restart its ranks for days.
constexpr size_t kMostProcesses = 1024;

// A worker may be younger than the time over which its rank has grown.
HeldByStack within(HeapHistory::Growth growth, base::MonoNs time) {
  if (growth.time > 0 && time > 0) {
    const double longer = static_cast<double>(time) / static_cast<double>(growth.time);
    for (int64_t& grown : growth.grown) {
      grown = static_cast<int64_t>(static_cast<double>(grown) * longer);
    }
  }
  return growth.grown;
}

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
  kept.attached = parts_.loop.now();
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
  if (parts_.table.find(pid) == nullptr) {
    hooks_.look_at(pid);  // a worker that was forked a moment ago
  }
  const TrackedProcess* p = parts_.table.find(pid);
  if (p == nullptr) {
    return base::ns_to_s(now - process.attached) < kUnknownS;
  }
  if (!p->alive) {
    if (p->record.role == model::ProcessRole::rank && is_last_look(pid, process)) {
      write(pid, process);
    } else if (p->record.role == model::ProcessRole::worker) {
      write_rank_of(*p);
    }
    return false;
  }
  describe_python(pid, process);
  if (samples(pid) || p->record.role == model::ProcessRole::worker) {
    ask_for_places(*process.segment(), [&](uint64_t address) { return parts_.places.find(pid, address); });
    if (base::ns_to_s(now - process.read) >= kTickS) {
      process.read = now;
      process.history.add(now, hooks_.steps(p->record.rank), held_by_stack(*process.segment()));
    }
  }
  if (samples(pid) && base::ns_to_s(now - process.written) >= kWriteS && is_worth_a_file(pid, process)) {
    write(pid, process);
  }
  return true;
}

// While its memory still counts.
void HeapLooks::write_rank_of(const TrackedProcess& worker) {
  for (auto& [pid, process] : processes_) {
    if (samples(pid) && parts_.table.find(pid)->record.rank == worker.record.rank &&
        is_last_look(pid, process)) {
      write(pid, process);
    }
  }
}

std::vector<std::pair<base::Pid, const HeapLooks::Process*>> HeapLooks::workers_of(base::Rank rank) const {
  std::vector<std::pair<base::Pid, const Process*>> out;
  for (const auto& [pid, process] : processes_) {
    const TrackedProcess* p = parts_.table.find(pid);
    if (p != nullptr && p->record.role == model::ProcessRole::worker && p->record.rank == rank) {
      out.emplace_back(pid, &process);
    }
  }
  return out;
}

int64_t HeapLooks::held_bytes(base::Pid pid, const Process& process) const {
  const auto sum = [](const Process& one) {
    const HeldByStack held = held_by_stack(*one.segment());
    return std::accumulate(held.begin(), held.end(), int64_t{0});
  };
  int64_t out = sum(process);
  for (const auto& [worker, of_worker] : workers_of(parts_.table.find(pid)->record.rank)) {
    out += sum(*of_worker);
  }
  return out;
}

// Nobody asks who holds a few MiB, as each small program does.
bool HeapLooks::is_worth_a_file(base::Pid pid, const Process& process) const {
  constexpr int64_t kLeastBytes = 16 << 20;
  return process.written > 0 || held_bytes(pid, process) >= kLeastBytes;
}

// An interpreter that ends gives its memory back first: then the latest look before is the one that tells.
bool HeapLooks::is_last_look(base::Pid pid, const Process& process) const {
  constexpr double kMostOfIt = 0.9;
  return is_worth_a_file(pid, process) && static_cast<double>(held_bytes(pid, process)) >=
                                              kMostOfIt * static_cast<double>(process.written_bytes);
}

void HeapLooks::write(base::Pid pid, Process& process) {
  const TrackedProcess* p = parts_.table.find(pid);
  const base::MonoNs now = parts_.loop.now();
  process.written = now;
  process.written_bytes = held_bytes(pid, process);
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
  HeapHolders holders(look);
  const auto add = [&](model::MemoryCategory category, base::Pid of, const wire::HeapSegment& memory,
                       const HeldByStack& grown) {
    holders.add(category, memory, held_by_stack(memory), grown,
                [this, of](uint64_t address) { return parts_.places.find(of, address); });
  };
  add(model::MemoryCategory::heap, pid, *process.segment(), growth.grown);
  for (const auto& [worker, of_worker] : workers_of(look.rank)) {
    add(model::MemoryCategory::workers, worker, *of_worker->segment(),
        within(of_worker->history.growth(), growth.time));
  }
  holders.finish();
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
    if (samples(pid) && is_last_look(pid, process)) {
      write(pid, process);
    }
  }
}

}  // namespace xpurun::launcher
