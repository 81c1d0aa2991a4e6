"""Rank 0 encodes in one call whose own threads compute, like a tokeniser, while its main thread only waits for them."""

import ctypes
import ranks
import subprocess
import sys

SECONDS = float(sys.argv[1])
SOURCE = """
#include <pthread.h>
#include <time.h>
static double seconds;
static void *work(void *unused) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  const double end = t.tv_sec + t.tv_nsec * 1e-9 + seconds;
  do { clock_gettime(CLOCK_MONOTONIC, &t); } while (t.tv_sec + t.tv_nsec * 1e-9 < end);
  return unused;
}
void encode_batch(double s) {
  pthread_t threads[2];
  seconds = s;
  for (int i = 0; i < 2; ++i) pthread_create(&threads[i], 0, work, 0);
  for (int i = 0; i < 2; ++i) pthread_join(threads[i], 0);
}
"""

if ranks.RANK == 0:
    library = f"{ranks.SCRATCH}/encode.so"
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-pthread", "-x", "c", "-", "-o", library], input=SOURCE,
                   text=True, check=True)
    ctypes.CDLL(library).encode_batch(ctypes.c_double(SECONDS))
ranks.dist.barrier()
