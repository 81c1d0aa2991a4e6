// A target for unwinding: threads that wait at the end of call chains with difficult frames: big and
// variable frames, callee-saved registers, callbacks from libc, tail calls, a second text segment, a
// signal
// handler on an alternate stack. Prints "ready". Without exceptions and heavy headers, because it is
// built many times.
#include <alloca.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KEEP __attribute__((noinline, noclone))
#ifdef SECOND_SEGMENT
#define FAR __attribute__((section(".text_far")))
#else
#define FAR
#endif

static sem_t arrived;
static volatile int zero;

extern "C" KEEP void wait_here(int n) {
  sem_post(&arrived);
  for (;;)
    pause();
  zero = n;
}

extern "C" KEEP FAR void variable_frame(int n) {
  char* room = static_cast<char*>(alloca(static_cast<size_t>(n % 7) * 100 + 32));
  memset(room, n, 32);
  wait_here(room[3]);
  zero = room[5];
}

extern "C" KEEP int compare(const void* a, const void* b) {
  variable_frame(*static_cast<const int*>(a));
  return *static_cast<const int*>(a) - *static_cast<const int*>(b);
}

template <int N>
struct Deep {
  KEEP static long go(long a, long b, long c, long d, long e) {
    volatile long here[N + 1] = {a};
    const long inner = Deep<N - 1>::go(b + 1, c * 2, d ^ a, e, a);
    return inner + here[0] + a * b - c * d + e;
  }
};
template <>
struct Deep<0> {
  KEEP static long go(long a, long b, long, long, long) {
    int numbers[4] = {static_cast<int>(a), static_cast<int>(b), 3, 1};
    qsort(numbers, 4, sizeof numbers[0], compare);
    return numbers[0];
  }
};

extern "C" KEEP FAR void in_handler(int n) {
  wait_here(n);
  zero = n;
}
extern "C" void handler(int n) {
  in_handler(n);
  zero = n;
}

extern "C" KEEP void interrupted(int n) {
  raise(SIGUSR1);
  zero = n;
}

static void* by_depth(void* n) {
  return reinterpret_cast<void*>(Deep<12>::go(reinterpret_cast<long>(n), 2, 3, 4, 5));
}
static void* by_signal(void*) {
  static char room[65536];
  stack_t own = {.ss_sp = room, .ss_flags = 0, .ss_size = sizeof room};
  sigaltstack(&own, nullptr);
  interrupted(1);
  zero = 2;
  return nullptr;
}

extern "C" __attribute__((visibility("default"))) int run_victim() {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = handler;
  action.sa_flags = SA_ONSTACK;
  sigaction(SIGUSR1, &action, nullptr);
  sem_init(&arrived, 0, 0);
  pthread_t thread;
  for (long i = 0; i < 3; ++i) {
    pthread_create(&thread, nullptr, by_depth, reinterpret_cast<void*>(i));
  }
  pthread_create(&thread, nullptr, by_signal, nullptr);
  for (int i = 0; i < 4; ++i) {
    sem_wait(&arrived);
  }
  puts("ready");
  fflush(stdout);
  by_depth(reinterpret_cast<void*>(7L));
  return zero;
}

#ifndef LIBRARY
int main() {
  return run_victim() + zero;
}
#endif
