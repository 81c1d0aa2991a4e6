#include "preload/mpi/ledger.h"

#include "preload/nccl/ledger.h"
#include "preload/process/crash_handler.h"
#include "preload/process/shared_memory.h"
#include "preload/process/supervisor_link.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

// As in start.cpp: a strong reference would keep programs with other C libraries from starting.
extern "C" __attribute__((weak)) int __register_atfork(void (*prepare)(), void (*parent)(), void (*child)(),
                                                       void* dso);
extern "C" __attribute__((visibility("hidden"))) void* __dso_handle;

namespace xpurun::preload {

__thread MpiThreadState t_mpi = {};
constinit std::atomic<wire::MpiSegment*> g_mpi_segment{nullptr};
constinit bool g_mpi_shared = false;

namespace {

using wire::MpiCommState;
using wire::MpiRequestState;

RunEnv g_run;
constinit bool g_prepared = false;

void after_fork_in_child() {
  g_mpi_segment.store(nullptr);
}

// The library ends the process inside of a call, without an error handler: a failed assertion of its own.
void process_ends() {
  const wire::MpiSegment* shared = mpi_segment();
  if (shared != nullptr && t_mpi.inside != 0 && t_mpi.slot != 0 && t_mpi.slot != kNoMpiEntry) {
    mpi_ends(static_cast<wire::MpiFunction>(get(shared->threads[t_mpi.slot - 1].call.function)), 0);
  }
}

// A number for each communicator among those with the same members: all members make these in one order.
struct Made {
  std::atomic<uint64_t> members;
  std::atomic<uint64_t> count;
};
constexpr uint32_t kMade = 256;
constinit Made g_made[kMade] = {};

uint64_t count_made(uint64_t members) {
  for (uint32_t i = 0; i < kMade; ++i) {
    Made& made = g_made[(members + i) % kMade];
    uint64_t expected = 0;
    if (made.members.compare_exchange_strong(expected, members) || expected == members) {
      return made.count.fetch_add(1) + 1;
    }
  }
  return 0;
}

// Index 0 is MPI_COMM_WORLD's.
uint32_t comm_place(MpiWord handle, uint32_t i) {
  const uint32_t place = (mpi_table_place(handle, wire::kMpiComms) + i) & (wire::kMpiComms - 1);
  return place == 0 ? wire::kMpiComms - 1 : place;
}

uint32_t claim_comm_entry(MpiWord handle) {
  wire::MpiSegment& shared = *mpi_segment();
  for (const MpiCommState wanted : {MpiCommState::free, MpiCommState::ended}) {
    for (uint32_t i = 0; i < wire::kMpiProbes; ++i) {
      auto expected = static_cast<uint32_t>(wanted);
      if (shared.comms[comm_place(handle, i)].state.compare_exchange_strong(
              expected, static_cast<uint32_t>(MpiCommState::making))) {
        return comm_place(handle, i);
      }
    }
  }
  shared.lost.fetch_add(1);
  return wire::kMpiNoComm;
}

bool claim_request(std::atomic<uint32_t>& state) {
  auto expected = static_cast<uint32_t>(MpiRequestState::free);
  const auto claimed = static_cast<uint32_t>(MpiRequestState::forgotten);
  if (g_mpi_shared) {
    return state.compare_exchange_strong(expected, claimed);
  }
  const bool is_free = get(state) == expected;
  if (is_free) {
    put(state, claimed);
  }
  return is_free;
}

struct Group {
  int (*rank)(MpiWord, int*);
  int (*size)(MpiWord, int*);
  int (*test_inter)(MpiWord, int*);
  int (*group)(MpiWord, void*);
  int (*remote_size)(MpiWord, int*);
  int (*remote_group)(MpiWord, void*);
  int (*group_free)(void*);
  int (*translate)(MpiWord, int, const int*, MpiWord, int*);

