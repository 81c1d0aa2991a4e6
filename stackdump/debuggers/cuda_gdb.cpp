#include "stackdump/debuggers/cuda_gdb.h"

#include "common/base/strings.h"
#include "stackdump/debuggers/child_tool.h"
#include "stackdump/native/symbolizer.h"

#include <fmt/format.h>

#include <algorithm>

namespace xpurun::stackdump {

namespace {

constexpr size_t kMaxKernels = 4096;

// The next word; `rest` is advanced past the word.
std::string_view next_word(std::string_view& rest) {
  const size_t begin = std::min(rest.find_first_not_of(" \t"), rest.size());
  rest.remove_prefix(begin);
  const size_t end = std::min(rest.find_first_of(" \t"), rest.size());
  const std::string_view word = rest.substr(0, end);
  rest.remove_prefix(end);
  return word;
}

// "(24,1,1)" -> "24,1,1"
std::optional<std::string> dimensions(std::string_view word) {
  if (word.size() < 3 || word.front() != '(' || word.back() != ')') {
    return std::nullopt;
  }
  const std::string_view inner = word.substr(1, word.size() - 2);
  return inner.find_first_not_of("0123456789,") == std::string_view::npos ? std::optional(std::string(inner))
                                                                          : std::nullopt;
}

struct Columns {
  int device = -1;
  int grid = -1;
  int status = -1;
};

// Positions of the columns before the dimensions. Only these are single words.
std::optional<Columns> header_of(std::string_view line) {
  if (line.find("Kernel") == std::string_view::npos || line.find("GridDim") == std::string_view::npos) {
    return std::nullopt;
  }
  Columns c;
  int i = 0;
  for (std::string_view word = next_word(line); !word.empty(); word = next_word(line), ++i) {
    c.device = word == "Dev" ? i : c.device;
    c.grid = word == "Grid" ? i : c.grid;
    c.status = word == "Status" ? i : c.status;
  }
  return c;
}

std::optional<model::GpuKernel> row_of(std::string_view line, const Columns& columns) {
  line = base::trim(line);
  if (line.starts_with('*')) {
    line.remove_prefix(1);
  }
  model::GpuKernel k;
  for (int i = 0; i < 16; ++i) {
    const std::string_view word = next_word(line);
    if (word.empty() || (i == 0 && !base::parse_int(word))) {
      return std::nullopt;
    }
    if (auto grid = dimensions(word)) {
      k.grid_dim = std::move(*grid);
      k.block_dim = dimensions(next_word(line)).value_or("");
      break;
    }
    if (i == columns.device) {
      k.device = static_cast<int>(base::parse_int(word).value_or(-1));
    } else if (i == columns.grid) {
      k.grid = base::parse_int(word).value_or(-1);
    } else if (i == columns.status) {
      k.status = base::sanitize(word);
    }
  }
  const std::string full = base::sanitize(base::trim(line));
  if (k.grid_dim.empty() || full.empty()) {
    return std::nullopt;
  }
  k.name = shorten(full);
  k.full_name = k.name == full ? "" : full;
  return k;
}

bool is_driver(const model::Frame& f) {
  return f.module.starts_with("libcuda.so");
}

// Inside the driver in a waiting call that other code made.
bool waits_for_gpu(const model::ThreadStack& t) {
  bool driver = false;
  bool waits = false;
  bool caller = false;
  for (const model::Frame& f : t.frames) {
    const bool cuda = is_driver(f) || f.module.starts_with("libcudart");
    driver = driver || cuda;
    for (std::string_view call :
         {"Synchronize", "cuMemcpy", "cudaMemcpy", "cuStreamWait", "cudaStreamWait"}) {
      waits = waits || (cuda && f.func.find(call) != std::string::npos);
    }
    // Only a thread that the driver itself started has no frames besides the driver and libc.
    caller = caller ||
             (driver && !cuda && !f.module.starts_with("libc.so") && !f.module.starts_with("libpthread"));
  }
  return driver && waits && caller;
}

model::Frame frame_of(const model::GpuKernel& k) {
  model::Frame f;
  f.kind = model::FrameKind::gpu;
  f.func = k.name;
  f.full_func = k.full_name;
  f.module = k.device < 0 ? "GPU" : fmt::format("GPU {}", k.device);
  return f;
}

// cuda-gdb sets breakpoints to attach. On a busy machine it needs seconds to remove them.
constexpr int64_t kCudaDetachNs = 10'000'000'000;

base::Result<std::vector<model::GpuKernel>> ask(base::Pid pid, const DebuggerSettings& settings) {
  // Nothing of the user's settings is loaded: -nx and auto-load off keep .gdbinit and scripts in the target's
  // directories from running.
  auto ran = run_tool({settings.cuda_gdb, "-nx", "-q", "-batch", "-iex", "set auto-load off", "-iex",
                       "set width 0", "-iex", "set pagination off", "-iex", "set confirm off", "-p",
                       std::to_string(pid), "-ex", "info cuda kernels"},
                      settings.gpu_limit_ns, pid, kCudaDetachNs);
  if (!ran) {
    return base::fail(std::move(ran.error()));
  }
  auto kernels = parse_cuda_kernels(ran->out);
  // An error can follow a complete list, so the list decides and not the exit status.
  if (!kernels.empty() || ran->out.find("No CUDA kernels") != std::string::npos) {
    return kernels;
  }
  if (ran->end == ToolEnd::timed_out) {
    return base::fail(
        fmt::format("cuda-gdb did not finish within {} s", settings.gpu_limit_ns / 1'000'000'000));
  }
  const auto lines = base::split(base::trim(ran->err.empty() ? ran->out : ran->err), '\n');
  return base::fail(fmt::format("cuda-gdb printed no kernels: {}", base::sanitize(lines.back())));
}

}  // namespace

std::vector<model::GpuKernel> parse_cuda_kernels(std::string_view text) {
  std::vector<model::GpuKernel> out;
  std::optional<Columns> columns;
  for (std::string_view line : base::split(text, '\n')) {
    if (auto header = header_of(line)) {
      columns = header;
    } else if (columns && out.size() < kMaxKernels) {
      if (auto row = row_of(line, *columns)) {
        out.push_back(std::move(*row));
      }
    }
  }
  return out;
}

int gpu_waiter(const model::ProcessStacks& stacks) {
  int found = -1;
  for (size_t i = 0; i < stacks.threads.size(); ++i) {
    if (waits_for_gpu(stacks.threads[i]) && (found < 0 || stacks.threads[i].main)) {
      found = static_cast<int>(i);
    }
  }
  return found;
}

bool add_gpu_kernels(model::ProcessStacks& stacks, const DebuggerSettings& settings) {
  const int waiter = gpu_waiter(stacks);
  if (settings.gpu == GpuStacks::never || (settings.gpu == GpuStacks::automatic && waiter < 0)) {
    return false;
  }
  if (!tool_exists(settings.cuda_gdb)) {
    if (settings.gpu == GpuStacks::always) {
      stacks.notes.push_back(fmt::format("no GPU frames: {} is not installed", settings.cuda_gdb));
    }
    return settings.gpu == GpuStacks::always;
  }
  auto kernels = ask(stacks.pid, settings);
  if (!kernels) {
    stacks.notes.push_back("no GPU frames: " + base::to_line(kernels.error()));
    return true;
  }
  stacks.gpu_kernels = std::move(*kernels);
  if (waiter >= 0) {
    auto& frames = stacks.threads[static_cast<size_t>(waiter)].frames;
    std::vector<model::Frame> gpu;
    for (const model::GpuKernel& k : stacks.gpu_kernels) {
      gpu.push_back(frame_of(k));
    }
    frames.insert(frames.begin(), gpu.begin(), gpu.end());
  }
  return true;
}

}  // namespace xpurun::stackdump
