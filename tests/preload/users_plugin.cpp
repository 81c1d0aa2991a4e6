// A program's own profiler plugin, of the version PLUGIN_VERSION: asks for FAKE_PLUGIN_MASK, checks that it
// gets its own handles back, and that each is stopped once, and logs its events to the file
// FAKE_PLUGIN_LOG.
#include <fcntl.h>
#include <mutex>
#include <set>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

namespace {

std::mutex g_mutex;
// Never destroyed: NCCL's proxy calls while the process ends.
std::set<void*>& g_open = *new std::set<void*>;
std::set<void*>& g_contexts = *new std::set<void*>;
int g_started[16];
int g_stopped = 0;
int g_states = 0;
int g_inits = 0;
int g_finalized = 0;
int g_wrong = 0;
int* g_mask = nullptr;

void check(bool good) {
  g_wrong += good ? 0 : 1;
}

// Writes to one open file, because replacing a file can make each call wait for the disk.
void write_log() {
  static const int file = open(getenv("FAKE_PLUGIN_LOG"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  char text[512];
  int length = snprintf(text, sizeof(text), "inits %d finalized %d stopped %d states %d wrong %d open %zu",
                        g_inits, g_finalized, g_stopped, g_states, g_wrong, g_open.size());
  for (int i = 0; i < 16; ++i) {
    length += snprintf(text + length, sizeof(text) - static_cast<size_t>(length), " e%d %d", i, g_started[i]);
  }
  check(pwrite(file, text, static_cast<size_t>(length), 0) == length);
}

int initialise(void** context, int* mask) {
  const std::lock_guard lock(g_mutex);
  ++g_inits;
  g_mask = mask;
  *mask = atoi(getenv("FAKE_PLUGIN_MASK"));
  *context = malloc(8);
  g_contexts.insert(*context);
  write_log();
  return 0;
}

int start(void* context, void** handle, void* descriptor) {
  const std::lock_guard lock(g_mutex);
  check(g_contexts.count(context) == 1);
  uint64_t type = 0;
  memcpy(&type, descriptor, PLUGIN_VERSION >= 5 ? 8 : 1);
  void* parent = nullptr;
  memcpy(&parent, static_cast<char*>(descriptor) + 8, sizeof(parent));
  check(parent == nullptr || g_open.count(parent) == 1);
  if (PLUGIN_VERSION == 4 && type == 2) {
    check(parent != nullptr);  // the group
  }
  ++g_started[__builtin_ctzll(type)];
  *handle = malloc(8);
  g_open.insert(*handle);
  write_log();
  return 0;
}

// A collective's handle stays a parent of kernels after its stop: nothing leaves the set.
int stop(void* handle) {
  const std::lock_guard lock(g_mutex);
  check(g_open.count(handle) == 1);
  ++g_stopped;
  write_log();
  return 0;
}

int record(void* handle, int, void*) {
  const std::lock_guard lock(g_mutex);
  check(g_open.count(handle) == 1);
  ++g_states;
  write_log();
  return 0;
}

int finalize(void* context) {
  const std::lock_guard lock(g_mutex);
  check(g_contexts.count(context) == 1);
  ++g_finalized;
  write_log();
  return 0;
}

#if PLUGIN_VERSION >= 5
int init(void** context, uint64_t hash, int* mask, const char*, int, int, int, void*) {
  check(hash == 77);
  return initialise(context, mask);
}
#elif PLUGIN_VERSION == 4
int init(void** context, int* mask, const char*, uint64_t hash, int, int, int, void*) {
  check(hash == 77);
  return initialise(context, mask);
}
#else
int init(void** context, int* mask) {
  return initialise(context, mask);
}
#endif

}  // namespace

struct Table {
  const char* name;
  decltype(init)* init_function;
  decltype(start)* start_event;
  decltype(stop)* stop_event;
  decltype(record)* record_state;
  decltype(finalize)* finalize_function;
};

#define XPURUN_NAME(version) ncclProfiler_v##version
#define XPURUN_EXPORTED(version) XPURUN_NAME(version)
extern "C" {
__attribute__((visibility("default"))) extern const Table XPURUN_EXPORTED(PLUGIN_VERSION);
const Table XPURUN_EXPORTED(PLUGIN_VERSION) = {"a user's", init, start, stop, record, finalize};
}
