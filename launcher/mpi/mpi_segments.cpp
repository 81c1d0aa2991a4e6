#include "launcher/mpi/mpi_segments.h"

#include "common/base/output/log.h"
#include "common/base/strings.h"
#include "common/wire/mpi_functions.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>

namespace xpurun::launcher {

const wire::MpiFunctionInfo& info_of(uint32_t function) {
  return wire::kMpiFunctions[function < wire::kMpiFunctionCount ? function : 0];
}

namespace {

using model::CallStage;
using model::CollectiveCall;
using model::Communicator;
using wire::MpiCall;
using wire::MpiKind;
using wire::MpiSegment;

constexpr int kMostMpiRanks = 1 << 20;
// With more segments than this, that of the lowest pid is dropped: a job may restart its ranks for days.
constexpr size_t kMostProcesses = 4096;
// MPI_Sendrecv of up to this size sends without its receiver, in all libraries.
constexpr uint64_t kEagerBytes = 4096;

struct MpiTypeInfo {
  std::string_view word;
  uint64_t bytes;
};
constexpr MpiTypeInfo kMpiTypes[] = {{"", 0},
#define XPURUN_MPI_TYPE(name, symbol, word, bytes, mpich) {word, bytes},
                                     XPURUN_MPI_TYPES(XPURUN_MPI_TYPE)
#undef XPURUN_MPI_TYPE
};

const MpiTypeInfo& type_of(const MpiCall& call) {
  const uint32_t type = call.type.load();
  return kMpiTypes[type < std::size(kMpiTypes) ? type : 0];
}

// The function may return before its part of the communication has ended.
bool returns_early(MpiKind kind) {
  return kind == MpiKind::async_collective || kind == MpiKind::async_send || kind == MpiKind::async_receive ||
         kind == MpiKind::prepare_send || kind == MpiKind::prepare_receive ||
         kind == MpiKind::prepare_collective;
}

bool is_live(std::atomic<uint32_t> const& state) {
  return state.load(std::memory_order_acquire) == static_cast<uint32_t>(wire::MpiCommState::live);
}

CollectiveCall call_of(const MpiCall& c, CallStage stage, base::MonoNs now) {
  const wire::MpiFunctionInfo& info = info_of(c.function.load());
  CollectiveCall out;
  out.sequence = c.sequence.load();
  out.op = info.op;
  out.name = info.name;
  constexpr std::string_view kInit = "_init";
  if (info.kind == MpiKind::prepare_collective && c.tag.load() == wire::kMpiStarted) {
    out.op.resize(out.op.size() - kInit.size());
    out.name = fmt::format("MPI_Start({})", info.name);
  }
  out.dtype = type_of(c).word;
  // The size of other types is not known, and equal contents may have different counts.
  out.count = out.dtype.empty() ? 0 : c.count.load();
  out.stage = stage;
  const auto called = static_cast<base::MonoNs>(c.called_ns.load());
  out.age_s = called > 0 && called <= now ? base::ns_to_s(now - called) : -1;
  const int peer = c.peer.load();
  if (model::is_message(out.operation())) {
    out.peer = std::max(peer, -1);
    out.tag = std::max(c.tag.load(), model::kAnyTag);
  } else if (info.at.peer != wire::kNoArgument) {
    out.root = std::max(peer, -1);
  }
  return out;
}

// A copy of what a thread does, if the thread has not moved meanwhile.
struct ThreadCopy {
  uint64_t steps = 0;
  uint32_t function = 0;  // 0: outside of MPI
  bool polls = false;     // the latest look for a message found none
};

ThreadCopy copy_of(const wire::MpiThread& thread) {
  ThreadCopy out;
  out.steps = thread.steps.load(std::memory_order_acquire);
  out.function = thread.call.function.load(std::memory_order_acquire);
  out.polls = thread.polled.function.load() != 0 && thread.polled_at.load() == out.steps;
  if (thread.steps.load(std::memory_order_acquire) != out.steps || thread.error.load() != 0) {
    out.function = 0;
  }
  return out;
}

class MpiReader {
 public:
  MpiReader(const MpiSegment& memory, base::MonoNs now, const WorldsOfRank& worlds,
            const PlaceOfCall& place_of)
      : memory_(memory), now_(now), worlds_(worlds), place_of_(place_of) {
    for (size_t i = 0; i < wire::kMpiThreads; ++i) {
      threads_[i] = copy_of(memory.threads[i]);
    }
  }

