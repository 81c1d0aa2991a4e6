// The exported names. Each is one indirect jump through its slot (core/jump.h).

#include "preload/core/jump.h"
#include "preload/core/vendor.h"
#include "preload/hooks/calls_kernel.h"
#include "preload/hooks/calls_matmul.h"
#include "preload/hooks/calls_memory.h"
#include "preload/hooks/calls_nccl.h"
#include "preload/hooks/hook.h"
#include "preload/hooks/hook_list.h"

namespace xpurun::preload {

#define XPURUN_HOOK_TYPE(name, type, policy) Hook<wire::Api::name, type, policy, xpurun_slot_##name>

#define XPURUN_DEFINE(name, type, policy)                                                       \
  extern "C" {                                                                                  \
  __attribute__((visibility("hidden"))) extern std::atomic<type*> xpurun_slot_##name;           \
  constinit std::atomic<type*> xpurun_slot_##name{XPURUN_HOOK_TYPE(name, type, policy)::first}; \
  }                                                                                             \
  XPURUN_ENTRY(name, xpurun_slot_##name)

XPURUN_HOOKS(XPURUN_DEFINE)

void set_all_hooks(bool on) {
#define XPURUN_SET(name, type, policy) XPURUN_HOOK_TYPE(name, type, policy)::set(on);
  XPURUN_HOOKS(XPURUN_SET)
}

}  // namespace xpurun::preload
