// What differs between MPI libraries: handles, constants and the layout of a status. Open MPI's handles are
// pointers; those of MPICH and its relatives (Intel MPI, MVAPICH, Cray MPICH) are 32-bit numbers. Handles and
// all other arguments pass through this library as 64-bit words, unchanged.
#pragma once

#include "common/wire/mpi_segment.h"

#include <stdint.h>

namespace xpurun::preload {

using MpiWord = uint64_t;

struct MpiAbi {
  bool pointers = false;  // Open MPI
  MpiWord world = 0;
  MpiWord comm_null = 0;
  MpiWord request_null = 0;
  MpiWord status_ignore = 0;     // of one status and of an array
  MpiWord errors_are_fatal = 0;  // Open MPI
  MpiWord errors_abort = 0;      // Open MPI 5; 0: there is none
  int32_t any_source = 0;
  int32_t any_tag = 0;
  int32_t no_rank = 0;  // MPI_PROC_NULL
  int32_t lock_exclusive = 0;
};
// Valid after learn_mpi_abi(), which the call of MPI_Init makes.
extern MpiAbi g_mpi_abi;
void learn_mpi_abi();

// The function or object in the MPI library; nullptr if there is none.
void* find_in_mpi(const char* name);

inline MpiWord mpi_handle(MpiWord word) {
  return g_mpi_abi.pointers ? word : static_cast<uint32_t>(word);
}
// A handle in the program's memory.
inline MpiWord mpi_handle_at(MpiWord address, uint32_t index = 0) {
  return g_mpi_abi.pointers ? reinterpret_cast<const uint64_t*>(address)[index]
                            : reinterpret_cast<const uint32_t*>(address)[index];
}
inline int32_t mpi_int(MpiWord word) {
  return static_cast<int32_t>(word);
}
inline int32_t mpi_int_at(MpiWord address, uint32_t index = 0) {
  return reinterpret_cast<const int32_t*>(address)[index];
}

// Ranks and tags with the constants of the wire format.
inline int32_t mpi_peer(MpiWord word) {
  const int32_t peer = mpi_int(word);
  return peer == g_mpi_abi.any_source ? wire::kMpiAny : peer < 0 ? wire::kMpiNoRank : peer;
}
inline int32_t mpi_tag(MpiWord word) {
  return mpi_int(word) == g_mpi_abi.any_tag ? wire::kMpiAny : mpi_int(word);
}

// The larger of the layouts of MPI_Status, in bytes.
inline constexpr uint32_t kMpiStatusBytes = 24;
struct MpiSource {
  int32_t peer;
  int32_t tag;
};
MpiSource mpi_source(MpiWord statuses, uint32_t index = 0);

wire::MpiType mpi_type(MpiWord handle);

}  // namespace xpurun::preload