  std::vector<Communicator> read() {
    std::vector<Communicator> out;
    for (uint32_t i = 0; i < wire::kMpiComms; ++i) {
      if (is_live(memory_.comms[i].state)) {
        out.push_back(communicator(i));
      }
    }
    return out;
  }

 private:
  const MpiSegment& memory_;
  base::MonoNs now_;
  const WorldsOfRank& worlds_;
  const PlaceOfCall& place_of_;
  std::array<ThreadCopy, wire::kMpiThreads> threads_;

  static bool is_pending(const wire::MpiRequest& r) {
    return r.state.load(std::memory_order_acquire) == static_cast<uint32_t>(wire::MpiRequestState::pending);
  }

  // The place of the call that the process was in at its end.
  model::CodeLocation place_of_last(const CollectiveCall& call, const MpiCall& c) const {
    return worlds_.ended && place_of_ && call.stage == CallStage::called ? place_of_(c.caller.load())
                                                                         : model::CodeLocation();
  }

  // Of the kinds of requests.
  static bool is_collective(MpiKind kind) {
    return kind == MpiKind::async_collective || kind == MpiKind::prepare_collective;
  }

  // The thread that waits for the request, or tests it again and again, has done nothing else since.
  bool is_awaited(const wire::MpiRequest& r) const {
    const uint32_t thread = r.thread.load();
    return thread < wire::kMpiThreads && r.waited_at.load() != 0 &&
           r.waited_at.load() == threads_[thread].steps;
  }

  std::string name_of(const wire::MpiRequest& r) const {
    const wire::MpiFunctionInfo& wait = info_of(r.waited_by.load());
    const wire::MpiFunctionInfo& made = info_of(r.call.function.load());
    const bool epoch = made.kind == MpiKind::post || made.kind == MpiKind::access;
    return is_awaited(r) && epoch ? std::string(wait.name)
           : is_awaited(r)        ? fmt::format("{}({})", wait.name, made.name)
                                  : std::string(made.name);
  }

  const wire::MpiRequest* request_of(uint32_t comm, uint64_t sequence) const {
    for (const wire::MpiRequest& r : memory_.requests) {
      if (is_pending(r) && r.call.comm.load() == comm && r.call.sequence.load() == sequence &&
          is_collective(info_of(r.call.function.load()).kind)) {
        return &r;
      }
    }
    return nullptr;
  }

  void add_collectives(uint32_t index, Communicator& out) const {
    const wire::MpiComm& comm = memory_.comms[index];
    out.called = comm.called.load(std::memory_order_acquire);
    out.done = out.called;
    const uint64_t known = std::min<uint64_t>(out.called, wire::kMpiCollectives);
    for (uint64_t sequence = out.called - known + 1; sequence <= out.called && known > 0; ++sequence) {
      const MpiCall& c = comm.collectives[sequence % wire::kMpiCollectives];
      if (c.sequence.load(std::memory_order_acquire) != sequence) {
        continue;
      }
      CollectiveCall call = call_of(c, CallStage::done, now_);
      if (comm.open.load() != 0 && sequence == out.called) {
        call.stage = CallStage::called;
      } else if (returns_early(info_of(c.function.load()).kind)) {
        if (const wire::MpiRequest* r = request_of(index, sequence)) {
          call.stage = is_awaited(*r) ? CallStage::called : CallStage::launched;
          call.name = name_of(*r);
        }
      }
      if (call.stage == CallStage::called) {
        out.done = std::min(out.done, sequence - 1);
      }
      call.where = place_of_last(call, c);
      if (c.sequence.load(std::memory_order_acquire) == sequence) {
        out.calls.push_back(std::move(call));
      }
    }
    // What one rank has not waited for keeps it from nothing.
    out.launched = out.called;
    out.started = out.called;
    out.done_known = true;
  }

