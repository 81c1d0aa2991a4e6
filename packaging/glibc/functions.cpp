// libxpurun_glibc.so of the bundle: functions that our programs and libraries call and that glibc 2.28 does
// not have. Programs need this library behind libc.so.6, so that a libc that has a function wins. All
// functions may be called by any thread.
#undef _FILE_OFFSET_BITS  // with Meson's 64, stat() and stat64() are one name
#include <cerrno>
#include <cstdint>
#include <ctime>
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EXPORTED extern "C" __attribute__((visibility("default")))

static_assert(sizeof(struct stat) == sizeof(struct stat64), "one layout, which is the kernel's");

namespace {

constexpr int64_t kNsPerS = 1000000000;
// A wait on CLOCK_MONOTONIC waits on CLOCK_REALTIME in parts of this length, because somebody may set that
// clock.
constexpr int64_t kLongestPartNs = kNsPerS;

int64_t to_ns(const timespec& time) {
  return time.tv_sec * kNsPerS + time.tv_nsec;
}

int64_t now_ns(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return to_ns(now);
}

int stat_at(int directory, const char* path, void* out, int flags) {
  return static_cast<int>(syscall(SYS_newfstatat, directory, path, out, flags));
}

// The object whose code is looked for, and what is known about it.
struct Search {
  uintptr_t address;
  dl_find_object* out;
};

// Called for each loaded object; not 0 ends the walk.
int look_at(dl_phdr_info* object, size_t /*size*/, void* data) {
  auto* search = static_cast<Search*>(data);
  uintptr_t begin = UINTPTR_MAX;
  uintptr_t end = 0;
  void* frames = nullptr;
  bool is_inside = false;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = object->dlpi_phdr[i];
    const uintptr_t from = object->dlpi_addr + segment.p_vaddr;
    if (segment.p_type == PT_GNU_EH_FRAME) {
      frames = reinterpret_cast<void*>(from);
    } else if (segment.p_type == PT_LOAD) {
      const uintptr_t to = from + segment.p_memsz;
      begin = from < begin ? from : begin;
      end = to > end ? to : end;
      is_inside = is_inside || (from <= search->address && search->address < to);
    }
  }
  if (!is_inside) {
    return 0;
  }
  *search->out = {};
  search->out->dlfo_map_start = reinterpret_cast<void*>(begin);
  search->out->dlfo_map_end = reinterpret_cast<void*>(end);
  search->out->dlfo_eh_frame = frames;
  return 1;
}

}  // namespace

EXPORTED pid_t gettid() noexcept {
  return static_cast<pid_t>(syscall(SYS_gettid));
}

EXPORTED int stat(const char* path, struct stat* out) noexcept {
  return stat_at(AT_FDCWD, path, out, 0);
}

EXPORTED int stat64(const char* path, struct stat64* out) noexcept {
  return stat_at(AT_FDCWD, path, out, 0);
}

EXPORTED int lstat(const char* path, struct stat* out) noexcept {
  return stat_at(AT_FDCWD, path, out, AT_SYMLINK_NOFOLLOW);
}

EXPORTED int lstat64(const char* path, struct stat64* out) noexcept {
  return stat_at(AT_FDCWD, path, out, AT_SYMLINK_NOFOLLOW);
}

EXPORTED int fstat(int fd, struct stat* out) noexcept {
  return static_cast<int>(syscall(SYS_fstat, fd, out));
}

EXPORTED int fstat64(int fd, struct stat64* out) noexcept {
  return static_cast<int>(syscall(SYS_fstat, fd, out));
}

EXPORTED int fstatat(int directory, const char* path, struct stat* out, int flags) noexcept {
  return stat_at(directory, path, out, flags);
}

EXPORTED int fstatat64(int directory, const char* path, struct stat64* out, int flags) noexcept {
  return stat_at(directory, path, out, flags);
}

// By number, as in the kernel's x86-64 and generic tables.
EXPORTED const char* sigabbrev_np(int signal) noexcept {
  static constexpr const char* kNames[] = {
      nullptr, "HUP",  "INT",  "QUIT", "ILL",    "TRAP",   "ABRT",  "BUS",  "FPE",  "KILL", "USR1",
      "SEGV",  "USR2", "PIPE", "ALRM", "TERM",   "STKFLT", "CHLD",  "CONT", "STOP", "TSTP", "TTIN",
      "TTOU",  "URG",  "XCPU", "XFSZ", "VTALRM", "PROF",   "WINCH", "POLL", "PWR",  "SYS"};
  return signal > 0 && signal < static_cast<int>(sizeof kNames / sizeof *kNames) ? kNames[signal] : nullptr;
}

EXPORTED int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                                    const timespec* until) {
  if (clock == CLOCK_REALTIME) {
    return pthread_cond_timedwait(condition, mutex, until);
  }
  if (clock != CLOCK_MONOTONIC || until->tv_nsec < 0 || until->tv_nsec >= kNsPerS) {
    return EINVAL;
  }
  while (true) {
    const int64_t left = to_ns(*until) - now_ns(CLOCK_MONOTONIC);
    if (left <= 0) {
      return ETIMEDOUT;
    }
    const int64_t end = now_ns(CLOCK_REALTIME) + (left < kLongestPartNs ? left : kLongestPartNs);
    const timespec part{.tv_sec = end / kNsPerS, .tv_nsec = end % kNsPerS};
    if (const int result = pthread_cond_timedwait(condition, mutex, &part); result != ETIMEDOUT) {
      return result;
    }
  }
}

// For the unwinder of exceptions in libgcc, which reads dlfo_eh_frame alone.
EXPORTED int _dl_find_object(void* address, dl_find_object* out) noexcept {
  Search search{.address = reinterpret_cast<uintptr_t>(address), .out = out};
  return dl_iterate_phdr(look_at, &search) == 1 ? 0 : -1;
}
