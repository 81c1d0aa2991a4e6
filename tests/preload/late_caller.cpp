// Looks up functions by itself, as XLA does: through a call and through an address of dlsym().
#include <dlfcn.h>

extern "C" void* late_find(void* handle, const char* name) {
  return dlsym(handle, name);
}

extern "C" void* late_find_by_address(void* handle, const char* name) {
  void* (*volatile find)(void*, const char*) = dlsym;
  return find(handle, name);
}
