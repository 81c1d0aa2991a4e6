// A program in C++ whose memory xpurun samples. The first word says what it does; it ends with "done" on its
// standard output.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <vector>

namespace {

std::vector<void*> g_kept;

__attribute__((noinline)) void keep_blocks(int count) {
  for (int i = 0; i < count; ++i) {
    void* block = std::malloc(1 << 20);
    std::memset(block, 1, 1 << 20);
    g_kept.push_back(block);  // the line after the one that leaks
  }
}

int wait_for(const char* go) {
  std::printf("leaked\n");
  std::fflush(stdout);
  while (access(go, F_OK) != 0) {
    usleep(20'000);
  }
  return 0;
}

// Everything that gives memory, in sizes that are samples and in others.
void use_all(size_t size) {
  void* a = std::malloc(size);
  a = std::realloc(a, 2 * size);
  void* b = std::calloc(size, 1);
  void* c = nullptr;
  void* e = aligned_alloc(64, (size | 63) + 1);
  if (posix_memalign(&c, 64, size) != 0 || e == nullptr) {
    std::abort();
  }
  char* d = new char[size];
  void* m = mmap(nullptr, size + (64 << 10), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  m = mremap(m, size + (64 << 10), 2 * size + (128 << 10), MREMAP_MAYMOVE);
  std::memset(a, 1, 2 * size);
  std::memset(b, 1, size);
  std::memset(c, 1, size);
  std::memset(d, 1, size);
  munmap(m, 2 * size + (128 << 10));
  std::free(a);
  std::free(b);
  std::free(c);
  std::free(e);
  delete[] d;
}

void free_at_exit(void* memory) {
  std::free(memory);
  use_all(300'000);
}

pthread_key_t g_key;

// Threads allocate until their last destructor.
void* thread_main(void*) {
  pthread_setspecific(g_key, std::malloc(2 << 20));
  for (size_t size = 1; size < (2 << 20); size *= 3) {
    use_all(size);
  }
  return nullptr;
}

int threads(const char* go) {
  pthread_key_create(&g_key, free_at_exit);
  for (int round = 0; round < 50; ++round) {
    pthread_t all[8];
    for (pthread_t& one : all) {
      pthread_create(&one, nullptr, thread_main, nullptr);
    }
    for (pthread_t& one : all) {
      pthread_join(one, nullptr);
    }
  }
  return wait_for(go);
}

void* fork_often(void*) {
  for (int i = 0; i < 40; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      for (void* block : g_kept) {
        std::free(block);
      }
      use_all(1 << 20);
      _exit(0);
    }
    int status = 0;
    if (waitpid(child, &status, 0) != child || status != 0) {
      std::abort();
    }
    use_all(100'000);
  }
  return nullptr;
}

// Forks from several threads, while others allocate. The children free what the parent keeps.
int forks(const char* go) {
  keep_blocks(100);
  pthread_t all[4];
  for (pthread_t& one : all) {
    pthread_create(&one, nullptr, fork_often, nullptr);
  }
  for (pthread_t& one : all) {
    pthread_join(one, nullptr);
  }
  return wait_for(go);
}

int leak(const char* go) {
  keep_blocks(100);
  return wait_for(go);
}

double cpu_ns() {
  timespec used{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) * 1e9 + static_cast<double>(used.tv_nsec);
}

// CPU time of a malloc() with its free(), the shortest of many rounds; for bench/heap_samples.py.
int pairs() {
  constexpr int kPairs = 1'000'000;
  double best = 1e18;
  for (int round = 0; round < 40; ++round) {
    const double begin = cpu_ns();
    for (int i = 0; i < kPairs; ++i) {
      void* volatile block = std::malloc(64);
      std::free(block);
    }
    const double each = (cpu_ns() - begin) / kPairs;
    best = each < best ? each : best;
  }
  std::printf("%.2f\n", best);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "";
  const char* go = argc > 2 ? argv[2] : "/";
  const int result = std::strcmp(what, "threads") == 0 ? threads(go)
                     : std::strcmp(what, "forks") == 0 ? forks(go)
                     : std::strcmp(what, "pairs") == 0 ? pairs()
                                                       : leak(go);
  std::printf("done\n");
  return result;
}
