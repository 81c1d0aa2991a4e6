#include "launcher/collect/python_segments.h"

#include "common/base/strings.h"

#include <algorithm>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace xpurun::launcher {

using model::CallStage;
using model::CollectiveCall;
using model::Communicator;
using wire::PythonSegment;
using wire::TorchCall;
using wire::TorchGroup;

namespace {

constexpr uint32_t kMostRanks = 1 << 20;
constexpr uint32_t kInUse = 1;
constexpr uint32_t kDestroyed = 2;
// Attempts to copy an entry with equal counters before and after. The last copy is used unchecked.
constexpr int kCopies = 3;
// With more segments than this, the oldest is dropped: a job may restart its ranks for days.
constexpr size_t kCrowd = 1024;

std::string_view bytes_at(const PythonSegment& memory, wire::TextRef ref) {
  uint32_t length = 0;
  if (ref == 0 || ref > wire::kTorchTextBytes - sizeof length) {
    return {};
  }
  std::memcpy(&length, memory.text + ref, sizeof length);
  const size_t begin = ref + sizeof length;
  if (length > wire::kTorchTextBytes - begin) {
    return {};
  }
  return {reinterpret_cast<const char*>(memory.text) + begin, length};
}

TorchGroup copy_of(const TorchGroup& shared) {
  TorchGroup copy;
  for (int i = 0; i < kCopies; ++i) {
    std::memcpy(&copy, &shared, sizeof copy);
    TorchGroup again;
    std::memcpy(&again, &shared, sizeof again);
    if (std::memcmp(&copy, &again, sizeof copy) == 0) {
      break;
    }
  }
  return copy;
}

void add_splits(const PythonSegment& memory, uint32_t number, CollectiveCall& call) {
  const wire::TorchSplits& shared = memory.splits[number % wire::kTorchSplits];
  wire::TorchSplits copy;
  std::memcpy(&copy, &shared, sizeof copy);
  const uint32_t after = *static_cast<const volatile uint32_t*>(&shared.number);
  if (copy.number == number && after == number && copy.peers <= wire::kTorchSplitPeers) {
    call.sent.assign(copy.sent, copy.sent + copy.peers);
    call.received.assign(copy.received, copy.received + copy.peers);
  }
}

CollectiveCall call_of(const PythonSegment& memory, const TorchCall& c, base::MonoNs now) {
  CollectiveCall out;
  out.sequence = c.sequence;
  out.op = text_at(memory, c.op);
  out.reduce = text_at(memory, c.reduce);
  out.count = c.count;
  out.dtype = text_at(memory, c.dtype);
  out.root = std::max(c.root, -1);
  out.peer = std::max(c.peer, -1);
  out.tag = c.tag;
  const bool asynchronous = (c.flags & wire::kTorchAsync) != 0;
  out.stage = c.left_ns == 0 ? CallStage::called : !asynchronous ? CallStage::done : CallStage::launched;
  const auto age = [now](uint64_t ns) {
    const auto at = static_cast<base::MonoNs>(ns);
    return at > 0 && at <= now ? base::ns_to_s(now - at) : -1;
  };
  out.age_s = age(c.called_ns);
  out.left_s = age(c.left_ns);
  out.where = {.function = text_at(memory, c.function),
               .file = text_at(memory, c.file),
               .line = static_cast<int>(std::min<uint32_t>(c.line, INT32_MAX))};
  out.thread = text_at(memory, c.thread);
  out.in_handler = (c.flags & wire::kTorchInHandler) != 0;
  out.raised = (c.flags & wire::kTorchRaised) != 0;
  if (out.op == "new_group" || out.op == "split_group") {
    out.group_ranks = text_at(memory, c.detail);
  } else if (c.detail != 0) {
    add_splits(memory, c.detail, out);
  }
  return out;
}

std::vector<base::Rank> members_of(const PythonSegment& memory, const TorchGroup& group) {
  const std::string_view bytes = bytes_at(memory, group.members);
  if (bytes.empty() || group.size > kMostRanks || bytes.size() != size_t{group.size} * sizeof(int32_t)) {
    return {};
  }
  std::vector<base::Rank> out(group.size);
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

std::vector<CollectiveCall> messages_of(const PythonSegment& memory, const TorchGroup& group,
                                        base::MonoNs now) {
  std::vector<CollectiveCall> out;
  const uint64_t known = std::min<uint64_t>(group.point_to_point, wire::kTorchPointToPoint);
  for (uint64_t back = known; back > 0; --back) {
    out.push_back(
        call_of(memory, group.others[(group.point_to_point - back) % wire::kTorchPointToPoint], now));
  }
  return out;
}

Communicator communicator_of(const PythonSegment& memory, const TorchGroup& group, base::MonoNs now) {
  Communicator out;
  out.source = model::CallSource::torch;
  out.id = text_at(memory, group.id);
  const std::string description = text_at(memory, group.description);
  out.name = description.empty() ? text_at(memory, group.name) : description;
  out.rank = std::max(group.rank, -1);
  out.size = static_cast<int>(std::min<uint32_t>(group.size, kMostRanks));
  out.members = members_of(memory, group);
  out.called = group.called;
  out.launched = std::min(group.left, group.called);
  out.done_known = group.has_async == 0;
  out.started = out.done_known ? out.launched : 0;
  out.done = out.started;
  out.comparable = !out.id.empty();
  const uint64_t known = std::min<uint64_t>(group.called, wire::kTorchCollectives);
  for (uint64_t back = known; back > 0; --back) {
    const uint64_t sequence = group.called - back + 1;
    const TorchCall& c = group.collectives[sequence % wire::kTorchCollectives];
    if (c.sequence == sequence) {
      out.calls.push_back(call_of(memory, c, now));
    }
  }
  out.messages = group.point_to_point;
  out.point_to_point = messages_of(memory, group, now);
  return out;
}

// A rank that has destroyed a group is in none of its calls.
void end_all(Communicator& comm) {
  comm.launched = comm.started = comm.done = comm.called;
  comm.done_known = true;
  for (auto* calls : {&comm.calls, &comm.point_to_point}) {
    for (CollectiveCall& call : *calls) {
      call.stage = CallStage::done;
    }
  }
}

}  // namespace

std::string text_at(const PythonSegment& memory, wire::TextRef ref) {
  return base::sanitize(bytes_at(memory, ref));
}

base::Result<int> PythonSegments::attach(base::Pid pid, SpanWriter writer) {
  auto sealed = SealedMemory::create("xpurun-python", sizeof(PythonSegment), "memory to share with Python");
  if (!sealed) {
    return base::fail(sealed.error());
  }
  auto* memory = static_cast<PythonSegment*>(sealed->data());
  memory->magic = wire::kPythonSegmentMagic;
  memory->version = wire::kPythonSegmentVersion;
  memory->bytes = sizeof(PythonSegment);
  memory->records_spans = records_spans_ ? 1 : 0;
  if (writer == SpanWriter::python && changes_ > 0) {
    put_list(*memory);
  }
  // A process has one segment of each writer, so a second one belongs to a new process, or to another program
  // in the same one.
  if (const auto known = processes_.find(pid);
      known != processes_.end() && known->second.memory(writer) != nullptr) {
    processes_.erase(known);
  }
  if (processes_.size() >= kCrowd && !processes_.contains(pid)) {
    processes_.erase(std::min_element(processes_.begin(), processes_.end(), [](const auto& a, const auto& b) {
      return a.second.number < b.second.number;
    }));
  }
  Process& process = processes_[pid];
  process.number = process.number > 0 ? process.number : ++attached_;
  SealedMemory& place = process.segments[static_cast<size_t>(writer)];
  place = std::move(*sealed);
  return place.fd();
}

void PythonSegments::sent(base::Pid pid) {
  if (const auto it = processes_.find(pid); it != processes_.end()) {
    for (SealedMemory& segment : it->second.segments) {
      segment.close_fd();
    }
  }
}

std::vector<base::Pid> PythonSegments::pids() const {
  std::vector<base::Pid> out;
  for (const auto& [pid, process] : processes_) {
    out.push_back(pid);
  }
  return out;
}

PythonSegments::View PythonSegments::find(base::Pid pid) const {
  const auto it = processes_.find(pid);
  return it == processes_.end() ? View{}
                                : View{it->second.memory(SpanWriter::python),
                                       it->second.memory(SpanWriter::marks), it->second.number};
}

void PythonSegments::record_spans(bool wanted) {
  records_spans_ = wanted;
  for (auto& [pid, process] : processes_) {
    for (const SpanWriter writer : {SpanWriter::python, SpanWriter::marks}) {
      if (PythonSegment* memory = process.memory(writer)) {
        memory->records_spans = wanted ? 1 : 0;
      }
    }
  }
}

void PythonSegments::release_spans(base::Pid pid) {
  const auto it = processes_.find(pid);
  if (it == processes_.end()) {
    return;
  }
  // Whole pages only; the texts in front of the spans are still needed.
  constexpr uintptr_t kPage = 4096;
  for (const SpanWriter writer : {SpanWriter::python, SpanWriter::marks}) {
    if (PythonSegment* memory = it->second.memory(writer)) {
      auto* const spans = reinterpret_cast<char*>(memory->spans);
      const size_t before = (kPage - reinterpret_cast<uintptr_t>(spans) % kPage) % kPage;
      const uintptr_t end = reinterpret_cast<uintptr_t>(memory + 1) & ~(kPage - 1);
      // May fail: then the memory stays.
      ::madvise(spans + before, end - reinterpret_cast<uintptr_t>(spans + before), MADV_REMOVE);
    }
  }
}

// The process reads the change before and after the names.
void PythonSegments::put_list(PythonSegment& memory) const {
  __atomic_store_n(&memory.traced_change, 0, __ATOMIC_SEQ_CST);
  memory.traced_bytes = static_cast<uint32_t>(list_.names.size());
  memory.traced_least_ns = static_cast<uint64_t>(list_.least_s * 1e9);
  std::memcpy(memory.traced, list_.names.data(), list_.names.size());
  __atomic_store_n(&memory.traced_change, changes_, __ATOMIC_SEQ_CST);
}

base::Status PythonSegments::trace_functions(const TracedList& list) {
  if (list.names.size() > wire::kTracedBytes) {
    return base::fail("the names of the functions are too long together");
  }
  list_ = list;
  changes_ += (changes_ + 1) % 256 == 0 ? 2 : 1;  // the process looks at the lowest byte
  for (auto& [pid, process] : processes_) {
    if (PythonSegment* memory = process.memory(SpanWriter::python)) {
      put_list(*memory);
    }
  }
  return {};
}

bool PythonSegments::follows_list(base::Pid pid) const {
  const PythonSegment* memory = find(pid).memory;
  return memory != nullptr && memory->traced_taken == changes_;
}

uint32_t PythonSegments::order_look(base::Pid pid, const LookOrder& order) {
  const auto it = processes_.find(pid);
  PythonSegment* memory = it == processes_.end() ? nullptr : it->second.memory(SpanWriter::python);
  if (memory == nullptr) {
    return 0;
  }
  looks_ += (looks_ + 1) % 256 == 0 ? 2 : 1;  // the process looks at the lowest byte
  memory->look_steps = order.steps;
  memory->look_reason = order.reason;
  memory->look_objects = order.objects ? 1 : 0;
  __atomic_store_n(&memory->look_number, looks_, __ATOMIC_SEQ_CST);
  return looks_;
}

void PythonSegments::add_to(model::CollectiveFacts& facts, base::Pid pid, base::Rank rank,
                            base::MonoNs now) const {
  const PythonSegment* memory = find(pid).memory;
  if (memory == nullptr) {
    return;
  }
  std::vector<Communicator> groups = read_groups(*memory, now);
  model::RankCollectives& mine = facts.of(rank, pid);
  std::move(groups.begin(), groups.end(), std::back_inserter(mine.communicators));
  if (const uint32_t size = memory->join_size; size > 0 && size <= kMostRanks) {
    mine.joining = {.rank = std::max(memory->join_rank, base::kNoRank),
                    .size = static_cast<int>(size),
                    .place = text_at(*memory, memory->join_place)};
  }
}

// torch makes the default group first.
std::optional<GroupMember> default_group(const PythonSegment& memory) {
  if (memory.groups == 0) {
    const auto rank = static_cast<uint32_t>(memory.join_rank);  // negative: beyond every size
    const uint32_t size = memory.join_size;
    return rank < size && size <= kMostRanks
               ? std::optional(GroupMember{static_cast<base::Rank>(rank), static_cast<int>(size)})
               : std::nullopt;
  }
  const TorchGroup group = copy_of(memory.group[0]);
  const std::vector<base::Rank> members = members_of(memory, group);
  if (group.state == 0 || group.rank < 0 || static_cast<size_t>(group.rank) >= members.size()) {
    return {};
  }
  const base::Rank rank = members[static_cast<size_t>(group.rank)];
  return rank < 0 ? std::nullopt : std::optional(GroupMember{rank, static_cast<int>(members.size())});
}

std::string default_backend(const PythonSegment& memory) {
  return memory.groups == 0 ? "" : text_at(memory, memory.group[0].backend);
}

std::optional<model::GpuMemory> gpu_memory_in(const PythonSegment& memory, base::MonoNs now) {
  constexpr double kFreshS = 15;
  const uint64_t at = memory.gpu_memory_ns;
  const std::array<uint64_t, 4> bytes{memory.gpu_allocated, memory.gpu_reserved, memory.gpu_peak,
                                      memory.gpu_total};
  const bool sane = std::all_of(bytes.begin(), bytes.end(),
                                [](uint64_t value) { return value <= uint64_t{INT64_MAX} / 2; });
  if (at == 0 || !sane || base::ns_to_s(now - static_cast<base::MonoNs>(at)) > kFreshS) {
    return std::nullopt;
  }
  return model::GpuMemory{.allocated_bytes = static_cast<int64_t>(bytes[0]),
                          .reserved_bytes = static_cast<int64_t>(bytes[1]),
                          .peak_bytes = static_cast<int64_t>(bytes[2]),
                          .total_bytes = static_cast<int64_t>(bytes[3])};
}

std::vector<Communicator> read_groups(const PythonSegment& memory, base::MonoNs now) {
  std::vector<Communicator> out;
  const uint32_t count = std::min(memory.groups, wire::kTorchGroups);
  for (uint32_t i = 0; i < count; ++i) {
    const TorchGroup group = copy_of(memory.group[i]);
    if (group.state == kInUse || group.state == kDestroyed) {
      out.push_back(communicator_of(memory, group, now));
    }
    if (group.state == kDestroyed) {
      end_all(out.back());
    }
  }
  return out;
}

}  // namespace xpurun::launcher
