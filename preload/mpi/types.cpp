// The bytes of types. MPI is asked only about a type that the program commits: a call may ignore its type, as
// the root's call of MPI_Gather with MPI_IN_PLACE does, and a question about MPI_DATATYPE_NULL ends the job.
#include "preload/mpi/ledger.h"

namespace xpurun::preload {

namespace {

struct CommittedType {
  std::atomic<uint64_t> handle;
  std::atomic<uint64_t> bytes;
};
constexpr uint32_t kCommitted = 256;
constinit CommittedType g_committed[kCommitted] = {};

// The entry of the type; if there is none, a free one, or else the first that a search looks at.
CommittedType& entry_of(MpiWord handle) {
  const uint32_t first = mpi_table_place(handle, kCommitted);
  for (uint32_t i = 0; i < wire::kMpiProbes; ++i) {
    CommittedType& type = g_committed[(first + i) & (kCommitted - 1)];
    const uint64_t known = get(type.handle);
    if (known == handle || known == 0) {
      return type;
    }
  }
  return g_committed[first];
}

}  // namespace

uint64_t mpi_type_bytes(MpiWord handle, wire::MpiType type) {
  static constexpr uint64_t kBytes[] = {0
#define XPURUN_MPI_BYTES(name, symbol, word, bytes, mpich) , bytes
                                        XPURUN_MPI_TYPES(XPURUN_MPI_BYTES)};
#undef XPURUN_MPI_BYTES
  if (type != wire::MpiType::unknown) {
    return kBytes[static_cast<size_t>(type)];
  }
  const CommittedType& committed = entry_of(handle);
  return get(committed.handle) == handle ? get(committed.bytes) : 0;
}

void mpi_type_committed(MpiWord handle) {
  const auto size_of = reinterpret_cast<int (*)(MpiWord, int*)>(find_in_mpi("PMPI_Type_size"));
  int bytes = 0;
  if (handle == 0 || size_of == nullptr || size_of(handle, &bytes) != 0 || bytes < 0) {
    return;
  }
  CommittedType& type = entry_of(handle);
  put(type.bytes, static_cast<uint64_t>(bytes));
  put(type.handle, handle);
  if (t_mpi.type_handle == handle) {
    t_mpi.type_handle = 0;  // of another type with this handle
  }
}

}  // namespace xpurun::preload
