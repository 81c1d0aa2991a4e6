/* A job of three ranks in MPI with the fault that the first argument names. The lines of the calls are found by their
   comments. */
#include <fcntl.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LARGE = 1 << 18 };
static int rank, size, number;
static double buffer[2][LARGE];

static void collective(void) {
  MPI_Comm row;
  double sum;
  if (rank == 2) {
    MPI_Allreduce(&buffer[0][0], &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD); /* reduces */
  } else {
    MPI_Comm_split(MPI_COMM_WORLD, 0, rank, &row); /* splits */
  }
}

static void ring(void) {
  MPI_Send(buffer[0], LARGE, MPI_DOUBLE, (rank + 1) % size, 1, MPI_COMM_WORLD); /* sends */
  MPI_Recv(buffer[1], LARGE, MPI_DOUBLE, (rank + size - 1) % size, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void tag(void) {
  if (rank == 0) {
    MPI_Send(&number, 1, MPI_INT, 1, 7, MPI_COMM_WORLD);
  } else if (rank == 1) {
    MPI_Recv(&number, 1, MPI_INT, 0, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE); /* receives */
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

/* The master waits for one result more than there are. */
static void wildcard(void) {
  if (rank == 0) {
    for (int i = 0; i < size; ++i) {
      MPI_Recv(&number, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE); /* any */
    }
  } else {
    MPI_Send(&number, 1, MPI_INT, 0, rank, MPI_COMM_WORLD);
    MPI_Recv(&number, 1, MPI_INT, 0, 99, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
}

static void window(void) {
  MPI_Win shared;
  MPI_Win_create(&number, sizeof number, sizeof number, MPI_INFO_NULL, MPI_COMM_WORLD, &shared);
  if (rank == 0) {
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 2, 0, shared);
  }
  if (rank != 1) {
    MPI_Barrier(MPI_COMM_WORLD); /* holds */
  } else {
    usleep(300000);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 2, 0, shared); /* locks */
    MPI_Barrier(MPI_COMM_WORLD);
  }
}

/* Rank 0 polls in a loop of its own for a message that nobody sends. */
static void poll(void) {
  MPI_Request request;
  int done = 0;
  if (rank == 0) {
    MPI_Irecv(&number, 1, MPI_INT, 1, 5, MPI_COMM_WORLD, &request);
    while (!done) {
      MPI_Test(&request, &done, MPI_STATUS_IGNORE); /* polls */
    }
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

static void crash(void) {
  if (rank == 1) {
    MPI_Send((void *)16, LARGE, MPI_DOUBLE, 0, 1, MPI_COMM_WORLD); /* crashes */
  } else if (rank == 0) {
    MPI_Recv(buffer[1], LARGE, MPI_DOUBLE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

static void error(void) {
  if (rank == 1) {
    MPI_Send(&number, 1, MPI_INT, 77, 1, MPI_COMM_WORLD); /* errs */
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

static void aborts(void) {
  if (rank == 1) {
    MPI_Abort(MPI_COMM_WORLD, 3); /* aborts */
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

/* Waits that end, each longer than the timeout, while another rank works or polls with a result now and then. */
static void healthy(void) {
  for (int round = 0; round < 2; ++round) {
    if (rank == 0) {
      for (int i = 0; i < 14; ++i) {
        usleep(250000);
        MPI_Send(&number, 1, MPI_INT, 1, 3, MPI_COMM_WORLD);
      }
    } else if (rank == 1) {
      for (int got = 0, flag = 0; got < 14; got += flag) {
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
        if (flag) {
          MPI_Recv(&number, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
      }
    }
    MPI_Barrier(MPI_COMM_WORLD);
  }
}

/* Rank 2 needs three times as long as the others for its part of each step. */
static void imbalance(void) {
  volatile double value = 0;
  double sum = 0;
  for (int step = 0; step < 300; ++step) {
    for (int i = 0; i < (rank == 2 ? 3000000 : 1000000); ++i) {
      value = value + i;
    }
    MPI_Sendrecv(&number, 1, MPI_INT, (rank + 1) % size, 4, &number, 1, MPI_INT, /* exchanges */
                 (rank + size - 1) % size, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Allreduce(&buffer[0][0], &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD); /* joins */
  }
}

/* Many small messages, of which only some are timed. */
static void stream(void) {
  for (int i = 0; i < 100000; ++i) {
    if (rank == 0) {
      MPI_Send(&number, 1, MPI_INT, 1, 2, MPI_COMM_WORLD); /* streams */
    } else if (rank == 1) {
      MPI_Recv(&number, 1, MPI_INT, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE); /* takes */
    }
  }
}

/* Rank 0 ends with two receives that it never completes. */
static void leaves(void) {
  MPI_Request requests[2];
  for (int i = 0; i < 2 && rank == 0; ++i) {
    MPI_Irecv(buffer[i], LARGE, MPI_DOUBLE, 1, i, MPI_COMM_WORLD, &requests[i]); /* leaves */
  }
}

/* Rank 0 begins an epoch with rank 1, which has not opened its window. */
static void epoch(void) {
  const int target = 1;
  MPI_Win shared;
  MPI_Group world, targets;
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  MPI_Group_incl(world, 1, &target, &targets);
  MPI_Win_create(&number, sizeof number, sizeof number, MPI_INFO_NULL, MPI_COMM_WORLD, &shared);
  if (rank == 0) {
    MPI_Win_start(targets, 0, shared); /* begins */
    MPI_Put(&rank, 1, MPI_INT, 1, 0, 1, MPI_INT, shared);
    MPI_Win_complete(shared);
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

/* The leaders of two groups use different tags. */
static void leaders(void) {
  MPI_Comm half, both;
  const int second = rank == 1;
  MPI_Comm_split(MPI_COMM_WORLD, second, rank, &half);
  MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, second ? 0 : 1, second ? 9 : 8, &both); /* meets */
}

/* Ranks 0 and 2 as one group, rank 1 as the other: rank 2 leaves out what all three make. */
static void groups(void) {
  MPI_Comm half, both;
  const int second = rank == 1;
  MPI_Comm_split(MPI_COMM_WORLD, second, rank, &half);
  MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, second ? 0 : 1, 8, &both);
  for (int i = 0; i < 3; ++i) {
    MPI_Barrier(both); /* joins both */
  }
  if (rank != 2) {
    MPI_Barrier(both); /* misses */
  }
  MPI_Recv(&number, 1, MPI_INT, (rank + 1) % size, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE); /* next */
}

#if MPI_VERSION >= 4
/* Rank 0 marks three of four partitions as ready. */
static void partitions(void) {
  MPI_Request request;
  if (rank == 0) {
    MPI_Psend_init(buffer[0], 4, 10, MPI_DOUBLE, 1, 3, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    MPI_Start(&request);
    MPI_Pready_range(0, 2, request);
    MPI_Wait(&request, MPI_STATUS_IGNORE); /* lacks */
  } else if (rank == 1) {
    MPI_Precv_init(buffer[0], 4, 10, MPI_DOUBLE, 0, 3, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    MPI_Start(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

/* Rank 1 starts its persistent collective once less. */
static void persistent(void) {
  MPI_Request request;
  MPI_Allreduce_init(buffer[0], buffer[1], 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
  for (int i = 0; i < (rank == 1 ? 4 : 5); ++i) {
    MPI_Start(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
  MPI_Barrier(MPI_COMM_WORLD); /* early */
}
#endif

/* Correct: epochs in both directions, a persistent collective where there is one, and a joint communicator. */
static void epochs(void) {
  MPI_Win shared;
  MPI_Group world, next, last;
  const int to = (rank + 1) % size, from = (rank + size - 1) % size;
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  MPI_Group_incl(world, 1, &to, &next);
  MPI_Group_incl(world, 1, &from, &last);
  MPI_Win_create(&number, sizeof number, sizeof number, MPI_INFO_NULL, MPI_COMM_WORLD, &shared);
  for (int i = 0; i < 20; ++i) {
    int done = 0;
    MPI_Win_post(last, 0, shared);
    MPI_Win_start(next, 0, shared);
    MPI_Put(&rank, 1, MPI_INT, to, 0, 1, MPI_INT, shared);
    MPI_Win_complete(shared);
    while (!done) {
      MPI_Win_test(shared, &done);
    }
    usleep(rank == 2 && i % 10 == 0 ? 1200000 : 0);
  }
  MPI_Win_free(&shared);
}

/* Correct: each call ignores an argument, so that the program passes none for it. */
static void ignored(void) {
  int all[8] = {0};
  const int root = rank == 0;
  MPI_Datatype none = root ? MPI_DATATYPE_NULL : MPI_INT, other = root ? MPI_INT : MPI_DATATYPE_NULL;
  void *buffer_of_root = root ? all : NULL;
  for (int round = 0; round < 2; ++round) {
    MPI_Gather(root ? MPI_IN_PLACE : &number, 1, none, buffer_of_root, 1, other, 0, MPI_COMM_WORLD);
    MPI_Scatter(buffer_of_root, 1, other, root ? MPI_IN_PLACE : &number, 1, none, 0, MPI_COMM_WORLD);
    MPI_Reduce(root ? MPI_IN_PLACE : &number, buffer_of_root, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, 1, MPI_INT, MPI_COMM_WORLD);
    MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, 1, MPI_INT, MPI_COMM_WORLD);
    MPI_Allreduce(MPI_IN_PLACE, all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Send(NULL, 0, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD);
  }
}

/* Steps with marks, until rank 1 opens a FIFO that nobody writes to. */
static const char *path;
__attribute__((weak)) void xpurun_step(void);
static void image(void) {
  for (int step = 0; step < 900; ++step) {
    MPI_Barrier(MPI_COMM_WORLD);
    if (xpurun_step) {
      xpurun_step();
    }
    usleep(5000);
    if (step == 120 && rank == 1) {
      open(path, O_RDONLY); /* opens */
    }
  }
}

int main(int argc, char **argv) {
  const struct {
    const char *name;
    void (*run)(void);
  } faults[] = {{"collective", collective}, {"ring", ring},   {"tag", tag},     {"wildcard", wildcard},
                {"window", window},         {"poll", poll},   {"crash", crash}, {"healthy", healthy},
                {"error", error},           {"aborts", aborts}, {"imbalance", imbalance}, {"stream", stream},
                {"leaves", leaves},         {"ignored", ignored}, {"epoch", epoch}, {"leaders", leaders},
                {"groups", groups},         {"epochs", epochs}, {"image", image},
#if MPI_VERSION >= 4
                {"partitions", partitions}, {"persistent", persistent},
#endif
  };
  path = argc > 2 ? argv[2] : "";
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (int i = 0; i < 5; ++i) {
    MPI_Barrier(MPI_COMM_WORLD);
  }
  for (size_t i = 0; i < sizeof faults / sizeof *faults; ++i) {
    if (strcmp(faults[i].name, argv[1]) == 0) {
      faults[i].run();
    }
  }
  MPI_Finalize();
  return 0;
}
