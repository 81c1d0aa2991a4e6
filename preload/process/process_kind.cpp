#include "preload/process/process_kind.h"

#include "common/wire/identity.h"
#include "preload/process/rank_identity.h"

#include <dlfcn.h>
#include <string.h>
#include <unistd.h>

namespace xpurun::preload {

namespace {

bool has_python() {
  const bool found = dlsym(RTLD_DEFAULT, "Py_GetVersion") != nullptr;
  if (!found) {
    dlerror();  // the program's next dlerror() must not report this failed search
  }
  return found;
}

bool is_wrapper() {
  ProgramPath path;
  const char* name = program_name(path);
  for (const char* wrapper : wire::kWrapperPrograms) {
    if (strcmp(name, wrapper) == 0) {
      return true;
    }
  }
  return false;
}

}  // namespace

const char* program_name(ProgramPath& path) {
  // The kernel's link, because argv[0] may be any text.
  const ssize_t length = readlink("/proc/self/exe", path.text, sizeof(path.text) - 1);
  path.text[length > 0 ? length : 0] = '\0';
  const char* slash = strrchr(path.text, '/');
  return slash == nullptr ? path.text : slash + 1;
}

ProcessKind classify_this_process() {
  if (is_wrapper()) {
    return ProcessKind::other;
  }
  if (has_python()) {
    return ProcessKind::python;
  }
  return has_rank_environment() && !is_started_by_rank() ? ProcessKind::rank : ProcessKind::other;
}

}  // namespace xpurun::preload
