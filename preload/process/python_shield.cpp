#include "preload/process/python_shield.h"

#include <atomic>
#include <dlfcn.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace xpurun::preload {

namespace {

// Functions of CPython's stable interface, 3.8 and later.
struct PythonApi {
  void* (*call)(void*, void*, void*) = nullptr;
  void (*fetch)(void**, void**, void**) = nullptr;
  void (*restore)(void*, void*, void*) = nullptr;
  int (*add_pending)(int (*)(void*), void*) = nullptr;
  void* (*build)(const char*, ...) = nullptr;
};

template <typename F>
bool find(F& function, const char* name) {
  function = reinterpret_cast<F>(::dlsym(RTLD_DEFAULT, name));
  return function != nullptr;
}

const PythonApi* python_api() {
  static PythonApi api;
  static const bool complete = find(api.call, "PyObject_Call") && find(api.fetch, "PyErr_Fetch") &&
                               find(api.restore, "PyErr_Restore") &&
                               find(api.add_pending, "Py_AddPendingCall") && find(api.build, "Py_BuildValue");
  return complete ? &api : nullptr;
}

// An exception on its way to the interpreter's loop. Several, because another thread may collect meanwhile.
struct Held {
  std::atomic<bool> used{false};
  void* type = nullptr;
  void* value = nullptr;
  void* traceback = nullptr;
};
Held g_held[4];

Held* take_slot() {
  for (Held& held : g_held) {
    if (!held.used.exchange(true)) {
      return &held;
    }
  }
  return nullptr;
}

// A pending call: -1 with an exception set is raised in the running frame.
int raise_held(void* slot) {
  Held& held = *static_cast<Held*>(slot);
  void* const type = held.type;
  void* const value = held.value;
  void* const traceback = held.traceback;
  held.used.store(false);
  python_api()->restore(type, value, traceback);
  return -1;
}

}  // namespace

}  // namespace xpurun::preload

extern "C" __attribute__((visibility("default"))) void* xpurun_shielded(void* self, void* arguments) {
  using namespace xpurun::preload;
  const PythonApi* python = python_api();
  if (python == nullptr) {
    return nullptr;  // not called: Python gets this function's address only from ctypes
  }
  void* const result = python->call(self, arguments, nullptr);
  if (result != nullptr || ::syscall(SYS_gettid) != ::getpid()) {
    return result;
  }
  Held* const held = take_slot();
  if (held == nullptr) {
    return nullptr;
  }
  python->fetch(&held->type, &held->value, &held->traceback);
  if (python->add_pending(raise_held, held) != 0) {
    python->restore(held->type, held->value, held->traceback);
    held->used.store(false);
    return nullptr;
  }
  return python->build("");
}
