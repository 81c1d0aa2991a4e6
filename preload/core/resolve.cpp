#include "preload/core/resolve.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>

namespace xpurun::preload {

namespace {

struct Library {
  const char* prefix;  // of the library's functions
  const char* file;    // start of the file name
  int missing;         // CUBLAS_STATUS_NOT_SUPPORTED, ncclInvalidUsage, cudaErrorNotSupported
};

// Longest prefix first: "cublasLt" also begins with "cublas", and all of them begin with "cu".
constexpr Library kLibraries[] = {
    {"cublasLt", "libcublasLt.so", 15}, {"cublas", "libcublas.so", 15},  {"nccl", "libnccl.so", 5},
    {"cuda", "libcudart.so", 801},      {"__cuda", "libcudart.so", 801}, {"cu", "libcuda.so", 801},
};

const Library& library_of(const char* function) {
  for (const Library& library : kLibraries) {
    if (strncmp(function, library.prefix, strlen(library.prefix)) == 0) {
      return library;
    }
  }
  return kLibraries[0];
}

struct Search {
  const char* file;
  char path[4096];
};

int visit(dl_phdr_info* info, size_t, void* data) {
  auto* search = static_cast<Search*>(data);
  const char* slash = strrchr(info->dlpi_name, '/');
  const char* base = slash == nullptr ? info->dlpi_name : slash + 1;
  const size_t length = strlen(info->dlpi_name);
  if (strncmp(base, search->file, strlen(search->file)) != 0 || length >= sizeof(search->path)) {
    return 0;
  }
  // A copy: the loader's lock protects dlpi_name only during this callback. Afterwards another thread may
  // unload the library.
  memcpy(search->path, info->dlpi_name, length + 1);
  return 1;
}

}  // namespace

void* find_in_library(const char* library_prefix, const char* name) {
  Search search{library_prefix, {}};
  if (dl_iterate_phdr(visit, &search) == 0) {
    return nullptr;
  }
  // RTLD_NOLOAD returns a handle of a library that is already loaded. The reference is never dropped, so that
  // the function stays mapped for as long as a hook may jump to it.
  void* handle = dlopen(search.path, RTLD_LAZY | RTLD_NOLOAD);
  return handle == nullptr ? nullptr : dlsym(handle, name);
}

// RTLD_NEXT searches the global scope after this library. Python opens extension modules with RTLD_LOCAL, so
// CUDA libraries that only such a module needs are outside of that scope and need a handle of their own.
void* find_function(const char* library_prefix, const char* name) {
  void* found = dlsym(RTLD_NEXT, name);
  if (found == nullptr) {
    found = find_in_library(library_prefix, name);
  }
  if (found == nullptr) {
    dlerror();  // the program's next dlerror() must not report this failed search
  }
  return found;
}

void* find_real(wire::Api api) {
  const char* name = wire::kApis[static_cast<size_t>(api)].name;
  return find_function(library_of(name).file, name);
}

int missing_result(wire::Api api) {
  return library_of(wire::kApis[static_cast<size_t>(api)].name).missing;
}

}  // namespace xpurun::preload
