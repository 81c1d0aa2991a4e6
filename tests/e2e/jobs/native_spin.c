/* Ranks without MPI and without Python that meet in shared memory and spin while they wait.
   usage: native_spin NAME FILE SECONDS, with RANK and WORLD_SIZE in the environment */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

struct meeting {
  atomic_int flag, arrived, round;
};
static struct meeting *shared;
static int rank, size;

__attribute__((noinline)) static void meet(void) {
  const int round = atomic_load(&shared->round);
  if (atomic_fetch_add(&shared->arrived, 1) == size - 1) {
    atomic_store(&shared->arrived, 0);
    atomic_fetch_add(&shared->round, 1);
  }
  while (atomic_load(&shared->round) == round) {
  }
}

/* Nobody sets the flag. */
__attribute__((noinline)) static void wait_for_flag(void) {
  while (atomic_load(&shared->flag) == 0) { /* spins */
  }
}

/* Real work in one function. */
__attribute__((noinline)) static double compute(double seconds) {
  struct timespec now;
  double x = 1;
  clock_gettime(CLOCK_MONOTONIC, &now);
  for (const time_t end = now.tv_sec + (time_t)seconds; now.tv_sec < end; clock_gettime(CLOCK_MONOTONIC, &now)) {
    for (int i = 0; i < 10000000; ++i) {
      x = x * 1.0000001 + 1e-9;
    }
  }
  return x;
}

int main(int argc, char **argv) {
  rank = atoi(getenv("RANK"));
  size = atoi(getenv("WORLD_SIZE"));
  const int file = open(argv[2], O_RDWR | O_CREAT, 0600);
  if (argc < 4 || ftruncate(file, 4096) != 0) {
    return 2;
  }
  shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  for (int i = 0; i < 3; ++i) {
    meet();
  }
  double result = 1;
  if (rank == 1 && strcmp(argv[1], "flag") == 0) {
    wait_for_flag();
  } else if (rank == 1) {
    result = compute(atof(argv[3]));
  }
  meet();
  return result == 0;
}
