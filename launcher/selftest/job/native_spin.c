/* Ranks without Python and without a library that xpurun knows. Rank 1 spins until a flag is set, which
   nobody does; the others wait for a pipe. The directory of the job is the argument. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

static volatile int arrived;

static void wait_for_neighbour(void) {
  while (!arrived) {
  }
}

int main(int argc, char** argv) {
  char path[4096];
  const char* rank = getenv("RANK");
  if (argc < 2 || rank == NULL) {
    return 2;
  }
  if (atoi(rank) == 1) {
    /* The file's time is that of the fault. */
    snprintf(path, sizeof path, "%s/fault", argv[1]);
    fclose(fopen(path, "w"));
    wait_for_neighbour();
  }
  snprintf(path, sizeof path, "%s/pipe-%s", argv[1], rank);
  mkfifo(path, 0600);
  return open(path, O_RDONLY) < 0;
}