  // The number of the next message that a receive of this source and tag would get; 0: not known.
  uint64_t next_receive(uint32_t comm, const CollectiveCall& call) const {
    if (call.peer < 0 || call.tag < 0) {
      return 0;
    }
    const uint64_t key = wire::channel_key({comm, true, call.peer, call.tag});
    for (const wire::MpiChannel& channel : memory_.channels) {
      if (channel.key.load() == key) {
        return channel.started.load() + 1;
      }
    }
    return 1;
  }

  void add_open(uint32_t comm, const MpiCall& c, Communicator& out, bool looks = false) const {
    if (c.comm.load() != comm || c.peer.load() == wire::kMpiNoRank) {
      return;
    }
    CollectiveCall call = call_of(c, CallStage::called, now_);
    call.where = place_of_last(call, c);
    if (looks) {
      call.sequence = next_receive(comm, call);
    }
    out.point_to_point.push_back(std::move(call));
  }

  bool holds_exclusively(uint32_t window, int target) const {
    return std::any_of(std::begin(memory_.locks), std::end(memory_.locks), [&](const wire::MpiLock& lock) {
      return lock.window.load() == window && lock.target.load() == target && lock.exclusive.load() != 0;
    });
  }

  void add_lock_call(uint32_t comm, const MpiCall& c, Communicator& out) const {
    if (c.comm.load() != comm) {
      return;
    }
    CollectiveCall call = call_of(c, CallStage::called, now_);
    call.sequence = 1;
    call.peer = std::max(c.peer.load(), -1);
    call.root = -1;
    call.exclusive = info_of(c.function.load()).kind == MpiKind::lock
                         ? c.tag.load() == 1
                         : holds_exclusively(c.window.load(), call.peer);
    out.point_to_point.push_back(std::move(call));
  }

  void add_locks(uint32_t comm, Communicator& out) const {
    for (const wire::MpiLock& lock : memory_.locks) {
      const uint32_t window = lock.window.load();
      if (window > 0 && window <= wire::kMpiWindows && memory_.windows[window - 1].comm.load() == comm) {
        out.locks.push_back(
            {.target = std::max(lock.target.load(), -1), .exclusive = lock.exclusive.load() != 0});
      }
    }
  }

  // Each leader sends the other one a message.
  void add_messages_of_leader(uint32_t comm, const wire::MpiThread& thread, Communicator& out) const {
    for (const char* op : {"send", "recv"}) {
      if (thread.other.function.load() != 0 && thread.other.comm.load() == comm) {
        add_open(comm, thread.other, out);
        CollectiveCall& call = out.point_to_point.back();
        call.op = op;
        call.peer = std::max(thread.other.peer.load(), -1);
        call.tag = thread.other.tag.load();
        call.root = -1;
      }
    }
  }

  void add_calls_of_threads(uint32_t comm, Communicator& out) const {
    for (size_t i = 0; i < wire::kMpiThreads; ++i) {
      const wire::MpiThread& thread = memory_.threads[i];
      switch (info_of(threads_[i].function).kind) {
        case MpiKind::send:
        case MpiKind::receive:
          add_open(comm, thread.call, out);
          break;
        case MpiKind::probe:
        case MpiKind::claim:
          add_open(comm, thread.call, out, true);
          break;
        case MpiKind::send_receive:
          if (thread.call.count.load() * type_of(thread.call).bytes > kEagerBytes) {
            add_open(comm, thread.call, out);
          }
          add_open(comm, thread.other, out);
          if (!out.point_to_point.empty() && thread.other.comm.load() == comm &&
              thread.other.peer.load() != wire::kMpiNoRank) {
            out.point_to_point.back().op = "recv";
          }
          break;
        case MpiKind::join_groups:
          add_messages_of_leader(comm, thread, out);
          break;
        case MpiKind::lock:
        case MpiKind::unlock:
        case MpiKind::flush:
          add_lock_call(comm, thread.call, out);
          break;
        default:
          if (threads_[i].polls && threads_[i].function == 0) {
            add_open(comm, thread.polled, out, true);
          }
          break;
      }
    }
  }

