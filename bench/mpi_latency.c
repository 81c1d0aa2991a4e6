/* Times of MPI with messages of 8 bytes, in ns, each the least of the means over many rounds:
   half of the round trip between two ranks (wall time), and the CPU time of MPI_Send to no rank, of MPI_Sendrecv with
   the rank itself, and of MPI_Irecv, MPI_Send and MPI_Wait together. bench/mpi_latency.py runs it. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { MESSAGES = 2000 };

static int rank;
static double out, in;

static double now(clockid_t clock) {
  struct timespec time;
  clock_gettime(clock, &time);
  return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static void ping_pong(void) {
  const int peer = 1 - rank;
  if (rank == 0) {
    MPI_Send(&out, 1, MPI_DOUBLE, peer, 1, MPI_COMM_WORLD);
    MPI_Recv(&in, 1, MPI_DOUBLE, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  } else {
    MPI_Recv(&in, 1, MPI_DOUBLE, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Send(&out, 1, MPI_DOUBLE, peer, 1, MPI_COMM_WORLD);
  }
}

static void to_nobody(void) {
  MPI_Send(&out, 1, MPI_DOUBLE, MPI_PROC_NULL, 1, MPI_COMM_WORLD);
}

static void with_itself(void) {
  MPI_Sendrecv(&out, 1, MPI_DOUBLE, rank, 2, &in, 1, MPI_DOUBLE, rank, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void by_request(void) {
  MPI_Request request;
  MPI_Irecv(&in, 1, MPI_DOUBLE, rank, 3, MPI_COMM_WORLD, &request);
  MPI_Send(&out, 1, MPI_DOUBLE, rank, 3, MPI_COMM_WORLD);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static double least(void (*call)(void), clockid_t clock, int rounds) {
  double best = 1e18;
  for (int round = 0; round < rounds; ++round) {
    const double begin = now(clock);
    for (int i = 0; i < MESSAGES; ++i) {
      call();
    }
    const double mean = (now(clock) - begin) / MESSAGES;
    best = mean < best ? mean : best;
  }
  return best;
}

int main(int argc, char **argv) {
  const int rounds = argc > 1 ? atoi(argv[1]) : 200;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const double half = least(ping_pong, CLOCK_MONOTONIC, rounds) / 2;
  const double nobody = least(to_nobody, CLOCK_THREAD_CPUTIME_ID, rounds);
  const double itself = least(with_itself, CLOCK_THREAD_CPUTIME_ID, rounds);
  const double request = least(by_request, CLOCK_THREAD_CPUTIME_ID, rounds);
  if (rank == 0) {
    printf("%.1f %.1f %.1f %.1f\n", half, nobody, itself, request);
  }
  MPI_Finalize();
  return 0;
}
