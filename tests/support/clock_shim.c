// Moves the clock of a process by CLOCK_SHIM_S seconds, as on a host whose clock is wrong. Preloaded.
// Waits until a moment of the wall clock are moved back, because the kernel's clock is right.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static time_t offset(void) {
  static int known;
  static time_t value;
  if (!known) {
    const char* text = getenv("CLOCK_SHIM_S");
    value = text ? atol(text) : 0;
    known = 1;
  }
  return value;
}

static int is_wall(clockid_t clock) {
  return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
}

int clock_gettime(clockid_t clock, struct timespec* out) {
  const int result = (int)syscall(SYS_clock_gettime, clock, out);
  if (result == 0 && is_wall(clock)) {
    out->tv_sec += offset();
  }
  return result;
}

int gettimeofday(struct timeval* out, void* zone) {
  struct timespec now;
  (void)zone;
  clock_gettime(CLOCK_REALTIME, &now);
  out->tv_sec = now.tv_sec;
  out->tv_usec = now.tv_nsec / 1000;
  return 0;
}

time_t time(time_t* out) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (out) {
    *out = now.tv_sec;
  }
  return now.tv_sec;
}

// A condition variable does not tell its clock. This machine has not been up for thirty years.
int pthread_cond_timedwait(pthread_cond_t* condition, pthread_mutex_t* mutex, const struct timespec* until) {
  static int (*real)(pthread_cond_t*, pthread_mutex_t*, const struct timespec*);
  if (!real) {
    real = dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
  }
  struct timespec moved = *until;
  if (moved.tv_sec > 1000000000) {
    moved.tv_sec -= offset();
  }
  return real(condition, mutex, &moved);
}

int sem_timedwait(sem_t* semaphore, const struct timespec* until) {
  static int (*real)(sem_t*, const struct timespec*);
  if (!real) {
    real = dlsym(RTLD_NEXT, "sem_timedwait");
  }
  struct timespec moved = *until;
  moved.tv_sec -= offset();
  return real(semaphore, &moved);
}
