// The exported names of MPI's functions, each also with its profiling name: Fortran's functions in Open MPI
// and tools between the program and the library call that one. The next function of the same name is called,
// so such tools work as without this library.

#include "preload/mpi/record_call.h"

namespace xpurun::preload {

namespace {

using wire::MpiFunction;
using wire::MpiKind;

// MPI_ERR_OTHER, where no MPI library is loaded.
constexpr int kMissing = 15;

template <size_t... I>
struct Positions {};
template <size_t kN, size_t... I>
struct PositionsTo : PositionsTo<kN - 1, kN - 1, I...> {};
template <size_t... I>
struct PositionsTo<0, I...> {
  using Type = Positions<I...>;
};

template <size_t... I>
int call_with(void* real, [[maybe_unused]] const MpiWord* words, Positions<I...>) {
  return reinterpret_cast<int (*)(decltype(static_cast<void>(I), MpiWord{})...)>(real)(words[I]...);
}

__attribute__((noinline)) void* find_next(MpiFunction function, bool profiling) {
  char name[64] = "P";
  strncpy(name + (profiling ? 1 : 0), wire::kMpiFunctions[static_cast<size_t>(function)].name,
          sizeof(name) - 2);
  return find_in_mpi(name);
}

// `words`: the arguments, and one more.
template <MpiFunction kFunction, size_t kCount>
int record(std::atomic<void*>& known, bool profiling, MpiWord* words, MpiCaller caller) {
  using Call = RecordedMpiCall<kFunction>;
  using All = typename PositionsTo<kCount>::Type;
  void* real = known.load(std::memory_order_relaxed);
  if (real == nullptr) {
    real = find_next(kFunction, profiling);
    if (real == nullptr) {
      return kMissing;
    }
    known.store(real, std::memory_order_relaxed);
  }
  if constexpr (Call::kKind == MpiKind::start) {
    mpi_starts();
  }
  wire::MpiSegment* segment = mpi_segment();
  if (segment == nullptr || t_mpi.inside != 0) {
    return call_with(real, words, All());
  }
  wire::MpiThread* thread = mpi_thread(*segment);
  if (thread == nullptr) {
    return call_with(real, words, All());
  }
  Call call(*segment, *thread, words, caller);
  t_mpi.inside = 1;
  const MpiWord ended = Call::kKind == MpiKind::end_comm ? mpi_handle_at(words[0]) : 0;
  call.begins();
  if constexpr (Call::kKind == MpiKind::abort) {
    mpi_ends(kFunction, 0);
  }
  const int result = call_with(real, words, All());
  if constexpr (Call::kKind == MpiKind::start) {
    if (result == 0) {
      mpi_started();
    }
  } else if constexpr (Call::kKind == MpiKind::end_comm) {
    if (result == 0) {
      end_mpi_comm(ended);
    }
  }
  call.ends(result);
  t_mpi.inside = 0;
  return result;
}

template <MpiFunction kFunction, bool kProfiling, typename... A>
int entry(MpiCaller caller, A... arguments) {
  static constinit std::atomic<void*> known{nullptr};
  MpiWord words[sizeof...(A) + 1] = {arguments..., 0};
  return record<kFunction, sizeof...(A)>(known, kProfiling, words, caller);
}

}  // namespace

}  // namespace xpurun::preload

// clang-format off
#define XPURUN_P0
#define XPURUN_P1 W a0
#define XPURUN_P2 XPURUN_P1, W a1
#define XPURUN_P3 XPURUN_P2, W a2
#define XPURUN_P4 XPURUN_P3, W a3
#define XPURUN_P5 XPURUN_P4, W a4
#define XPURUN_P6 XPURUN_P5, W a5
#define XPURUN_P7 XPURUN_P6, W a6
#define XPURUN_P8 XPURUN_P7, W a7
#define XPURUN_P9 XPURUN_P8, W a8
#define XPURUN_P10 XPURUN_P9, W a9
#define XPURUN_P11 XPURUN_P10, W a10
#define XPURUN_P12 XPURUN_P11, W a11
#define XPURUN_A0
#define XPURUN_A1 , a0
#define XPURUN_A2 XPURUN_A1, a1
#define XPURUN_A3 XPURUN_A2, a2
#define XPURUN_A4 XPURUN_A3, a3
#define XPURUN_A5 XPURUN_A4, a4
#define XPURUN_A6 XPURUN_A5, a5
#define XPURUN_A7 XPURUN_A6, a6
#define XPURUN_A8 XPURUN_A7, a7
#define XPURUN_A9 XPURUN_A8, a8
#define XPURUN_A10 XPURUN_A9, a9
#define XPURUN_A11 XPURUN_A10, a10
#define XPURUN_A12 XPURUN_A11, a11
// clang-format on

using W = xpurun::preload::MpiWord;

// On x86-64 the return address is the word below the frame address of DWARF.
#define XPURUN_MPI_CALLER                                       \
  xpurun::preload::MpiCaller {                                  \
    reinterpret_cast<uint64_t>(__builtin_return_address(0)),    \
        static_cast<const uint64_t*>(__builtin_dwarf_cfa()) - 1 \
  }
#define XPURUN_MPI_EXPORT extern "C" __attribute__((visibility("default")))
#define XPURUN_MPI_ENTRY(name, n, ...)                                                                    \
  XPURUN_MPI_EXPORT int name(XPURUN_P##n) {                                                               \
    return xpurun::preload::entry<xpurun::wire::MpiFunction::name, false>(XPURUN_MPI_CALLER XPURUN_A##n); \
  }                                                                                                       \
  XPURUN_MPI_EXPORT int P##name(XPURUN_P##n) {                                                            \
    return xpurun::preload::entry<xpurun::wire::MpiFunction::name, true>(XPURUN_MPI_CALLER XPURUN_A##n);  \
  }
XPURUN_MPI_FUNCTIONS(XPURUN_MPI_ENTRY)

// What the libraries call when a function of MPI fails, before the program's error handler, or before they
// end the job: Open MPI's and MPICH's own names.
XPURUN_MPI_EXPORT int ompi_errhandler_invoke(W handler, W object, W kind, int code, const char* message) {
  using Real = int(W, W, W, int, const char*);
  static constinit std::atomic<Real*> known{nullptr};
  if (known.load(std::memory_order_relaxed) == nullptr) {
    known.store(reinterpret_cast<Real*>(xpurun::preload::find_in_mpi("ompi_errhandler_invoke")));
  }
  Real* real = known.load(std::memory_order_relaxed);
  xpurun::preload::mpi_failed(code, handler != 0 && (handler == xpurun::preload::g_mpi_abi.errors_are_fatal ||
                                                     handler == xpurun::preload::g_mpi_abi.errors_abort));
  return real != nullptr ? real(handler, object, kind, code, message) : code;
}

XPURUN_MPI_EXPORT int MPIR_Err_return_comm(W comm, const char* function, int code) {
  using Real = int(W, const char*, int);
  static constinit std::atomic<Real*> known{nullptr};
  if (known.load(std::memory_order_relaxed) == nullptr) {
    known.store(reinterpret_cast<Real*>(xpurun::preload::find_in_mpi("MPIR_Err_return_comm")));
  }
  Real* real = known.load(std::memory_order_relaxed);
  xpurun::preload::mpi_failed(code, xpurun::preload::mpi_errors_are_fatal());
  return real != nullptr ? real(comm, function, code) : code;
}
