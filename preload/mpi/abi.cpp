#include "preload/mpi/abi.h"

#include "preload/core/resolve.h"

#include <dlfcn.h>

namespace xpurun::preload {

constinit MpiAbi g_mpi_abi;

namespace {

constexpr uint32_t kTypes = 1 + 0
#define XPURUN_MPI_ONE(...) +1
                            XPURUN_MPI_TYPES(XPURUN_MPI_ONE);
#undef XPURUN_MPI_ONE
constinit MpiWord g_types[kTypes] = {};

// A program that is not position-independent has its own copy of a library's object: the global scope knows
// which of the two counts.
MpiWord object(const char* name) {
  void* found = dlsym(RTLD_DEFAULT, name);
  if (found == nullptr) {
    dlerror();
    found = find_in_library("libmpi", name);
  }
  return reinterpret_cast<MpiWord>(found);
}

}  // namespace

void* find_in_mpi(const char* name) {
  void* found = find_function("libmpi.so", name);
  return found != nullptr ? found : find_function("libmpi", name);
}

void learn_mpi_abi() {
  MpiAbi& abi = g_mpi_abi;
  abi.world = object("ompi_mpi_comm_world");
  abi.pointers = abi.world != 0;
  abi.any_tag = -1;
  if (abi.pointers) {
    abi.comm_null = object("ompi_mpi_comm_null");
    abi.request_null = object("ompi_request_null");
    abi.errors_are_fatal = object("ompi_mpi_errors_are_fatal");
    abi.errors_abort = object("ompi_mpi_errors_abort");
    abi.any_source = -1;
    abi.no_rank = -2;
    abi.lock_exclusive = 1;
  } else {
    abi.world = 0x44000000;
    abi.comm_null = 0x04000000;
    abi.request_null = 0x2c000000;
    abi.status_ignore = 1;
    abi.any_source = -2;
    abi.no_rank = -1;
    abi.lock_exclusive = 234;
  }
  uint32_t i = 0;
#define XPURUN_MPI_HANDLE(name, symbol, word, bytes, mpich) \
  g_types[++i] = abi.pointers ? object("ompi_mpi_" #symbol) : mpich;
  XPURUN_MPI_TYPES(XPURUN_MPI_HANDLE)
#undef XPURUN_MPI_HANDLE
}

MpiSource mpi_source(MpiWord statuses, uint32_t index) {
  // Open MPI: source, tag, error, cancelled, bytes (8). MPICH: bytes (2 numbers), source, tag, error.
  const auto* numbers = reinterpret_cast<const int32_t*>(statuses);
  return g_mpi_abi.pointers ? MpiSource{numbers[index * 6], numbers[index * 6 + 1]}
                            : MpiSource{numbers[index * 5 + 2], numbers[index * 5 + 3]};
}

wire::MpiType mpi_type(MpiWord handle) {
  for (uint32_t i = 1; i < kTypes; ++i) {
    if (g_types[i] == handle && handle != 0) {
      return static_cast<wire::MpiType>(i);
    }
  }
  return wire::MpiType::unknown;
}

}  // namespace xpurun::preload
