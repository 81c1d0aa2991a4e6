// Checks driver, NCCL and the linking of torch. GPU libraries are loaded in child processes only.
#include "commands/child.h"
#include "commands/doctor/checks.h"
#include "commands/doctor/nccl_versions.h"
#include "common/base/os/io.h"
#include "common/base/strings.h"
#include "common/base/tr.h"
#include "common/wire/nccl_profiler.h"
#include "launcher/spawn/elf_dynamic.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <optional>
#include <strings.h>
#include <sys/statvfs.h>

namespace xpurun::launcher {

namespace {

using base::tr;

constexpr double kDriverLimitS = 30;  // a cold driver takes seconds to initialise
constexpr double kLibraryLimitS = 20;
constexpr double kPythonLimitS = 20;

// In a child: "<driver's CUDA version> <number of devices> <result of cuInit>".
int ask_driver() {
  void* cuda = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (cuda == nullptr) {
    return 2;
  }
  const auto version = reinterpret_cast<int (*)(int*)>(::dlsym(cuda, "cuDriverGetVersion"));
  const auto init = reinterpret_cast<int (*)(unsigned)>(::dlsym(cuda, "cuInit"));
  const auto count = reinterpret_cast<int (*)(int*)>(::dlsym(cuda, "cuDeviceGetCount"));
  int number = 0;
  int devices = 0;
  if (version == nullptr || init == nullptr || count == nullptr || version(&number) != 0) {
    return 3;
  }
  const int started = init(0);
  if (started == 0 && count(&devices) != 0) {
    devices = 0;
  }
  std::printf("%d %d %d\n", number, devices, started);
  return std::fflush(stdout);
}

// In a child: "<version> <file>" of an NCCL.
int ask_nccl(const std::string& library) {
  void* nccl = ::dlopen(library.c_str(), RTLD_LAZY | RTLD_LOCAL);
  const auto get =
      nccl != nullptr ? reinterpret_cast<int (*)(int*)>(::dlsym(nccl, "ncclGetVersion")) : nullptr;
  int version = 0;
  if (get == nullptr || get(&version) != 0) {
    return 2;
  }
  Dl_info info{};
  const bool named = ::dladdr(reinterpret_cast<void*>(get), &info) != 0 && info.dli_fname != nullptr;
  std::printf("%d %s\n", version, named ? info.dli_fname : library.c_str());
  return std::fflush(stdout);
}

std::string driver_version() {
  const auto text = base::read_file("/proc/driver/nvidia/version", 4096);
  const std::string line = text ? text->substr(0, text->find('\n')) : std::string();
  const size_t at = line.find("Module  ");
  return at == std::string::npos ? line : line.substr(at + 8, line.find(' ', at + 8) - at - 8);
}

Finding driver() {
  const std::string module = driver_version();
  const ProgramOutput answer = run_function(ask_driver, kDriverLimitS);
  std::vector<int64_t> numbers;
  for (std::string_view word : base::split(base::trim(answer.output), ' ')) {
    numbers.push_back(base::parse_int(word).value_or(-1));
  }
  const bool answered = answer.status == 0 && numbers.size() == 3;
  const int64_t version = answered ? numbers[0] : 0;
  const int64_t devices = answered ? numbers[1] : 0;
  const int64_t started = answered ? numbers[2] : 0;
  if (!answered && module.empty() && answer.status == 2) {
    return {.check = "cuda",
            .grade = Grade::none,
            .text = tr("no NVIDIA driver on this host; hangs and crashes are still found")};
  }
  if (!answered || started != 0) {
    return {.check = "cuda",
            .grade = Grade::warn,
            .text = answer.status == -1  ? tr("the driver did not answer within {:.0f} s", kDriverLimitS)
                    : answered           ? tr("cuInit fails with error {}", started)
                    : answer.status == 2 ? tr("driver {} is loaded, but libcuda.so.1 is not found", module)
                                         : tr("libcuda.so.1 exists, but does not answer"),
            .lost = tr("GPU times; the training itself will probably fail"),
            .remedy = tr("nvidia-smi; in a container: start it with --gpus all")};
  }
  const std::string gpus = devices == 1 ? tr("{} GPU", devices) : tr("{} GPUs", devices);
  return {.check = "cuda",
          .text = tr("{}, CUDA {}.{}{}", gpus, version / 1000, version % 1000 / 10,
                     module.empty() ? std::string() : tr(", driver {}", module))};
}

// Paths of torch and its NCCL in the command's Python, without importing either.
struct TorchPlaces {
  std::string torch;
  std::string nccl;
  std::string triton;
};

TorchPlaces find_torch(const DoctorContext& context) {
  std::string python = context.program.chain.empty() ? "" : context.program.chain.back();
  if (base::base_name(python).find("python") == std::string_view::npos) {
    python = find_program("python3");
  }
  if (python.empty()) {
    return {};
  }
  const ProgramOutput answer =
      run_program({python, "-c",
                   "import importlib.util as u\n"
                   "def at(name):\n"
                   "    try:\n"
                   "        s = u.find_spec(name)\n"
                   "        return list(s.submodule_search_locations)[0] if s else ''\n"
                   "    except Exception:\n"
                   "        return ''\n"
                   "print(at('torch'))\n"
                   "print(at('nvidia.nccl'))\n"
                   "print(at('triton'))\n"},
                  kPythonLimitS);
  const auto lines = base::split(answer.output, '\n');
  if (answer.status != 0 || lines.size() < 3) {
    return {};
  }
  return {.torch = std::string(lines[0]), .nccl = std::string(lines[1]), .triton = std::string(lines[2])};
}

Finding nccl(const TorchPlaces& places, const std::vector<std::string>& linked) {
  std::vector<std::string> tries;
  if (!places.nccl.empty()) {
    tries.push_back(places.nccl + "/lib/libnccl.so.2");
  }
  tries.emplace_back("libnccl.so.2");
  for (const std::string& library : tries) {
    const ProgramOutput answer = run_function([&] { return ask_nccl(library); }, kLibraryLimitS);
    const auto words = base::split(base::trim(answer.output), ' ');
    const auto code = base::parse_int(words.front());
    if (answer.status == 0 && words.size() == 2 && code) {
      return judge_nccl(static_cast<int>(*code), std::string(words[1]));
    }
  }
  const bool dynamic = std::any_of(linked.begin(), linked.end(),
                                   [](const std::string& name) { return name.starts_with("libnccl.so"); });
  if (!linked.empty() && !dynamic) {
    return {.check = "nccl",
            .grade = Grade::warn,
            .text = tr("torch links NCCL statically"),
            .lost = tr("collectives cannot be distinguished; hangs and crashes are still found"),
            .remedy = tr("use a torch that links libnccl.so.2 (as the PyPI packages do)")};
  }
  return {
      .check = "nccl", .grade = Grade::none, .text = tr("no NCCL found; gloo and MPI jobs do not need one")};
}

Finding cublas(const TorchPlaces& places, const std::vector<std::string>& linked) {
  if (places.torch.empty()) {
    return {.check = "cublas",
            .grade = Grade::none,
            .text = tr("no torch found; to check the Python of a command: xpurun doctor -- COMMAND")};
  }
  if (linked.empty()) {
    return {.check = "cublas",
            .grade = Grade::none,
            .text = tr("torch at {} is built without CUDA", places.torch)};
  }
  const bool dynamic = std::any_of(linked.begin(), linked.end(),
                                   [](const std::string& name) { return name.starts_with("libcublas"); });
  if (dynamic) {
    return {.check = "cublas", .text = tr("torch links cuBLAS dynamically: its calls can be timed")};
  }
  return {.check = "cublas",
          .grade = Grade::warn,
          .text = tr("torch links cuBLAS statically"),
          .lost = tr("times of matrix multiplications"),
          .remedy = tr("use a torch that links libcublas (as the PyPI packages do)")};
}

// Triton's launcher takes cuLaunchKernelEx from dlsym() on libcuda's handle, which bypasses preloaded
// symbols.
Finding triton() {
  return {
      .check = "triton",
      .text = tr("kernels that Triton launches itself are neither counted nor timed, because Triton takes "
                 "the driver's functions from libcuda's handle; kernels that torch.compile launches are")};
}

// NCCL loads one profiler plugin per process.
std::optional<Finding> own_plugin() {
  const char* plugin = std::getenv(wire::kNcclPluginEnv);
  if (plugin == nullptr || *plugin == '\0') {
    return std::nullopt;
  }
  const bool none = ::strcasecmp(plugin, "none") == 0;
  return Finding{
      .check = "nccl",
      .text =
          tr("{} is set ({}): {}", wire::kNcclPluginEnv, base::sanitize(plugin),
             none ? tr("collectives are timed by events on their streams")
                  : tr("unless --timing is off, that plugin gets its events through the preload library"))};
}

// With less space the preload library does not ask NCCL for times: NCCL would crash.
std::optional<Finding> room_for_profiler() {
  struct statvfs shm {};
  const uint64_t free = ::statvfs("/dev/shm", &shm) == 0 ? uint64_t{shm.f_bavail} * shm.f_frsize : 0;
  if (free >= wire::kProfilerShmBytes * 8) {
    return std::nullopt;
  }
  return Finding{
      .check = "nccl",
      .grade = Grade::warn,
      .text = tr("/dev/shm has {} MiB left; NCCL's profiler interface needs {} MiB per rank", free >> 20,
                 wire::kProfilerShmBytes >> 20),
      .lost = tr("times of collectives without events on their streams, if there are too many ranks"),
      .remedy = tr("give the container more: --shm-size 1g, or --ipc host")};
}

}  // namespace

Findings check_gpu(const DoctorContext& context) {
  const TorchPlaces places = find_torch(context);
  const auto linked = places.torch.empty() ? std::vector<std::string>()
                                           : needed_libraries(places.torch + "/lib/libtorch_cuda.so");
  Findings out{driver(), nccl(places, linked), cublas(places, linked)};
  if (!places.triton.empty()) {
    out.push_back(triton());
  }
  if (auto plugin = own_plugin()) {
    out.push_back(std::move(*plugin));
  }
  if (auto shm = room_for_profiler()) {
    out.push_back(std::move(*shm));
  }
  return out;
}

}  // namespace xpurun::launcher
