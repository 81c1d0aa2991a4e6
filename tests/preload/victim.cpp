// Dies in a chosen way, so that test_preload.py can compare the death with and without the preload library:
//   victim DEATH [main|thread] [SETUP...]
// Each SETUP is done first, in order. Built without optimisation and without sanitizers.

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern "C" sighandler_t bsd_signal(int, sighandler_t) __THROW;

namespace {

const int kSignals[] = {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGTERM};

const char* name_of(sighandler_t handler) {
  if (handler == SIG_DFL) {
    return "default";
  }
  return handler == SIG_IGN ? "ignore" : "handler";
}

void say(const char* text) {
  if (write(STDOUT_FILENO, text, strlen(text)) < 0) {
    _exit(99);
  }
}

void restoring_handler(int signal) {
  say("user handler\n");
  ::signal(signal, SIG_DFL);
  raise(signal);
}

void exiting_handler(int) {
  say("user handler\n");
  _exit(7);
}

void for_all_signals(sighandler_t handler) {
  for (const int signal : kSignals) {
    ::signal(signal, handler);
  }
}

// Every query has to give the same answer; restoring the old disposition must change nothing.
void query() {
  using Setter = sighandler_t (*)(int, sighandler_t);
  const Setter setters[] = {signal, bsd_signal, ssignal, sysv_signal, sigset};
  for (const int signal : kSignals) {
    struct sigaction now = {};
    sigaction(signal, nullptr, &now);
    printf("%d %s flags=%d", signal, name_of(now.sa_handler), now.sa_flags);
    for (const Setter setter : setters) {
      const sighandler_t was = setter(signal, SIG_IGN);
      const sighandler_t ignored = setter(signal, was);
      printf(" %s/%s", name_of(was), name_of(ignored));
    }
    printf("\n");
  }
  fflush(stdout);
}

// The kernel's dispositions, bypassing interposed functions: "1" for each signal with the default
// disposition.
void query_kernel() {
  for (const int signal : kSignals) {
    uint64_t action[4] = {};
    syscall(SYS_rt_sigaction, signal, nullptr, action, sizeof(uint64_t));
    say(action[0] == 0 ? "1" : "0");
  }
  say("\n");
}

void set_up(const char* what) {
  if (strcmp(what, "restoring-handler") == 0) {
    for_all_signals(restoring_handler);
  } else if (strcmp(what, "exiting-handler") == 0) {
    for_all_signals(exiting_handler);
  } else if (strcmp(what, "ignore") == 0) {
    for_all_signals(SIG_IGN);
  } else if (strcmp(what, "default") == 0) {
    for_all_signals(SIG_DFL);
  } else if (strcmp(what, "query") == 0) {
    query();
  } else if (strcmp(what, "query-kernel") == 0) {
    query_kernel();
  } else if (strcmp(what, "block-until-suspend") == 0) {
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, nullptr);
  } else {
    fprintf(stderr, "victim: unknown set-up %s\n", what);
    exit(98);
  }
}

volatile int g_zero = 0;
volatile int g_seven = 7;
volatile int* volatile g_null = nullptr;

__attribute__((noinline)) int overflow(volatile char* previous) {
  volatile char here[4096];
  here[0] = previous == nullptr ? '\0' : previous[0];
  return overflow(here) + here[1];
}

void read_past_the_end_of_a_file() {
  const int fd = memfd_create("empty", 0);
  volatile char* page = static_cast<volatile char*>(mmap(nullptr, 4096, PROT_READ, MAP_SHARED, fd, 0));
  printf("%d", page[0]);
}

void* hold(void*) {
  for (;;) {
    pause();
  }
}

void* fault(void*) {
  *g_null = 1;
  return nullptr;
}

// Several threads at the same instant.
void crash_together() {
  pthread_t threads[8];
  for (pthread_t& thread : threads) {
    pthread_create(&thread, nullptr, fault, nullptr);
  }
  hold(nullptr);
}

[[noreturn]] void crash_as_child() {
  kill(getpid(), SIGSEGV);
  _exit(96);
}

// The child crashes and is reported; then the parent crashes and must be reported as well.
void crash_after_child(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  printf("child %d\n", WTERMSIG(status));
  fflush(stdout);
  *g_null = 1;
}

void crash_after_fork() {
  const pid_t child = fork();
  if (child == 0) {
    crash_as_child();
  }
  crash_after_child(child);
}

// The child runs in the parent's memory.
void crash_after_vfork() {
  const pid_t child = vfork();
  if (child == 0) {
    crash_as_child();
  }
  crash_after_child(child);
}

// A worker that is ended by its own parent.
void terminate_child() {
  const pid_t child = fork();
  if (child == 0) {
    hold(nullptr);
  }
  kill(child, SIGTERM);
  int status = 0;
  waitpid(child, &status, 0);
  printf("child %d\n", WTERMSIG(status));
}

void suspend_and_be_killed() {
  sigset_t none;
  sigemptyset(&none);
  kill(getpid(), SIGTERM);
  sigsuspend(&none);
  say("survived\n");
}

void queue_to_self(int signal) {
  sigval value = {};
  value.sival_int = 5;
  sigqueue(getpid(), signal, value);
}

void die(const char* how) {
  struct Death {
    const char* name;
    void (*act)();
  };
  static const Death deaths[] = {
      {"exit", [] {}},
      {"null", [] { *g_null = 1; }},
      {"abort", [] { abort(); }},
      {"divide", [] { g_zero = g_seven / g_zero; }},
      {"illegal", [] { __builtin_trap(); }},
      {"bus", read_past_the_end_of_a_file},
      {"overflow", [] { g_zero = overflow(nullptr); }},
      {"raise-segv", [] { raise(SIGSEGV); }},
      {"raise-abrt", [] { raise(SIGABRT); }},
      {"raise-bus", [] { raise(SIGBUS); }},
      {"raise-fpe", [] { raise(SIGFPE); }},
      {"raise-ill", [] { raise(SIGILL); }},
      {"raise-term", [] { raise(SIGTERM); }},
      {"kill-segv", [] { kill(getpid(), SIGSEGV); }},
      {"kill-term", [] { kill(getpid(), SIGTERM); }},
      {"queue-fpe", [] { queue_to_self(SIGFPE); }},
      {"raise-usr1", [] { raise(SIGUSR1); }},
      {"together", crash_together},
      {"after-fork", crash_after_fork},
      {"after-vfork", crash_after_vfork},
      {"end-child", terminate_child},
      {"suspend", suspend_and_be_killed},
      {"hold", [] { hold(nullptr); }},
  };
  for (const Death& death : deaths) {
    if (strcmp(death.name, how) == 0) {
      death.act();
      return;
    }
  }
  fprintf(stderr, "victim: unknown death %s\n", how);
  exit(98);
}

void* die_in_thread(void* how) {
  die(static_cast<const char*>(how));
  return nullptr;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    fprintf(stderr, "usage: victim DEATH main|thread [SETUP...]\n");
    return 98;
  }
  for (int i = 3; i < argc; ++i) {
    set_up(argv[i]);
  }
  say("ready\n");
  if (strcmp(argv[2], "thread") == 0) {
    pthread_t thread;
    pthread_create(&thread, nullptr, die_in_thread, argv[1]);
    pthread_join(thread, nullptr);
  } else {
    die(argv[1]);
  }
  return 0;
}