  bool complete() const {
    return rank && size && test_inter && group && remote_size && remote_group && group_free && translate;
  }
};

Group group_functions() {
  Group out{};
  out.rank = reinterpret_cast<decltype(out.rank)>(find_in_mpi("PMPI_Comm_rank"));
  out.size = reinterpret_cast<decltype(out.size)>(find_in_mpi("PMPI_Comm_size"));
  out.test_inter = reinterpret_cast<decltype(out.test_inter)>(find_in_mpi("PMPI_Comm_test_inter"));
  out.group = reinterpret_cast<decltype(out.group)>(find_in_mpi("PMPI_Comm_group"));
  out.remote_size = reinterpret_cast<decltype(out.remote_size)>(find_in_mpi("PMPI_Comm_remote_size"));
  out.remote_group = reinterpret_cast<decltype(out.remote_group)>(find_in_mpi("PMPI_Comm_remote_group"));
  out.group_free = reinterpret_cast<decltype(out.group_free)>(find_in_mpi("PMPI_Group_free"));
  out.translate = reinterpret_cast<decltype(out.translate)>(find_in_mpi("PMPI_Group_translate_ranks"));
  return out;
}

// Room for the members, as an index plus 1; 0: there is none.
uint32_t claim_members(wire::MpiSegment& shared, uint32_t count) {
  uint32_t used = shared.members_used.load();
  do {
    if (count > wire::kMpiMembers - used) {
      return 0;
    }
  } while (!shared.members_used.compare_exchange_weak(used, used + count));
  return used + 1;
}

// Writes the ranks in MPI_COMM_WORLD of the group's members to this index of MpiSegment::members, unless 0.
// Returns their hash. `foreign` is set if one of them belongs to another world.
uint64_t write_members(const Group& mpi, MpiWord group, uint32_t members, uint32_t size, bool& foreign) {
  wire::MpiSegment& shared = *mpi_segment();
  constexpr int kChunk = 256;
  int local[kChunk];
  int global[kChunk];
  MpiWord world = 0;
  if (mpi.group(g_mpi_abi.world, &world) != 0) {
    return 0;
  }
  uint64_t hash = size;
  for (uint32_t done = 0; done < size;) {
    const int n = static_cast<int>(size - done < kChunk ? size - done : kChunk);
    for (int i = 0; i < n; ++i) {
      local[i] = static_cast<int>(done) + i;
    }
    if (mpi.translate(mpi_handle(group), n, local, mpi_handle(world), global) != 0) {
      break;
    }
    for (int i = 0; i < n; ++i) {
      foreign = foreign || global[i] < 0;
    }
    hash = hash_bytes(global, static_cast<uint64_t>(n) * sizeof(int), hash);
    if (members != 0) {
      memcpy(&shared.members[members - 1 + done], global, static_cast<size_t>(n) * sizeof(int));
    }
    done += static_cast<uint32_t>(n);
  }
  mpi.group_free(&world);
  return hash;
}

// The members, and an identity that is equal in all of them.
void identify(const Group& mpi, MpiWord handle, wire::MpiComm& comm, bool inter) {
  const auto size = static_cast<uint32_t>(comm.size.load());
  int remote_size = 0;
  MpiWord group = 0;
  MpiWord remote = 0;
  if (mpi.group(handle, &group) != 0 ||
      (inter && (mpi.remote_size(handle, &remote_size) != 0 || mpi.remote_group(handle, &remote) != 0))) {
    return;
  }
  const uint32_t members = claim_members(*mpi_segment(), size + static_cast<uint32_t>(remote_size));
  bool foreign = false;
  uint64_t hash = write_members(mpi, group, members, size, foreign);
  mpi.group_free(&group);
  if (inter) {
    const uint64_t other = write_members(mpi, remote, members == 0 ? 0 : members + size,
                                         static_cast<uint32_t>(remote_size), foreign);
    mpi.group_free(&remote);
    hash = mix(hash < other ? hash : other, hash < other ? other : hash);
  }
  comm.remote_size.store(remote_size);
  comm.members.store(members);
  comm.flags.store((inter ? wire::kMpiCommInter : 0u) | (foreign ? wire::kMpiCommForeign : 0u));
  const uint64_t number = count_made(hash);
  comm.made.store(static_cast<uint32_t>(number));
  comm.identity.store(mix(hash, number) | 1);
}

void reset(wire::MpiComm& comm) {
  comm.flags.store(0);
  comm.handle.store(0);
  comm.identity.store(0);
  comm.members.store(0);
  comm.open.store(0);
  comm.called.store(0);
  comm.remote_size.store(0);
  comm.made.store(0);
  memset(comm.name, 0, sizeof(comm.name));
  for (wire::MpiCall& call : comm.collectives) {
    call.sequence.store(0);
    call.function.store(0);
  }
}

void fill(wire::MpiComm& comm, MpiWord handle, bool is_world) {
  const Group mpi = group_functions();
  int rank = -1;
  int size = 0;
  int inter = 0;
  reset(comm);
  if (mpi.complete() && mpi.rank(handle, &rank) == 0 && mpi.size(handle, &size) == 0) {
    mpi.test_inter(handle, &inter);
  }
  comm.rank.store(rank);
  comm.size.store(size);
  if (is_world) {
    strncpy(comm.name, "MPI_COMM_WORLD", sizeof(comm.name) - 1);
  } else if (mpi.complete()) {
    identify(mpi, handle, comm, inter != 0);
  }
  comm.handle.store(handle);
  comm.state.store(static_cast<uint32_t>(MpiCommState::live), std::memory_order_release);
}

}  // namespace

void prepare_mpi(const RunEnv& run) {
  g_run = run;
  g_prepared = true;
}

void mpi_starts() {
  learn_mpi_abi();
  if (!g_prepared || mpi_segment() != nullptr) {
    return;
  }
  const int saved_errno = errno;
  void* memory =
      request_memory(g_run.socket, make_notice(wire::NoticeKind::mpi_attach), sizeof(wire::MpiSegment));
  auto* segment = static_cast<wire::MpiSegment*>(memory);
  if (segment != nullptr &&
      (segment->magic != wire::kMpiSegmentMagic || segment->version != wire::kMpiSegmentVersion ||
       segment->bytes != sizeof(wire::MpiSegment))) {
    munmap(memory, sizeof(wire::MpiSegment));
    segment = nullptr;
  }
  if (segment != nullptr) {
    static constinit bool follows_forks = false;
    if (!follows_forks) {
      __register_atfork(nullptr, nullptr, after_fork_in_child, &__dso_handle);
      atexit(process_ends);
      follows_forks = true;
    }
    segment->pid.store(getpid());
    g_mpi_segment.store(segment, std::memory_order_release);
  }
  errno = saved_errno;
}

void mpi_started() {
  if (wire::MpiSegment* shared = mpi_segment()) {
    int level = 0;
    const auto query = reinterpret_cast<int (*)(int*)>(find_in_mpi("PMPI_Query_thread"));
    // MPI_THREAD_SERIALIZED is the level before: 2.
    g_mpi_shared = query == nullptr || query(&level) != 0 || level > 2;
    fill(shared->comms[0], g_mpi_abi.world, true);
  }
}

uint32_t claim_mpi_thread() {
  wire::MpiSegment& shared = *mpi_segment();
  const auto tid = static_cast<int32_t>(syscall(SYS_gettid));
  t_mpi.slot = kNoMpiEntry;
  // The first entry is the main thread's.
  const bool main = tid == getpid();
  for (uint32_t i = main ? 0 : 1; i < wire::kMpiThreads; ++i) {
    int32_t expected = 0;
    if (shared.threads[i].tid.compare_exchange_strong(expected, tid)) {
      t_mpi.slot = i + 1;
      return t_mpi.slot;
    }
  }
  shared.lost.fetch_add(1);
  return kNoMpiEntry;
}

uint32_t find_mpi_comm(MpiWord handle) {
  const wire::MpiSegment& shared = *mpi_segment();
  uint32_t found = handle == g_mpi_abi.world && is_mpi_comm(shared.comms[0], handle) ? 0 : wire::kMpiNoComm;
  for (uint32_t i = 0; i < wire::kMpiProbes && found == wire::kMpiNoComm; ++i) {
    const uint32_t place = comm_place(handle, i);
    found = is_mpi_comm(shared.comms[place], handle) ? place : found;
  }
  if (found != wire::kMpiNoComm) {
    t_mpi.comm_handle = handle;
    t_mpi.comm = found;
  }
  return found;
}

void add_mpi_comm(MpiWord handle) {
  if (handle == g_mpi_abi.comm_null) {
    return;
  }
  const uint32_t index = claim_comm_entry(handle);
  if (index != wire::kMpiNoComm) {
    fill(mpi_segment()->comms[index], handle, false);
  }
}

void end_mpi_comm(MpiWord handle) {
  const uint32_t index = mpi_comm_index(*mpi_segment(), handle);
  if (index != wire::kMpiNoComm && index != 0) {
    mpi_segment()->comms[index].state.store(static_cast<uint32_t>(MpiCommState::ended));
  }
}

uint32_t mpi_window_index(MpiWord handle) {
  wire::MpiSegment& shared = *mpi_segment();
  for (uint32_t i = 0; i < wire::kMpiWindows; ++i) {
    if (get(shared.windows[i].handle) == handle &&
        get(shared.windows[i].state) == static_cast<uint32_t>(MpiCommState::live)) {
      return i;
    }
  }
  return kNoMpiEntry;
}

// A window or file is entered as a communicator of its own: its collectives have an order of their own.
void add_mpi_window(MpiWord handle, uint32_t comm, const char* name) {
  wire::MpiSegment& shared = *mpi_segment();
  if (comm == wire::kMpiNoComm) {
    return;
  }
  const wire::MpiComm& parent = shared.comms[comm];
  for (uint32_t i = 0; i < wire::kMpiWindows; ++i) {
    auto expected = static_cast<uint32_t>(MpiCommState::free);
    auto ended = static_cast<uint32_t>(MpiCommState::ended);
    const auto making = static_cast<uint32_t>(MpiCommState::making);
    wire::MpiWindow& window = shared.windows[i];
    if (!window.state.compare_exchange_strong(expected, making) &&
        !window.state.compare_exchange_strong(ended, making)) {
      continue;
    }
    const uint32_t own = claim_comm_entry(handle ^ 1);
    if (own == wire::kMpiNoComm) {
      window.state.store(static_cast<uint32_t>(MpiCommState::free));
      return;
    }
    wire::MpiComm& entry = shared.comms[own];
    reset(entry);
    const uint64_t family = mix(parent.identity.load(), 'w');
    const uint64_t number = count_made(family);
    entry.identity.store(mix(family, number) | 1);
    entry.rank.store(parent.rank.load());
    entry.size.store(parent.size.load());
    entry.flags.store(parent.flags.load());
    entry.members.store(parent.members.load());
    strncpy(entry.name, name, sizeof(entry.name) - 1);
    entry.state.store(static_cast<uint32_t>(MpiCommState::live), std::memory_order_release);
    window.comm.store(own);
    window.handle.store(handle);
    window.number.store(number);
    window.state.store(static_cast<uint32_t>(MpiCommState::live), std::memory_order_release);
    return;
  }
  shared.lost.fetch_add(1);
}

void add_mpi_lock(uint32_t window, int32_t target, bool exclusive) {
  for (wire::MpiLock& lock : mpi_segment()->locks) {
    uint32_t expected = 0;
    if (lock.window.compare_exchange_strong(expected, window + 1)) {
      lock.target.store(target);
      lock.exclusive.store(exclusive ? 1 : 0);
      return;
    }
  }
  mpi_segment()->lost.fetch_add(1);
}

void end_mpi_lock(uint32_t window, int32_t target) {
  for (wire::MpiLock& lock : mpi_segment()->locks) {
    if (lock.window.load() == window + 1 && lock.target.load() == target) {
      lock.window.store(0);
      return;
    }
  }
}

wire::MpiChannel* find_mpi_channel(uint64_t key) {
  const uint32_t first = mpi_table_place(key, wire::kMpiChannels);
  for (uint32_t i = 0; i < wire::kMpiProbes; ++i) {
    wire::MpiChannel& channel = mpi_segment()->channels[(first + i) & (wire::kMpiChannels - 1)];
    uint64_t known = 0;
    if (channel.key.compare_exchange_strong(known, key) || known == key) {
      return &channel;
    }
  }
  return nullptr;
}

uint32_t find_mpi_request(MpiWord handle) {
  wire::MpiSegment& shared = *mpi_segment();
  const uint32_t first = mpi_table_place(handle, wire::kMpiRequests);
  for (uint32_t i = 0; i < wire::kMpiProbes; ++i) {
    const uint32_t index = (first + i) & (wire::kMpiRequests - 1);
    const wire::MpiRequest& r = shared.requests[index];
    if (get(r.handle) == handle && get(r.state) != static_cast<uint32_t>(MpiRequestState::free)) {
      return index;
    }
  }
  return kNoMpiEntry;
}

uint32_t add_mpi_request(MpiWord handle, const wire::MpiCall& call, bool persistent) {
  wire::MpiSegment& shared = *mpi_segment();
  const uint32_t first = mpi_table_place(handle, wire::kMpiRequests);
  // Libraries use a request again soon, and then no other entry has this handle.
  const bool again = !g_mpi_shared && get(shared.requests[first].handle) == handle;
  uint32_t place = again ? first : find_mpi_request(handle);
  for (uint32_t i = 0; i < wire::kMpiProbes && place == kNoMpiEntry; ++i) {
    const uint32_t index = (first + i) & (wire::kMpiRequests - 1);
    place = claim_request(shared.requests[index].state) ? index : kNoMpiEntry;
  }
  if (place == kNoMpiEntry) {
    shared.lost.fetch_add(1, std::memory_order_relaxed);
    return place;
  }
  wire::MpiRequest& r = shared.requests[place];
  put(r.handle, handle);
  put(r.waited_at, uint64_t{0});
  put(r.partitions, uint32_t{0});
  r.persistent = persistent ? 1 : 0;
  copy_mpi_call(r.call, call);
  r.state.store(static_cast<uint32_t>(persistent ? MpiRequestState::idle : MpiRequestState::pending),
                std::memory_order_release);
  return place;
}

void end_mpi_request(uint32_t index, const MpiSource* source) {
  wire::MpiSegment& shared = *mpi_segment();
  wire::MpiRequest& r = shared.requests[index];
  if (source_is_open(r) && get(r.state) == static_cast<uint32_t>(MpiRequestState::pending) &&
      get(r.call.comm) < wire::kMpiComms) {
    if (source != nullptr && source->peer >= 0) {
      next_mpi_message(shared, {get(r.call.comm), true, source->peer, source->tag});
    } else if (source == nullptr) {
      shared.comms[get(r.call.comm)].flags.fetch_or(wire::kMpiCommMissed);
    }
  }
  r.state.store(static_cast<uint32_t>(r.persistent != 0 ? MpiRequestState::idle : MpiRequestState::free),
                std::memory_order_release);
}

namespace {

// The number in MPICH of the class that Open MPI calls so: its text begins with the name.
int class_by_name(const char* text, int own) {
  for (size_t i = 0; g_mpi_abi.pointers && i < wire::kMpiErrorCount; ++i) {
    const size_t length = strlen(wire::kMpiErrors[i]);
    if (strncmp(text, wire::kMpiErrors[i], length) == 0 && text[length] == ':') {
      return static_cast<int>(i);
    }
  }
  return own;
}

}  // namespace

void mpi_ends(wire::MpiFunction function, int error_class) {
  static constinit std::atomic<bool> told{false};
  if (told.exchange(true)) {
    return;  // the first reason counts
  }
  const int saved_errno = errno;
  wire::Notice notice = make_notice(wire::NoticeKind::crash);
  notice.address = static_cast<uint64_t>(function);
  notice.code = error_class;
  send_and_wait(g_run.socket, notice, now_ns() + g_run.crash_wait_ms * kNsPerMs);
  errno = saved_errno;
}

bool mpi_errors_are_fatal() {
  using Handler = int (*)(MpiWord, void*);
  const auto handler_of = reinterpret_cast<Handler>(find_in_mpi("PMPI_Comm_get_errhandler"));
  const wire::MpiSegment* shared = mpi_segment();
  if (handler_of == nullptr || shared == nullptr || t_mpi.slot == 0 || t_mpi.slot == kNoMpiEntry) {
    return false;
  }
  const uint32_t comm = get(shared->threads[t_mpi.slot - 1].call.comm);
  MpiWord handler = 0;
  const MpiWord handle = comm < wire::kMpiComms ? get(shared->comms[comm].handle) : g_mpi_abi.world;
  // MPI_ERRORS_ARE_FATAL and MPI_ERRORS_ABORT.
  return handler_of(handle, &handler) == 0 &&
         (mpi_handle(handler) == 0x54000000 || mpi_handle(handler) == 0x54000003);
}

void mpi_failed(int code, bool ends) {
  wire::MpiSegment* shared = mpi_segment();
  if (shared == nullptr || t_mpi.inside == 0 || t_mpi.slot == 0 || t_mpi.slot == kNoMpiEntry) {
    return;
  }
  wire::MpiThread& thread = shared->threads[t_mpi.slot - 1];
  wire::MpiError& error = shared->error;
  error.function.store(0);
  using Text = int (*)(int, char*, int*);
  using Class = int (*)(int, int*);
  const auto text_of = reinterpret_cast<Text>(find_in_mpi("PMPI_Error_string"));
  const auto class_of = reinterpret_cast<Class>(find_in_mpi("PMPI_Error_class"));
  char text[1024] = {};  // at least MPI_MAX_ERROR_STRING of all libraries
  int length = 0;
  int error_class = 0;
  if (text_of != nullptr && class_of != nullptr) {
    text_of(code, text, &length);
    class_of(code, &error_class);
  }
  memcpy(error.text, text, sizeof(error.text) - 1);
  error.code.store(code);
  error.error_class.store(error_class);
  error.thread.store(t_mpi.slot);
  error.caller.store(get(thread.call.caller));
  error.function.store(get(thread.call.function), std::memory_order_release);
  if (ends) {
    mpi_ends(static_cast<wire::MpiFunction>(get(thread.call.function)), class_by_name(text, error_class));
    return;
  }
  // The handler may leave the call by an exception of C++ or longjmp(), and may call MPI itself.
  thread.error.store(1);
  t_mpi.inside = 0;
}

void copy_mpi_call(wire::MpiCall& to, const wire::MpiCall& from) {
  put(to.function, get(from.function));
  put(to.comm, get(from.comm));
  put(to.peer, get(from.peer));
  put(to.tag, get(from.tag));
  put(to.count, get(from.count));
  put(to.type, get(from.type));
  put(to.window, get(from.window));
  put(to.sequence, get(from.sequence));
  put(to.called_ns, get(from.called_ns));
  put(to.caller, get(from.caller));
}

}  // namespace xpurun::preload
