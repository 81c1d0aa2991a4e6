#include "commands/replay/libraries.h"

#include "commands/child.h"
#include "common/base/strings.h"

#include <fmt/format.h>

#include <dlfcn.h>
#include <unistd.h>

namespace xpurun::launcher {

namespace {

constexpr double kPythonLimitS = 20;
// The packages of PyPI have the libraries below nvidia/, those of conda in the environment's lib.
constexpr const char* kAskPython =
    "import glob, importlib.util, os, sys\n"
    "found = importlib.util.find_spec('nvidia')\n"
    "for place in (found.submodule_search_locations or []) if found else []:\n"
    "    print(*sorted(glob.glob(os.path.join(place, '*', 'lib'))), sep='\\n')\n"
    "print(os.path.join(sys.prefix, 'lib'))\n";

base::Error missing_library(std::string what) {
  return {.what = std::move(what),
          .id = "E-GPU-LIBRARY",
          .cause = "neither the packages of the Python nor the loader's directories have the library",
          .hint = "xpurun replay --python PYTHON, the one that ran the job, or set LD_LIBRARY_PATH"};
}

template <typename F>
bool take(void* library, const char* name, F*& function) {
  function = reinterpret_cast<F*>(::dlsym(library, name));
  return function != nullptr;
}

base::Error lacks(const std::string& path, const char* name) {
  return {.what = fmt::format("{} has no function {}", base::sanitize(path), name),
          .id = "E-GPU-LIBRARY",
          .cause = "the library is older than CUDA 12 or NCCL 2.10"};
}

}  // namespace

#define XPURUN_TAKE(member, name, type)         \
  if (!take(from.handle, #name, out.member)) {  \
    return base::fail(lacks(from.path, #name)); \
  }

std::vector<std::string> library_dirs_of_python(const std::string& python) {
  const std::string program = find_program(python);
  if (program.empty()) {
    return {};
  }
  const ProgramOutput answer = run_program({program, "-c", kAskPython}, kPythonLimitS);
  std::vector<std::string> out;
  for (const std::string_view line : base::split(answer.output, '\n')) {
    if (answer.status == 0 && !line.empty()) {
      out.emplace_back(line);
    }
  }
  return out;
}

base::Result<Libraries::Loaded> Libraries::load(const std::vector<std::string>& names) const {
  std::string reason;
  for (const std::string& dir : dirs_) {
    for (const std::string& name : names) {
      const std::string path = fmt::format("{}/{}", dir, name);
      // A missing file is usual; the reason to report is that of a file that does not load.
      if (::access(path.c_str(), R_OK) != 0) {
        continue;
      }
      if (void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL)) {
        return Loaded{handle, path};
      }
      reason = ::dlerror();
    }
  }
  for (const std::string& name : names) {
    if (void* handle = ::dlopen(name.c_str(), RTLD_NOW | RTLD_GLOBAL)) {
      return Loaded{handle, name};
    }
    reason = reason.empty() ? ::dlerror() : reason;
  }
  return base::fail(missing_library(
      fmt::format("{} cannot be loaded: {}", names.front(), base::sanitize(reason.empty() ? "?" : reason))));
}

base::Result<vendor::Driver> Libraries::driver() {
  vendor::Driver out;
  // Always the one of the kernel module, never a package's.
  const Loaded from{::dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL), "libcuda.so.1"};
  if (from.handle == nullptr) {
    return base::fail({.what = "this machine has no NVIDIA driver: libcuda.so.1 cannot be loaded",
                       .id = "E-NO-GPU",
                       .cause = "a replay needs a GPU of the kind that the run has used",
                       .hint = "copy the run directory to such a machine; in a container: --gpus all"});
  }
  XPURUN_DRIVER_FUNCTIONS(XPURUN_TAKE)
  return out;
}

base::Result<vendor::Lt> Libraries::lt() {
  vendor::Lt out;
  XPURUN_TRY_ASSIGN(const Loaded from, load({"libcublasLt.so.13", "libcublasLt.so.12"}));
  XPURUN_LT_FUNCTIONS(XPURUN_TAKE)
  return out;
}

base::Result<vendor::Blas> Libraries::blas() {
  vendor::Blas out;
  XPURUN_TRY_ASSIGN(const Loaded from, load({"libcublas.so.13", "libcublas.so.12"}));
  XPURUN_BLAS_FUNCTIONS(XPURUN_TAKE)
  blas_path_ = from.path;
  return out;
}

base::Result<vendor::Nccl> Libraries::nccl() {
  vendor::Nccl out;
  XPURUN_TRY_ASSIGN(const Loaded from, load({"libnccl.so.2"}));
  XPURUN_NCCL_FUNCTIONS(XPURUN_TAKE)
  nccl_path_ = from.path;
  return out;
}

#undef XPURUN_TAKE

}  // namespace xpurun::launcher
