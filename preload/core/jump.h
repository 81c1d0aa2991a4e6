// An exported name that is one indirect jump through a slot. Registers, stack and return address stay as the
// caller has set them, so the jump is right for any prototype. endbr64 and bti c (hint 34, which older
// assemblers know) allow indirect calls under Intel CET and Arm BTI.
#pragma once

#if defined(__x86_64__)
#define XPURUN_JUMP(slot) "endbr64\njmp *" slot "(%rip)\n"
#elif defined(__aarch64__)
// Linkers may put code that changes x16 between any caller and callee, so nobody keeps a value in x16.
#define XPURUN_JUMP(slot) "hint #34\nadrp x16, " slot "\nldr x16, [x16, :lo12:" slot "]\nbr x16\n"
#else
#error "the entries are written for x86-64 and aarch64"
#endif

// The slot is a variable with C linkage and hidden visibility.
#define XPURUN_ENTRY(name, slot)                                                             \
  asm(".pushsection .text\n.globl " #name "\n.type " #name ", @function\n.p2align 4\n" #name \
      ":\n.cfi_startproc\n" XPURUN_JUMP(#slot) ".cfi_endproc\n.size " #name ", . - " #name   \
                                               "\n.popsection\n");
