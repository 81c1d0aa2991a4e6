// A program in C that marks its steps with xpurun.h: marks_victim weak|dlsym STEPS [fork|threads|passes].
#include "include/xpurun.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

void (*g_step)();

void step() {
  if (g_step != nullptr) {
    g_step();
  } else {
    XPURUN_STEP();
  }
}

void* mark_often(void* count) {
  for (long i = 0; i < reinterpret_cast<long>(count); ++i) {
    step();
  }
  return nullptr;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    return 2;
  }
  const bool by_name = strcmp(argv[1], "dlsym") == 0;
  void* found = dlsym(RTLD_DEFAULT, "xpurun_step");
  if (by_name) {
    memcpy(&g_step, &found, sizeof g_step);
  }
  const char* what = argc > 3 ? argv[3] : "";
  const int steps = atoi(argv[2]);
  printf("%s\n", (by_name ? found != nullptr : xpurun_step != nullptr) ? "with xpurun" : "without xpurun");
  if (strcmp(what, "threads") == 0) {
    step();  // the first mark asks for memory
    pthread_t threads[4];
    for (pthread_t& one : threads) {
      pthread_create(&one, nullptr, mark_often, reinterpret_cast<void*>(static_cast<long>(steps)));
    }
    for (const pthread_t& one : threads) {
      pthread_join(one, nullptr);
    }
    return 0;
  }
  for (int i = 0; i < steps; ++i) {
    if (strcmp(what, "passes") == 0) {
      for (int batch = 0; batch < 2; ++batch) {
        XPURUN_FORWARD_BEGIN(batch, -1);
        XPURUN_FORWARD_BEGIN(9, -1);  // a part of the outer one
        usleep(500);
        XPURUN_FORWARD_END();
        XPURUN_FORWARD_END();
        XPURUN_BACKWARD_BEGIN(batch, 1);
        usleep(1000);
        XPURUN_BACKWARD_END();
      }
      XPURUN_BACKWARD_END();  // without a begin
    }
    usleep(3000);
    step();
    if (strcmp(what, "fork") == 0 && i == steps / 2) {
      const pid_t child = fork();
      if (child == 0) {
        for (int k = 0; k < 100; ++k) {
          step();
        }
        _exit(0);
      }
      waitpid(child, nullptr, 0);
    }
  }
  return 0;
}