  void add_requests(uint32_t comm, Communicator& out) const {
    for (const wire::MpiRequest& r : memory_.requests) {
      const MpiKind kind = info_of(r.call.function.load()).kind;
      // A message of which not all partitions are ready has not been sent.
      const bool sent = r.partitions.load() <= r.ready.load() || r.partitions.load() == 0;
      if (!is_pending(r) || r.call.comm.load() != comm || is_collective(kind) || !sent ||
          r.call.peer.load() == wire::kMpiNoRank) {
        continue;
      }
      CollectiveCall call = call_of(r.call, is_awaited(r) ? CallStage::called : CallStage::launched, now_);
      call.name = name_of(r);
      // No stack has the place of a call that has returned.
      if (place_of_ && call.stage == CallStage::launched) {
        call.where = place_of_(r.call.caller.load());
      }
      out.point_to_point.push_back(std::move(call));
    }
  }

  // The latest message of each channel, so that its counterpart is known to have been called.
  void add_channels(uint32_t comm, Communicator& out) const {
    for (const wire::MpiChannel& channel : memory_.channels) {
      const uint64_t key = channel.key.load();
      const wire::MpiChannelKey parts = wire::channel_of(key);
      if (key == 0 || parts.comm != comm) {
        continue;
      }
      CollectiveCall call;
      call.sequence = channel.started.load();
      call.op = parts.receives ? "recv" : "send";
      call.peer = parts.peer;
      call.tag = parts.tag;
      call.stage = CallStage::done;
      out.messages += call.sequence;
      out.point_to_point.push_back(std::move(call));
    }
  }

  std::vector<base::Rank> members_of(const wire::MpiComm& comm, int size) const {
    const uint32_t at = comm.members.load();
    std::vector<base::Rank> out;
    if (comm.identity.load() == 0) {
      out.resize(static_cast<size_t>(size));
      std::iota(out.begin(), out.end(), 0);
    } else if (at > 0 && at <= wire::kMpiMembers &&
               static_cast<uint32_t>(size) <= wire::kMpiMembers - (at - 1)) {
      out.assign(memory_.members + at - 1, memory_.members + at - 1 + size);
    }
    return out;
  }

  Communicator communicator(uint32_t index) const {
    const wire::MpiComm& comm = memory_.comms[index];
    Communicator out;
    out.source = model::CallSource::mpi;
    out.id = id_of(comm);
    char name[sizeof comm.name];
    std::memcpy(name, comm.name, sizeof name);
    out.name = base::sanitize(std::string_view(name, ::strnlen(name, sizeof name)));
    out.rank = std::max(comm.rank.load(), -1);
    out.size = std::clamp(comm.size.load(), 0, kMostMpiRanks);
    const uint32_t flags = comm.flags.load();
    // A rank with calls that had no room must not be accused by what was recorded.
    out.comparable = memory_.lost.load() == 0;
    out.messages_known = (flags & wire::kMpiCommMissed) == 0;
    out.window = stands_for_window(index);
    const int other =
        (flags & wire::kMpiCommInter) != 0 ? std::clamp(comm.remote_size.load(), 0, kMostMpiRanks) : 0;
    if (out.comparable) {
      out.members = members_of(comm, out.size + other);
    }
    place_in_job(comm, worlds_, out);
    add_collectives(index, out);
    add_calls_of_threads(index, out);
    add_requests(index, out);
    add_channels(index, out);
    add_locks(index, out);
    if ((flags & wire::kMpiCommInter) != 0) {
      join_groups(other, out);
    }
    return out;
  }

  bool stands_for_window(uint32_t comm) const {
    return std::any_of(std::begin(memory_.windows), std::end(memory_.windows),
                       [&](const wire::MpiWindow& w) { return is_live(w.state) && w.comm.load() == comm; });
  }

