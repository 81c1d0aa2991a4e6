// Where the program calls MPI, and how long the calls take.
#include "preload/mpi/ledger.h"

#include <dlfcn.h>
#include <string.h>

namespace xpurun::preload {

namespace {

// Taking the time costs about 50 ns, so this is a share of 0.05 %.
constexpr uint64_t kTimedEveryNs = 100'000;
// So many calls of a burst, such as the messages of one step, are all timed: what follows a burst matters
// most.
constexpr int64_t kBurstNs = 64 * int64_t{kTimedEveryNs};
constexpr uint32_t kRarest = 0xffff;  // one call in so many and one

}  // namespace

namespace {

// Open MPI's libraries for Fortran, and MPICH's.
bool is_binding(uint64_t address) {
  Dl_info info{};
  if (dladdr(reinterpret_cast<void*>(address), &info) == 0 || info.dli_fname == nullptr) {
    return false;
  }
  const char* slash = strrchr(info.dli_fname, '/');
  const char* name = slash != nullptr ? slash + 1 : info.dli_fname;
  return strstr(name, "mpi_mpifh") != nullptr || strstr(name, "mpi_usempi") != nullptr ||
         strstr(name, "mpifort") != nullptr;
}

// The walk up the stack from a call by a binding.
struct Walk {
  uint64_t (*address_of)(void* frame);
  uint64_t (*stack_of)(void* frame);  // of the frame: stack pointer behind its call
  uint64_t from;                      // return address of this library's entry
  bool met;
  uint64_t slot;  // of the return address that is no binding's; 0: not found
};

int look_at_frame(void* frame, void* data) {
  constexpr int kGoOn = 0;
  constexpr int kStop = 4;
  auto& walk = *static_cast<Walk*>(data);
  const uint64_t address = walk.address_of(frame);
  if (!walk.met) {
    walk.met = address == walk.from;
    return kGoOn;
  }
  if (is_binding(address)) {
    return kGoOn;
  }
  walk.slot = walk.stack_of(frame) - sizeof(uint64_t);
  return kStop;
}

// The size of the frames between is fixed, so one walk per place in the binding is enough. Programs in
// Fortran have libgcc's unwinder. Other machines than x86-64 keep return addresses elsewhere.
uint32_t above_of([[maybe_unused]] const MpiCaller& caller) {
#ifdef __x86_64__
  using Backtrace = int (*)(int (*)(void*, void*), void*);
  const auto backtrace = reinterpret_cast<Backtrace>(dlsym(RTLD_DEFAULT, "_Unwind_Backtrace"));
  Walk walk{.address_of = reinterpret_cast<uint64_t (*)(void*)>(dlsym(RTLD_DEFAULT, "_Unwind_GetIP")),
            .stack_of = reinterpret_cast<uint64_t (*)(void*)>(dlsym(RTLD_DEFAULT, "_Unwind_GetCFA")),
            .from = caller.address,
            .met = false,
            .slot = 0};
  if (backtrace == nullptr || walk.address_of == nullptr || walk.stack_of == nullptr) {
    dlerror();
    return 0;
  }
  backtrace(look_at_frame, &walk);
  const auto own = reinterpret_cast<uint64_t>(caller.slot);
  constexpr uint64_t kLargest = uint64_t{1} << 20;
  return walk.slot > own && walk.slot - own < kLargest ? static_cast<uint32_t>(walk.slot - own) : 0;
#else
  return 0;
#endif
}

}  // namespace

wire::MpiSite* find_mpi_site(const MpiCaller& caller, uint32_t function) {
  wire::MpiSegment& shared = *mpi_segment();
  for (uint32_t i = 0; i < wire::kMpiProbes; ++i) {
    wire::MpiSite& site = shared.sites[(mpi_site_place(caller.address) + i) & (wire::kMpiSites - 1)];
    uint64_t expected = 0;
    if (site.caller.compare_exchange_strong(expected, caller.address)) {
      put(site.function, function);
      put(site.above, is_binding(caller.address) ? above_of(caller) : uint32_t{0});
      return &site;
    }
    if (expected == caller.address) {
      return &site;
    }
  }
  return nullptr;
}

void add_timed_mpi_call(wire::MpiThread& thread, wire::MpiSite* site, const wire::MpiTime& time) {
  wire::MpiSegment& shared = *mpi_segment();
  const uint64_t end_ns = time.begin_ns + time.duration_ns;
  const uint64_t steps = get(thread.steps);
  const uint64_t calls = steps > t_mpi.timed_steps + 1 ? (steps - t_mpi.timed_steps) / 2 : 1;
  const uint64_t each_ns = (end_ns - t_mpi.timed_ns) / calls;
  const int64_t passed = static_cast<int64_t>(end_ns - t_mpi.timed_ns);
  const int64_t saved = t_mpi.timed_ns == 0 || passed > kBurstNs ? kBurstNs : t_mpi.credit_ns + passed;
  const int64_t credit = (saved < kBurstNs ? saved : kBurstNs) - int64_t{kTimedEveryNs};
  t_mpi.credit_ns = credit > 0 ? credit : 0;
  uint32_t untimed = 0;
  while (credit < 0 && untimed < kRarest && each_ns * (untimed + 1) < kTimedEveryNs) {
    untimed = untimed * 2 + 1;
  }
  put(thread.untimed, untimed);
  t_mpi.timed_ns = end_ns;
  t_mpi.timed_steps = steps;
  if (get(shared.records_times) == 0) {
    return;
  }
  if (site != nullptr) {
    add(site->timed, 1);
    add(site->timed_ns, time.duration_ns);
  }
  const uint64_t number = shared.timed_calls.fetch_add(1, std::memory_order_relaxed) + 1;
  wire::MpiTimedCall& to = shared.timed[(number - 1) & (wire::kMpiTimed - 1)];
  to.number.store(0, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  to.time = time;
  to.time.tid = get(thread.tid);
  to.number.store(number, std::memory_order_release);
}

}  // namespace xpurun::preload
