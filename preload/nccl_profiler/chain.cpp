#include "preload/nccl_profiler/chain.h"

#include "common/wire/nccl_profiler.h"
#include "preload/core/state.h"
#include "preload/nccl_profiler/event_gate.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

namespace xpurun::preload {

namespace {

struct Chain {
  const ProfilerTableV1* v1 = nullptr;  // also holds the parts common to all versions
  int version = 0;                      // version of that table
  int called = 0;                       // the version that NCCL calls
  int found = 0;                        // the newest version that the plugin exports
  int mask = 0;                         // events that the plugin requests, over all communicators
  std::atomic<wire::ChainState> state{wire::ChainState::none};
};
constinit Chain g_chain;

constexpr int kBelowProxyOp = kEventProxyStep | kEventNetPlugin;
constexpr int kBelowColl = kEventProxyOp | kBelowProxyOp | kEventKernelCh;
constexpr int kCopyEngine = kEventCeColl | kEventCeSync | kEventCeBatch;

// NCCL also sends an event if only events below it in the hierarchy are wanted (ncclProfilerStart*Event in
// its plugin/profiler.cc).
int wanted_by(int type) {
  switch (type) {
    case kEventGroup:
      return kEventGroup | kEventColl | kEventP2p | kBelowColl;
    case kEventColl:
      return kEventColl | kBelowColl;
    case kEventP2p:
      return kEventP2p | kBelowColl;
    case kEventProxyOp:
      return kEventProxyOp | kBelowProxyOp;
    case kEventProxyStep:
      return kBelowProxyOp;
    case kEventGroupApi:
      return kEventGroupApi | kEventCollApi | kEventP2pApi | kEventKernelLaunch | kEventGroup | kEventColl |
             kEventP2p | kBelowColl | kCopyEngine;
    case kEventCollApi:
      return kEventCollApi | kEventColl | kBelowColl | kCopyEngine;
    case kEventP2pApi:
      return kEventP2pApi | kEventP2p | kBelowColl;
    case kEventCeColl:
      return kCopyEngine;
    default:
      return type;
  }
}

// Version 6 only added event types to version 5. Version 4 is the start of version 5, with another parent.
bool can_serve(int plugin, int called) {
  return plugin == called || (called >= 5 && plugin >= 4 && plugin < called);
}

bool is_word(const char* value, const char* word) {
  return strcasecmp(value, word) == 0;
}

// NCCL's search (openPluginLib in its plugin/plugin_open.cc): the value as a file, then as part of a file
// name.
void* open_library(const char* value) {
  if (void* library = dlopen(value, RTLD_NOW | RTLD_LOCAL)) {
    return library;
  }
  char name[wire::kNcclPluginNameBytes];
  const int length = snprintf(name, sizeof(name), "libnccl-profiler-%s.so", value);
  if (strchr(value, '/') != nullptr || length < 0 || static_cast<size_t>(length) >= sizeof(name)) {
    return nullptr;
  }
  return dlopen(name, RTLD_NOW | RTLD_LOCAL);
}

// Without a name NCCL tries the default plugin, then the network plugin, which may export the tables too.
void* open_default() {
  if (void* library = dlopen("libnccl-profiler.so", RTLD_NOW | RTLD_LOCAL)) {
    return library;
  }
  return dlopen("libnccl-net.so", RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
}

// True for the tables of this library, which the user's setting or a search may lead to.
bool is_own_table(const void* table) {
  Dl_info theirs{};
  Dl_info ours{};
  return dladdr(table, &theirs) != 0 && dladdr(reinterpret_cast<const void*>(&open_chain), &ours) != 0 &&
         theirs.dli_fbase == ours.dli_fbase;
}

const void* newest_table(void* library, int from, int* version) {
  for (*version = from; *version > 0; --*version) {
    char name[] = "ncclProfiler_v0";
    name[sizeof(name) - 2] = static_cast<char>('0' + *version);
    const void* table = dlsym(library, name);
    if (table != nullptr && !is_own_table(table)) {
      return table;
    }
  }
  return nullptr;
}

}  // namespace

void open_chain(const char* value, int version) {
  using Chained = wire::ChainState;
  if (is_word(value, "none")) {
    return;
  }
  g_chain.called = version;
  void* library = is_word(value, "STATIC_PLUGIN") ? RTLD_NEXT
                  : value[0] != '\0'              ? open_library(value)
                                                  : open_default();
  int found = 0;
  const void* table = library == nullptr ? nullptr : newest_table(library, version, &found);
  // The program's next dlerror() must not report these failed searches.
  dlerror();
  if (table == nullptr) {
    g_chain.state = value[0] == '\0' ? Chained::none : Chained::not_found;
    return;
  }
  g_chain.found = found;
  if (!can_serve(found, version)) {
    g_chain.state = Chained::other_version;
    return;
  }
  g_chain.version = found;
  g_chain.v1 = static_cast<const ProfilerTableV1*>(table);
  set_users_mask(&g_chain.mask);
  g_chain.state = Chained::forwarded;
}

bool has_chain() {
  return g_chain.v1 != nullptr;
}

wire::ChainState chain_state() {
  return g_chain.state;
}

int chain_version() {
  return g_chain.found;
}

int chain_init(void** context, const Communicator& comm) {
  const Inside inside;
  int* mask = &g_chain.mask;
  const void* table = g_chain.v1;
  if (g_chain.version >= 5) {
    return static_cast<const ProfilerTableV5*>(table)->init(context, comm.hash, mask, comm.name, comm.nodes,
                                                            comm.ranks, comm.rank, comm.log);
  }
  if (g_chain.version == 4) {
    return static_cast<const ProfilerTableV4*>(table)->init(context, mask, comm.name, comm.hash, comm.nodes,
                                                            comm.ranks, comm.rank, comm.log);
  }
  return g_chain.v1->init(context, mask);
}

bool chain_wants(int type) {
  const bool known =
      type <= kEventNetPlugin || g_chain.version >= 6 || (g_chain.version == 5 && type <= kEventKernelLaunch);
  return known && (users_events() & wanted_by(type)) != 0;
}

int chain_start(void* context, void** handle, void* descriptor, void* parent) {
  const Inside inside;
  auto* head = static_cast<EventHead*>(descriptor);
  void* const before = head->parent;
  head->parent = parent;
  if (g_chain.version == 4 && g_chain.called >= 5) {
    // In version 4 the parent of these events is the group.
    if (head->type == kEventColl) {
      head->parent = static_cast<CollV5*>(descriptor)->parent_group;
    } else if (head->type == kEventP2p) {
      head->parent = static_cast<P2pV5*>(descriptor)->parent_group;
    }
  }
  const int result = g_chain.v1->start(context, handle, descriptor);
  head->parent = before;
  return result;
}

int chain_stop(void* handle) {
  const Inside inside;
  return g_chain.v1->stop(handle);
}

int chain_record(void* handle, int state, void* arguments) {
  const Inside inside;
  return g_chain.v1->record(handle, state, arguments);
}

int chain_finalize(void* context) {
  const Inside inside;
  return g_chain.v1->finalize(context);
}

}  // namespace xpurun::preload
