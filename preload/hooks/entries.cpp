// The exported names. Each is one indirect jump through its slot. Registers, stack and return address stay as
// the caller set them, so the jump is correct for any prototype. endbr64 allows indirect calls under Intel
// CET.

#include "preload/core/vendor.h"
#include "preload/hooks/calls_kernel.h"
#include "preload/hooks/calls_matmul.h"
#include "preload/hooks/calls_memory.h"
#include "preload/hooks/calls_nccl.h"
#include "preload/hooks/hook.h"
#include "preload/hooks/hook_list.h"

#if !defined(__x86_64__)
#error "the entries are written for x86-64"
#endif

namespace xpurun::preload {

#define XPURUN_HOOK_TYPE(name, type, policy) Hook<wire::Api::name, type, policy, xpurun_slot_##name>

#define XPURUN_DEFINE(name, type, policy)                                                        \
  extern "C" {                                                                                   \
  __attribute__((visibility("hidden"))) extern std::atomic<type*> xpurun_slot_##name;            \
  constinit std::atomic<type*> xpurun_slot_##name{XPURUN_HOOK_TYPE(name, type, policy)::first};  \
  }                                                                                              \
  asm(".pushsection .text\n.globl " #name "\n.type " #name ", @function\n.p2align 4\n" #name     \
      ":\n.cfi_startproc\nendbr64\njmp *xpurun_slot_" #name "(%rip)\n.cfi_endproc\n.size " #name \
      ", . - " #name "\n.popsection\n");

XPURUN_HOOKS(XPURUN_DEFINE)

void set_all_hooks(bool on) {
#define XPURUN_SET(name, type, policy) XPURUN_HOOK_TYPE(name, type, policy)::set(on);
  XPURUN_HOOKS(XPURUN_SET)
}

}  // namespace xpurun::preload
