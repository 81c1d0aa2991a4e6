// The exported names. Each is one indirect jump through its slot. Registers, stack and return address stay as
// the caller has set them, so the jump is right for any prototype. endbr64 and bti c (hint 34, which older
// assemblers know) allow indirect calls under Intel CET and Arm BTI.

#include "preload/core/vendor.h"
#include "preload/hooks/calls_kernel.h"
#include "preload/hooks/calls_matmul.h"
#include "preload/hooks/calls_memory.h"
#include "preload/hooks/calls_nccl.h"
#include "preload/hooks/hook.h"
#include "preload/hooks/hook_list.h"

#if defined(__x86_64__)
#define XPURUN_JUMP(name) "endbr64\njmp *xpurun_slot_" #name "(%rip)\n"
#elif defined(__aarch64__)
// Linkers may put code that changes x16 between any caller and callee, so nobody keeps a value in x16.
#define XPURUN_JUMP(name) \
  "hint #34\nadrp x16, xpurun_slot_" #name "\nldr x16, [x16, :lo12:xpurun_slot_" #name "]\nbr x16\n"
#else
#error "the entries are written for x86-64 and aarch64"
#endif

namespace xpurun::preload {

#define XPURUN_HOOK_TYPE(name, type, policy) Hook<wire::Api::name, type, policy, xpurun_slot_##name>

#define XPURUN_DEFINE(name, type, policy)                                                       \
  extern "C" {                                                                                  \
  __attribute__((visibility("hidden"))) extern std::atomic<type*> xpurun_slot_##name;           \
  constinit std::atomic<type*> xpurun_slot_##name{XPURUN_HOOK_TYPE(name, type, policy)::first}; \
  }                                                                                             \
  asm(".pushsection .text\n.globl " #name "\n.type " #name ", @function\n.p2align 4\n" #name    \
      ":\n.cfi_startproc\n" XPURUN_JUMP(name) ".cfi_endproc\n.size " #name ", . - " #name       \
                                              "\n.popsection\n");

XPURUN_HOOKS(XPURUN_DEFINE)

void set_all_hooks(bool on) {
#define XPURUN_SET(name, type, policy) XPURUN_HOOK_TYPE(name, type, policy)::set(on);
  XPURUN_HOOKS(XPURUN_SET)
}

}  // namespace xpurun::preload