  // Both groups of an intercommunicator become one list of ranks, the same on both sides: first the group
  // with the lowest rank. The arguments of a collective differ between the groups.
  static void join_groups(int other, Communicator& c) {
    const int own = c.size;
    const bool known = c.members.size() == static_cast<size_t>(own) + static_cast<size_t>(other);
    const auto middle = c.members.begin() + (known ? own : 0);
    const bool own_first =
        !known || own == 0 || other == 0 ||
        *std::min_element(c.members.begin(), middle) < *std::min_element(middle, c.members.end());
    for (CollectiveCall& call : c.point_to_point) {
      call.peer = call.peer < 0 ? call.peer : call.peer + (own_first ? own : 0);
    }
    for (CollectiveCall& call : c.calls) {
      call.root = -1;
      call.count = 0;
      call.dtype.clear();
    }
    if (!own_first) {
      std::rotate(c.members.begin(), middle, c.members.end());
      c.rank += c.rank < 0 ? 0 : other;
    }
    c.size = own + other;
  }
};

}  // namespace

std::string id_of(const wire::MpiComm& comm) {
  const uint64_t identity = comm.identity.load();
  return identity == 0 ? "world" : fmt::format("{:016x}", identity);
}

std::vector<Communicator> read_mpi_calls(const MpiSegment& memory, base::MonoNs now,
                                         const WorldsOfRank& worlds, const PlaceOfCall& place_of) {
  return MpiReader(memory, now, worlds, place_of).read();
}

void MpiSegments::attach(base::Pid pid, const std::function<void(int)>& answer) {
  auto memory = SealedMemory::create("xpurun-mpi", sizeof(MpiSegment), "memory to share with an MPI process");
  if (!memory) {
    base::log_warn("the MPI calls of pid {} are not seen: {}", pid, base::to_line(memory.error()));
    answer(-1);
    return;
  }
  auto* segment = static_cast<MpiSegment*>(memory->data());
  segment->magic = wire::kMpiSegmentMagic;
  segment->version = wire::kMpiSegmentVersion;
  segment->bytes = sizeof(MpiSegment);
  segment->records_times = records_times_ ? 1 : 0;
  if (processes_.size() >= kMostProcesses && !processes_.contains(pid)) {
    processes_.erase(processes_.begin());
  }
  Process& kept = processes_[pid];
  kept = {.memory = std::move(*memory), .number = ++attached_};
  answer(kept.memory.fd());
  kept.memory.close_fd();
}

MpiSegments::View MpiSegments::find(base::Pid pid) const {
  const auto it = processes_.find(pid);
  return it == processes_.end() ? View{} : View{it->second.segment(), it->second.number};
}

void MpiSegments::record_times(bool wanted) {
  records_times_ = wanted;
  for (const auto& [pid, process] : processes_) {
    process.segment()->records_times.store(wanted ? 1 : 0);
    for (wire::MpiThread& thread : process.segment()->threads) {
      if (thread.tid.load() == 0) {
        break;
      }
      thread.untimed.store(0);
    }
  }
}

std::vector<base::Pid> MpiSegments::pids() const {
  std::vector<base::Pid> out;
  for (const auto& [pid, process] : processes_) {
    out.push_back(pid);
  }
  return out;
}

void MpiSegments::add_to(model::CollectiveFacts& facts, base::Pid pid, base::Rank rank, base::MonoNs now,
                         const WorldsOfRank& worlds, const PlaceOfCall& place_of) const {
  const MpiSegment* memory = find(pid).memory;
  if (memory == nullptr) {
    return;
  }
  std::vector<Communicator> comms = read_mpi_calls(*memory, now, worlds, place_of);
  model::RankCollectives& mine = facts.of(rank, pid);
  std::move(comms.begin(), comms.end(), std::back_inserter(mine.communicators));
}

std::optional<NativeCalls> MpiSegments::main_thread(base::Pid pid) const {
  const MpiSegment* memory = find(pid).memory;
  if (memory == nullptr || memory->threads[0].tid.load() == 0) {
    return std::nullopt;
  }
  const wire::MpiThread& main = memory->threads[0];
  return NativeCalls{.steps = main.steps.load(),
                     .polls = main.polls.load(),
                     .inside = main.call.function.load() != 0 && main.error.load() == 0};
}

}  // namespace xpurun::launcher
