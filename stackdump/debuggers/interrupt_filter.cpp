#include "stackdump/debuggers/interrupt_filter.h"

#include <array>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

namespace xpurun::stackdump {

namespace {

#if defined(__x86_64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#else
#error "add the AUDIT_ARCH_ constant of this architecture"
#endif

constexpr uint16_t kLoad = BPF_LD | BPF_W | BPF_ABS;
constexpr uint16_t kSkipUnlessEqual = BPF_JMP | BPF_JEQ | BPF_K;
constexpr uint16_t kReturn = BPF_RET | BPF_K;

// A test that fails skips `otherwise` instructions.
constexpr sock_filter must_equal(uint32_t value, uint8_t otherwise) {
  return {.code = kSkipUnlessEqual, .jt = 0, .jf = otherwise, .k = value};
}

constexpr sock_filter load(size_t offset) {
  return {.code = kLoad, .jt = 0, .jf = 0, .k = static_cast<uint32_t>(offset)};
}

constexpr sock_filter answer(uint32_t action) {
  return {.code = kReturn, .jt = 0, .jf = 0, .k = action};
}

}  // namespace

bool drop_interrupts() {
  // The lower half of an argument comes first: both architectures are little-endian.
  std::array<sock_filter, 8> program{load(offsetof(seccomp_data, arch)),    must_equal(kArchitecture, 5),
                                     load(offsetof(seccomp_data, nr)),      must_equal(SYS_kill, 3),
                                     load(offsetof(seccomp_data, args[1])), must_equal(SIGINT, 1),
                                     answer(SECCOMP_RET_ERRNO | 0),         answer(SECCOMP_RET_ALLOW)};
  const sock_fprog filter{.len = program.size(), .filter = program.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

}  // namespace xpurun::stackdump
