// The ledger of MPI calls (common/wire/mpi_segment.h). The threads that call MPI write it: no lock, no
// allocation, no system call after MPI_Init, and no atomic addition except in tables that threads share.
#pragma once

#include "common/wire/mpi_functions.h"
#include "common/wire/mpi_segment.h"
#include "preload/core/clock.h"
#include "preload/mpi/abi.h"
#include "preload/process/run_env.h"

#include <atomic>
#include <stdint.h>

namespace xpurun::preload {

inline constexpr uint32_t kNoMpiEntry = 0xffffffff;

struct MpiThreadState {
  uint32_t inside;      // 1: the thread is inside an MPI function; calls that the library makes are its own
  uint32_t slot;        // of the thread in the segment, plus 1; 0: none yet; kNoMpiEntry: no room
  MpiWord comm_handle;  // the communicator of the latest call, and its index
  uint32_t comm;
  wire::MpiType type;  // of the latest call, its handle, and its bytes
  MpiWord type_handle;
  uint64_t type_bytes;
  uint64_t timed_ns;  // end of the latest timed call
  int64_t credit_ns;  // of a burst: each timed call takes 100 us of it, and the time that passes adds to it
  uint64_t timed_steps;  // MpiThread::steps at that time
};
__attribute__((visibility("hidden"))) extern __thread MpiThreadState t_mpi;
__attribute__((visibility("hidden"))) extern std::atomic<wire::MpiSegment*> g_mpi_segment;
// MPI_Init_thread has given MPI_THREAD_MULTIPLE: threads share the tables.
__attribute__((visibility("hidden"))) extern bool g_mpi_shared;

inline wire::MpiSegment* mpi_segment() {
  return g_mpi_segment.load(std::memory_order_relaxed);
}

// From the library's constructor.
void prepare_mpi(const RunEnv& run);
// Before MPI_Init: asks the supervisor for the segment. After it: enters MPI_COMM_WORLD.
void mpi_starts();
void mpi_started();

uint32_t claim_mpi_thread();
// Null if the table of threads is full.
inline wire::MpiThread* mpi_thread(wire::MpiSegment& segment) {
  const uint32_t slot = t_mpi.slot != 0 ? t_mpi.slot : claim_mpi_thread();
  return slot == kNoMpiEntry ? nullptr : &segment.threads[slot - 1];
}

// kMpiNoComm if the creation of the communicator was not seen.
uint32_t find_mpi_comm(MpiWord handle);
void add_mpi_comm(MpiWord handle);
void end_mpi_comm(MpiWord handle);
// kNoMpiEntry: not known.
uint32_t mpi_window_index(MpiWord handle);
void add_mpi_window(MpiWord handle, uint32_t comm, const char* name);
// The ranks of a window with which this process has an epoch: a message from each of them is awaited.
enum class MpiEpoch : uint32_t { access, exposure };
// The call has begun or ends the epoch; each of its messages is a request, with the call's function.
void begin_mpi_epoch(uint32_t window, MpiEpoch epoch, MpiWord group, const wire::MpiCall& call);
void end_mpi_epoch(uint32_t window, MpiEpoch epoch);
// The call of this thread, which is not over, waits for the messages of the epoch.
void await_mpi_epoch(uint32_t window, MpiEpoch epoch, const wire::MpiThread& thread,
                     wire::MpiFunction function);
// To each rank of the epoch: the message with this tag (kMpiPosted, kMpiCompleted).
void tell_mpi_epoch(uint32_t window, MpiEpoch epoch, int32_t tag);

void add_mpi_lock(uint32_t window, int32_t target, bool exclusive);
void end_mpi_lock(uint32_t window, int32_t target);

// The channel of this key, a new one if need be; null if there is no room.
wire::MpiChannel* find_mpi_channel(uint64_t key);

uint32_t find_mpi_request(MpiWord handle);
// The new entry, or kNoMpiEntry if there is no room.
uint32_t add_mpi_request(MpiWord handle, const wire::MpiCall& call, bool persistent);
// A request has completed. `source`: where its message came from; null if that is not known.
void end_mpi_request(uint32_t index, const MpiSource* source);
inline bool source_is_open(const wire::MpiRequest& r) {
  return r.call.peer.load(std::memory_order_relaxed) == wire::kMpiAny ||
         r.call.tag.load(std::memory_order_relaxed) == wire::kMpiAny;
}

// MPI reports an error of the call that this thread is in. `ends`: the error handler ends the process.
void mpi_failed(int code, bool ends);
// MPI_ERRORS_ARE_FATAL, or the like, is the handler of the communicator of the current call (MPICH).
bool mpi_errors_are_fatal();
// MPI ends the process, by this function, for an error of this class (0: MPI_Abort): its stack is taken
// before.
void mpi_ends(wire::MpiFunction function, int error_class);

void copy_mpi_call(wire::MpiCall& to, const wire::MpiCall& from);

// The bytes of an element of the type; 0: not known.
uint64_t mpi_type_bytes(MpiWord handle, wire::MpiType type);
// The program has committed the type.
void mpi_type_committed(MpiWord handle);

// Where the program called: return addresses on the stack, at `slot` that of an entry of this library.
struct MpiCaller {
  uint64_t address;
  const uint64_t* slot;
};
// The entry of the place, a new one if need be; null if there is no room.
wire::MpiSite* find_mpi_site(const MpiCaller& caller, uint32_t function);

void add_timed_mpi_call(wire::MpiThread& thread, wire::MpiSite* site, const wire::MpiTime& time);

template <typename T>
inline void put(std::atomic<T>& field, T value) {
  field.store(value, std::memory_order_relaxed);
}
template <typename T>
inline T get(const std::atomic<T>& field) {
  return field.load(std::memory_order_relaxed);
}
// Adds to a number of a table that threads may share.
inline void add(std::atomic<uint64_t>& field, uint64_t value) {
  if (g_mpi_shared) {
    field.fetch_add(value, std::memory_order_relaxed);
  } else {
    put(field, get(field) + value);
  }
}

// Where the search for an entry of a table of `size` entries begins.
inline uint32_t mpi_table_place(uint64_t key, uint32_t size) {
  return static_cast<uint32_t>(key * 0x9e37'79b9'7f4a'7c15 >> 40) & (size - 1);
}

inline bool is_mpi_comm(const wire::MpiComm& comm, MpiWord handle) {
  return get(comm.handle) == handle && get(comm.state) == static_cast<uint32_t>(wire::MpiCommState::live);
}
inline uint32_t mpi_comm_index(wire::MpiSegment& segment, MpiWord handle) {
  return t_mpi.comm_handle == handle && is_mpi_comm(segment.comms[t_mpi.comm], handle)
             ? t_mpi.comm
             : find_mpi_comm(handle);
}

// The number of the next message of this channel.
inline uint64_t next_mpi_message(wire::MpiSegment& segment, const wire::MpiChannelKey& key) {
  const uint64_t wanted = wire::channel_key(key);
  wire::MpiChannel* channel = &segment.channels[mpi_table_place(wanted, wire::kMpiChannels)];
  if (get(channel->key) != wanted) {
    channel = find_mpi_channel(wanted);
  }
  if (channel == nullptr) {
    segment.comms[key.comm].flags.fetch_or(wire::kMpiCommMissed);
    return 0;
  }
  if (g_mpi_shared) {
    return channel->started.fetch_add(1, std::memory_order_relaxed) + 1;
  }
  const uint64_t number = get(channel->started) + 1;
  put(channel->started, number);
  return number;
}

inline uint32_t mpi_site_place(uint64_t caller) {
  return static_cast<uint32_t>(caller ^ caller >> 8) & (wire::kMpiSites - 1);
}
inline wire::MpiSite* mpi_site(wire::MpiSegment& segment, const MpiCaller& caller, uint32_t function) {
  wire::MpiSite* site = &segment.sites[mpi_site_place(caller.address)];
  return get(site->caller) == caller.address ? site : find_mpi_site(caller, function);
}
// Goes from a library of another language to its caller.
inline wire::MpiSite* mpi_site_in_program(wire::MpiSegment& segment, MpiCaller& caller, uint32_t function) {
  wire::MpiSite* site = mpi_site(segment, caller, function);
  if (site != nullptr && get(site->above) != 0) {
    caller.slot += get(site->above) / sizeof(uint64_t);
    caller.address = *caller.slot;
    site = mpi_site(segment, caller, function);
  }
  return site;
}

}  // namespace xpurun::preload
