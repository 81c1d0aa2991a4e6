#include "stackdump/libdw/libdw_api.h"

#include <fmt/format.h>

#include <cstdlib>
#include <dlfcn.h>

namespace xpurun::stackdump {

namespace {

base::Result<LibDw> load() {
  // libdw would ask debuginfod servers over the network, while people wait for the dump.
  ::unsetenv("DEBUGINFOD_URLS");
  // RTLD_LOCAL: symbols of libdw must not satisfy references of other libraries.
  void* library = ::dlopen("libdw.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return base::fail("libdw.so.1 (package libdw1, elfutils) cannot be loaded");
  }
  LibDw api;
  const char* missing = nullptr;
  const auto bind = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, name));
    if (function == nullptr) {
      missing = name;
    }
  };
#define XPURUN_LIBDW_BIND(name) bind(api.name, #name);
  XPURUN_LIBDW_FUNCTIONS(XPURUN_LIBDW_BIND)
#undef XPURUN_LIBDW_BIND
  if (missing != nullptr) {
    return base::fail(
        fmt::format("this libdw.so.1 is too old: {} is missing (elfutils 0.188 has this function)", missing));
  }
  return api;
}

}  // namespace

base::Result<const LibDw*> load_libdw() {
  static const base::Result<LibDw> loaded = load();
  if (!loaded) {
    return base::fail(loaded.error());
  }
  return &*loaded;
}

}  // namespace xpurun::stackdump
