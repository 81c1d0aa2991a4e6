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
  wire::MpiType type;  // of the latest call, and its handle
  MpiWord type_handle;
};
__attribute__((visibility("hidden"))) extern __thread MpiThreadState t_mpi;
__attribute__((visibility("hidden"))) extern std::atomic<wire::MpiSegment*> g_mpi_segment;

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
uint32_t mpi_comm_index(MpiWord handle);
void add_mpi_comm(MpiWord handle);
void end_mpi_comm(MpiWord handle);
// kNoMpiEntry: not known.
uint32_t mpi_window_index(MpiWord handle);
void add_mpi_window(MpiWord handle, uint32_t comm);
void add_mpi_lock(uint32_t window, int32_t target, bool exclusive);
void end_mpi_lock(uint32_t window, int32_t target);

// The number of the next message of this channel.
uint64_t next_mpi_message(const wire::MpiChannelKey& key);

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

template <typename T>
inline void put(std::atomic<T>& field, T value) {
  field.store(value, std::memory_order_relaxed);
}
template <typename T>
inline T get(const std::atomic<T>& field) {
  return field.load(std::memory_order_relaxed);
}

}  // namespace xpurun::preload
