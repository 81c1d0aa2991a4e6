#include "report/diagnosis/waits/wait_patterns.h"

#include "common/base/tr.h"
#include "report/diagnosis/waits/code_place.h"
#include "report/diagnosis/waits/operation_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <span>

namespace xpurun::report {

using base::later;
using model::Frame;
using model::FrameKind;

namespace {

// A Python function that waits: the last component of its name and a piece of its file's path. The outermost
// match inside the user's line gives the name, because it is the call that the user wrote.
struct PythonPattern {
  std::string_view file;
  std::string_view functions;  // separated by blanks; a trailing '*' matches any ending; "*" any function
  WaitKind kind;
  std::string_view what;   // empty: the function's own name
  bool only_idle = false;  // a wait only if the thread uses no CPU
  bool siblings = false;   // waits for other ranks only in a process of multiprocessing
};

// A native function that waits: a piece of its demangled name that begins at the start of an identifier.
struct NativePattern {
  std::string_view piece;
  WaitKind kind;
  std::string_view what;  // empty: see native_name()
};

constexpr std::string_view kInput = later("line on its standard input");
constexpr std::string_view kDebuggerInput = later("command on its standard input (pdb)");

constexpr PythonPattern kPython[] = {
    // torch
    {"torch/distributed/distributed_c10d.py",
     "all_reduce* reduce reduce_multigpu broadcast* all_gather* _all_gather_base gather* scatter* "
     "reduce_scatter* _reduce_scatter_base all_to_all*",
     WaitKind::collective, ""},
    {"torch/distributed/distributed_c10d.py", "barrier monitored_barrier", WaitKind::collective, ""},
    {"torch/distributed/distributed_c10d.py",
     "send recv send_object_list recv_object_list batch_isend_irecv isend irecv", WaitKind::point_to_point,
     ""},
    {"torch/distributed/distributed_c10d.py", "init_process_group", WaitKind::store, ""},
    {"torch/distributed/distributed_c10d.py",
     "new_group new_subgroups* split_group _new_process_group_helper _store_based_barrier "
     "destroy_process_group",
     WaitKind::store, ""},
    // Each waits there until all have nothing more to ask of the others.
    {"torch/distributed/rpc/api.py", "shutdown _wait_all_workers _barrier", WaitKind::collective,
     later("RPC shutdown")},
    {"torch/distributed/rendezvous.py", "*", WaitKind::store, later("rendezvous")},
    {"torch/distributed/elastic/utils/store.py", "*", WaitKind::store, "store"},
    {"torch/distributed/_functional_collectives.py", "*", WaitKind::collective, ""},
    {"torch/distributed/nn/functional.py", "*", WaitKind::collective, ""},
    {"torch/distributed/fsdp/", "_unshard* unshard* _wait_for* wait_for_unshard _all_gather* all_gather*",
     WaitKind::collective, "FSDP all_gather", true},
    {"torch/distributed/fsdp/", "_post_backward* _reduce_scatter* reduce_scatter* foreach_reduce*",
     WaitKind::collective, "FSDP reduce_scatter", true},
    {"torch/distributed/fsdp/", "*", WaitKind::collective, "FSDP", true},
    {"torch/nn/parallel/distributed.py", "_sync_buffers _sync_module_states _verify_param_shape*",
     WaitKind::collective, "DDP broadcast", true},
    {"torch/nn/parallel/distributed.py", "forward __init__ _pre_forward _ddp_init_helper join",
     WaitKind::collective, "DDP forward", true},
    {"torch/nn/modules/batchnorm.py", "forward", WaitKind::collective, "SyncBatchNorm", true},
    {"torch/autograd/", "backward grad _engine_run_backward", WaitKind::collective, "backward", true},
    {"torch/_tensor.py", "backward", WaitKind::collective, "backward", true},
    {"torch/cuda/", "synchronize", WaitKind::gpu, later("GPU synchronize")},
    {"torch/xpu/", "synchronize", WaitKind::gpu, later("GPU synchronize")},
    // Waits between processes, unlike threading's. A program's main process waits so for processes of its
    // own.
    {"multiprocessing/synchronize.py", "wait wait_for", WaitKind::collective, later("multiprocessing wait"),
     false, true},
    // jax
    {"jax/experimental/multihost_utils.py", "*", WaitKind::collective, ""},
    {"jax/_src/distributed.py", "*", WaitKind::store, "jax.distributed"},
    {"jax/_src/array.py", "block_until_ready _value __array__ _single_device_array_to_np_array*",
     WaitKind::gpu, "block_until_ready", true},
    {"jax/_src/api.py", "block_until_ready", WaitKind::gpu, ""},
    // horovod, deepspeed, others
    {"horovod/torch/mpi_ops.py", "synchronize", WaitKind::collective, "horovod synchronize"},
    {"horovod/",
     "allreduce allgather broadcast alltoall reducescatter barrier join broadcast_object "
     "allgather_object",
     WaitKind::collective, ""},
    {"deepspeed/comm/",
     "all_reduce all_gather* reduce_scatter* broadcast barrier monitored_barrier reduce "
     "gather scatter all_to_all*",
     WaitKind::collective, ""},
    {"accelerate/utils/operations.py", "gather* reduce broadcast*", WaitKind::collective, ""},
    {"accelerate/", "wait_for_everyone", WaitKind::collective, ""},
    {"paddle/distributed/communication/",
     "all_reduce all_gather* reduce_scatter* broadcast* barrier reduce gather scatter* all_to_all* alltoall*",
     WaitKind::collective, ""},
    {"paddle/distributed/communication/", "send recv", WaitKind::point_to_point, ""},
    // prompts
    {"/cmd.py", "cmdloop", WaitKind::input, kDebuggerInput},
    {"/getpass.py", "getpass unix_getpass fallback_getpass", WaitKind::input, kInput},
    {"debugpy/", "wait_for_client", WaitKind::input, later("debugger that attaches (debugpy)")},
    // Helper processes come before the locks that they are built from.
    {"torch/utils/data/dataloader.py", "_try_get_data _get_data _shutdown_workers", WaitKind::helper,
     later("dataloader worker")},
    {"ray/_private/worker.py", "get wait", WaitKind::helper, later("Ray task")},
    {"/subprocess.py", "wait _wait communicate _communicate run call check_call check_output",
     WaitKind::helper, later("child process")},
    {"/multiprocessing/popen_fork.py", "wait poll", WaitKind::helper, later("child process")},
    {"/multiprocessing/process.py", "join", WaitKind::helper, later("child process")},
    // locks of the process itself
    {"/threading.py", "join _wait_for_tstate_lock", WaitKind::lock, later("thread")},
    {"/threading.py", "wait wait_for acquire __enter__", WaitKind::lock, later("lock")},
    {"/queue.py", "get put join", WaitKind::lock, later("queue")},
    {"/multiprocessing/queues.py", "get put join", WaitKind::lock, later("queue")},
    {"/multiprocessing/managers.py", "_callmethod", WaitKind::lock, later("manager")},
    {"/multiprocessing/connection.py", "wait", WaitKind::lock, later("pipe")},
    {"/multiprocessing/synchronize.py", "*", WaitKind::lock, later("lock")},
    {"/multiprocessing/pool.py", "get wait join", WaitKind::lock, later("pool")},
    {"joblib/parallel.py", "_retrieve _get_sequential_output __call__", WaitKind::lock, later("pool")},
    {"/concurrent/futures/", "result wait exception as_completed shutdown", WaitKind::lock, later("future")},
};

constexpr std::string_view kQueue = later("GPU queue");

constexpr NativePattern kNative[] = {
    {"c10d::TCPStore", WaitKind::store, "store"},
    {"c10d::PrefixStore", WaitKind::store, "store"},
    {"c10d::FileStore", WaitKind::store, "store"},
    {"c10d::HashStore", WaitKind::store, "store"},
    {"c10d::detail::TCPClient", WaitKind::store, "store"},
    {"c10d::detail::Socket", WaitKind::store, "store"},
    {"c10d::tcputil", WaitKind::store, "store"},
    {"c10d::Reducer", WaitKind::collective, "all_reduce"},
    {"c10d::ProcessGroupGloo::SendWork", WaitKind::point_to_point, "send"},
    {"c10d::ProcessGroupGloo::RecvWork", WaitKind::point_to_point, "recv"},
    {"c10d::ProcessGroupNCCL::send", WaitKind::point_to_point, "send"},
    {"c10d::ProcessGroupNCCL::recv", WaitKind::point_to_point, "recv"},
    {"c10d::ProcessGroup", WaitKind::collective, ""},
    {"c10d::Work", WaitKind::collective, ""},
    {"c10d::", WaitKind::collective, ""},
    {"gloo::", WaitKind::collective, ""},
    {"ncclGroupEnd", WaitKind::collective, ""},
    {"ncclCommInit", WaitKind::store, later("NCCL start")},
    {"ncclCommAbort", WaitKind::collective, ""},
    {"ncclCommDestroy", WaitKind::collective, ""},
    {"ncclSend", WaitKind::point_to_point, "send"},
    {"ncclRecv", WaitKind::point_to_point, "recv"},
    {"nccl", WaitKind::collective, ""},
    {"MPI_Init", WaitKind::store, "MPI_Init"},
    {"MPI_Send", WaitKind::point_to_point, "send"},
    {"MPI_Recv", WaitKind::point_to_point, "recv"},
    {"MPI_", WaitKind::collective, ""},
    {"PMPI_", WaitKind::collective, ""},
    {"ompi_", WaitKind::collective, ""},
    {"MPIR_", WaitKind::collective, ""},
    {"MPIDI_", WaitKind::collective, ""},
    {"PMIx_", WaitKind::store, "PMIx"},
    {"opal_progress", WaitKind::collective, ""},
    {"ucp_", WaitKind::collective, ""},
    {"uct_", WaitKind::collective, ""},
    {"ucs_", WaitKind::collective, ""},
    {"fi_", WaitKind::collective, ""},
    {"shmem_", WaitKind::collective, ""},
    {"nvshmem", WaitKind::collective, ""},
    {"gomp_team_barrier_wait", WaitKind::lock, later("thread of OpenMP")},
    {"gomp_barrier_wait", WaitKind::lock, later("thread of OpenMP")},
    {"__kmp_", WaitKind::lock, later("thread of OpenMP")},
    // A launch returns at once, unless the queue of the stream is full or the kernel has to be loaded first.
    {"cudaLaunchKernel", WaitKind::gpu, kQueue},
    {"cudaGraphLaunch", WaitKind::gpu, kQueue},
    {"cuLaunchKernel", WaitKind::gpu, kQueue},
    {"cuGraphLaunch", WaitKind::gpu, kQueue},
    {"hipLaunchKernel", WaitKind::gpu, kQueue},
    {"cudaStreamSynchronize", WaitKind::gpu, later("GPU synchronize")},
    {"cudaDeviceSynchronize", WaitKind::gpu, later("GPU synchronize")},
    {"cudaEventSynchronize", WaitKind::gpu, later("GPU synchronize")},
    {"cudaMemcpy", WaitKind::gpu, later("GPU copy")},
    {"cuStreamSynchronize", WaitKind::gpu, later("GPU synchronize")},
    {"cuEventSynchronize", WaitKind::gpu, later("GPU synchronize")},
    {"cuCtxSynchronize", WaitKind::gpu, later("GPU synchronize")},
    {"cuMemcpy", WaitKind::gpu, later("GPU copy")},
    {"hipStreamSynchronize", WaitKind::gpu, later("GPU synchronize")},
    {"hipDeviceSynchronize", WaitKind::gpu, later("GPU synchronize")},
    {"hipEventSynchronize", WaitKind::gpu, later("GPU synchronize")},
    {"hipMemcpy", WaitKind::gpu, later("GPU copy")},
    {"PyThread_acquire_lock", WaitKind::lock, later("lock")},
    {"lock_PyThread_acquire_lock", WaitKind::lock, later("lock")},
    {"builtin_input", WaitKind::input, kInput},
    {"rlock_acquire", WaitKind::lock, later("lock")},
    {"PyMutex_Lock", WaitKind::lock, later("lock")},
    {"_PyMutex_Lock", WaitKind::lock, later("lock")},
};

// Modules whose mere presence is enough, for stripped libraries ("libgloo.so.0+0x1f").
constexpr NativePattern kModules[] = {
    {"libgloo.so", WaitKind::collective, ""}, {"libnccl.so", WaitKind::collective, ""},
    {"libnccl-", WaitKind::collective, ""},   {"libmpi.so", WaitKind::collective, ""},
    {"libucp.so", WaitKind::collective, ""},  {"libuct.so", WaitKind::collective, ""},
    {"librccl.so", WaitKind::collective, ""}, {"libfabric.so", WaitKind::collective, ""},
    {"libnvshmem", WaitKind::collective, ""}, {"liboshmem.so", WaitKind::collective, ""},
};

bool is_identifier(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

bool matches_name(std::string_view name, std::string_view patterns) {
  while (!patterns.empty()) {
    const size_t end = std::min(patterns.find(' '), patterns.size());
    const std::string_view p = patterns.substr(0, end);
    patterns.remove_prefix(std::min(end + 1, patterns.size()));
    if (p.ends_with('*') ? name.starts_with(p.substr(0, p.size() - 1)) : name == p) {
      return true;
    }
  }
  return false;
}

// A piece of a path must begin at a path component.
bool matches_path(std::string_view file, std::string_view piece) {
  for (size_t at = file.find(piece); at != std::string_view::npos; at = file.find(piece, at + 1)) {
    if (at == 0 || piece.front() == '/' || file[at - 1] == '/') {
      return true;
    }
  }
  return false;
}

bool matches_symbol(std::string_view name, std::string_view piece) {
  for (size_t at = name.find(piece); at != std::string_view::npos; at = name.find(piece, at + 1)) {
    const bool namespaced = at > 0 && name[at - 1] == ':';
    if (at == 0 || (!is_identifier(name[at - 1]) && !namespaced)) {
      return true;
    }
  }
  return false;
}

const PythonPattern* match_python(std::string_view function, std::string_view file, WaitQuery query) {
  const std::string_view name = last_component(function);
  const auto it = std::find_if(std::begin(kPython), std::end(kPython), [&](const PythonPattern& p) {
    return matches_path(file, p.file) && matches_name(name, p.functions) && (query.idle || !p.only_idle) &&
           (query.siblings || !p.siblings);
  });
  return it == std::end(kPython) ? nullptr : &*it;
}

const NativePattern* match_native(const Frame& f) {
  if (f.kind != FrameKind::native || f.eval) {
    return nullptr;
  }
  for (const NativePattern& p : kNative) {
    if (matches_symbol(f.func, p.piece) || matches_symbol(f.full_func, p.piece)) {
      return &p;
    }
  }
  const auto it = std::find_if(std::begin(kModules), std::end(kModules),
                               [&](const NativePattern& p) { return f.module.starts_with(p.piece); });
  return it == std::end(kModules) ? nullptr : &*it;
}

// The innermost frame decides. But gloo, NCCL and MPI use the same functions below a collective and below a
// send; there the frame outside them decides.
const NativePattern* innermost_wait(std::span<const Frame> frames, bool launches) {
  const NativePattern* found = nullptr;
  for (const Frame& f : frames) {
    const NativePattern* p = match_native(f);
    if (p == nullptr || (p->what == kQueue && !launches)) {
      continue;
    }
    if (found == nullptr) {
      found = p;
    }
    if (found->kind != WaitKind::collective || !found->what.empty()) {
      return found;
    }
    if (p->kind == WaitKind::point_to_point) {
      return p;
    }
  }
  return found;
}

constexpr std::string_view kSomeCollective = "collective";

// "MPI_Allreduce" for a frame of the public interface of MPI, including its profiling name, or of SHMEM; else
// empty.
std::string_view public_call(const Frame& f) {
  const std::string_view name = f.func;
  if (f.kind != FrameKind::native || f.eval) {
    return {};
  }
  const bool shmem = name.starts_with("shmem_") || name.starts_with("nvshmem_");
  return name.starts_with("PMPI_")           ? name.substr(1)
         : name.starts_with("MPI_") || shmem ? name
                                             : std::string_view();
}

// The collective in native names, e.g. "all_reduce" in gloo::allreduce or ncclAllReduce. The outermost frame
// is the call that the program made: inside, an all_reduce may send and a barrier may gather.
std::string_view operation_in(std::span<const Frame> frames) {
  for (auto f = frames.rbegin(); f != frames.rend(); ++f) {
    if (f->kind != FrameKind::native || match_native(*f) == nullptr) {
      continue;
    }
    if (const std::string_view call = public_call(*f); !call.empty()) {
      return call;
    }
    const std::string_view word = operation_word(f->full_func.empty() ? f->func : f->full_func);
    if (!word.empty()) {
      return word;
    }
  }
  return kSomeCollective;
}

// The kernels that the debugger saw running on the GPU decide whether the host waits for peers or for its own
// work. One kernel that communicates with peers is enough for the former.
void refine_by_kernel(Wait& wait, const std::vector<Frame>& frames) {
  if (wait.kind != WaitKind::gpu || frames.empty() || frames.front().kind != FrameKind::gpu) {
    return;
  }
  const auto found = std::find_if(frames.begin(), frames.end(), [](const Frame& f) {
    return f.kind != FrameKind::gpu || communicates(f.func);
  });
  if (found == frames.end() || found->kind != FrameKind::gpu) {
    wait.kind = WaitKind::kernel;
    wait.what = fmt::format("kernel {} on {}", frames.front().func, frames.front().module);
    return;
  }
  const std::string& kernel = found->func;
  const std::string_view word = operation_word(kernel);
  wait.kind = word == kSendOrReceive ? WaitKind::point_to_point : WaitKind::collective;
  wait.what = fmt::format("{} ({})", wait.what, word.empty() ? kSomeCollective : word);
}

std::string python_name(const PythonPattern& p, std::string_view function) {
  return std::string(p.what.empty() ? last_component(function) : p.what);
}

// For a generic frame such as Work::wait the surrounding frames name the operation.
std::string_view native_name(const NativePattern& native, std::span<const Frame> frames) {
  if (!native.what.empty()) {
    return native.what;
  }
  const std::string_view operation = operation_in(frames);
  if (operation != kSomeCollective) {
    return operation;
  }
  for (const Frame& f : frames) {
    const NativePattern* p = match_native(f);
    if (p != nullptr && p->kind == native.kind && !p->what.empty()) {
      return p->what;
    }
  }
  return operation;
}

// "backward" and "DDP forward" say little without the collective inside them.
bool is_wrapper(std::string_view what) {
  return what == "backward" || what == "DDP forward" || what == "FSDP" || what == "SyncBatchNorm";
}

// "all_gather_single": the collective that a wrapper makes in Python, as FSDP does in backward().
std::string_view inner_collective(std::span<const Frame> frames) {
  for (const Frame& f : frames) {
    const PythonPattern* p =
        f.kind == FrameKind::python ? match_python(f.func, f.file, {.idle = false}) : nullptr;
    if (p != nullptr && p->kind == WaitKind::collective && p->what.empty()) {
      return last_component(f.func);
    }
  }
  return kSomeCollective;
}

// Methods written in C have no frame, but the interpreter's column table names the function that the line
// calls.
std::optional<Wait> find_called_wait(const std::vector<Frame>& frames) {
  const auto innermost =
      std::find_if(frames.begin(), frames.end(), [](const Frame& f) { return f.kind == FrameKind::python; });
  if (innermost == frames.end()) {
    return std::nullopt;
  }
  const std::string& callee = innermost->callee;
  if (callee == "input" || callee.ends_with("stdin.readline") || callee.ends_with("stdin.read") ||
      callee.ends_with("stdin.buffer.read")) {
    return Wait{.kind = WaitKind::input, .what = std::string(kInput), .where = place_of(frames)};
  }
  if (innermost->callee.ends_with(".acquire")) {
    return Wait{.kind = WaitKind::lock, .what = "lock", .where = place_of(frames)};
  }
  if (innermost->callee.ends_with("work.wait") || innermost->callee.ends_with("handle.wait")) {
    return Wait{.kind = WaitKind::collective, .what = "wait", .where = place_of(frames)};
  }
  return std::nullopt;
}

}  // namespace

bool asks_name_server(const std::vector<Frame>& frames) {
  // glibc and musl; a resolver of its own (c-ares) does not block a thread.
  constexpr std::array<std::string_view, 8> kResolvers = {
      "getaddrinfo",     "getnameinfo",        "gethostbyname_r", "gethostbyname2_r",
      "gethostbyaddr_r", "__res_context_send", "__res_nsend",     "__res_msend_rc"};
  return std::any_of(frames.begin(), frames.end(), [&](const Frame& f) {
    return f.kind != FrameKind::python &&
           std::find(kResolvers.begin(), kResolvers.end(), last_component(f.func)) != kResolvers.end();
  });
}

std::optional<Wait> find_wait(const std::vector<Frame>& frames, WaitQuery query) {
  if (asks_name_server(frames)) {
    return std::nullopt;
  }
  const std::span<const Frame> called = std::span(frames).first(called_frames(frames));
  const NativePattern* native = innermost_wait(called, query.launches);
  // Together with a native wait, a function that counts as a wait only when idle is certainly one (NCCL and
  // MPI spin).
  const bool native_peers = native != nullptr && waits_for_peers(native->kind);
  const bool siblings = std::any_of(frames.begin(), frames.end(), [](const Frame& f) {
    return f.kind == FrameKind::python && f.file.ends_with("/multiprocessing/process.py") &&
           last_component(f.func) == "_bootstrap";
  });
  const WaitQuery python_query{.idle = query.idle || native_peers, .siblings = siblings};
  const PythonPattern* python = nullptr;
  std::string_view function;
  for (const Frame& f : called) {
    if (f.kind != FrameKind::python) {
      continue;
    }
    const PythonPattern* p = match_python(f.func, f.file, python_query);
    // The outermost wait of the strongest kind: a collective may use locks inside, but not the reverse.
    if (p != nullptr && (python == nullptr || waits_for_peers(p->kind) || !waits_for_peers(python->kind))) {
      python = p;
      function = f.func;
    }
  }
  if (python == nullptr && native == nullptr) {
    return find_called_wait(frames);
  }
  Wait wait{.where = place_of(frames)};
  if (python != nullptr && (waits_for_peers(python->kind) || !native_peers)) {
    wait.kind = python->kind;
    wait.what = python_name(*python, function);
    if (native_peers && is_wrapper(wait.what)) {
      const std::string_view by_native = native_name(*native, called);
      const std::string_view inner = by_native == kSomeCollective ? inner_collective(called) : by_native;
      wait.kind = native->kind;
      wait.what = fmt::format("{} ({})", wait.what, inner);
    }
    refine_by_kernel(wait, frames);
    return wait;
  }
  wait.kind = native->kind;
  wait.what = native_name(*native, called);
  refine_by_kernel(wait, frames);
  return wait;
}

void refine_by_kernels(Wait& wait, const std::vector<model::GpuKernel>& running) {
  if (wait.kind != WaitKind::gpu || running.empty() ||
      std::any_of(running.begin(), running.end(), [](const model::GpuKernel& k) {
        return communicates(k.full_name.empty() ? k.name : k.full_name);
      })) {
    return;
  }
  wait.kind = WaitKind::kernel;
  wait.what = running.front().device >= 0
                  ? fmt::format("kernel {} on GPU {}", running.front().name, running.front().device)
                  : fmt::format("kernel {}", running.front().name);
}

std::optional<Wait> find_wait_at(std::string_view function, std::string_view file, WaitQuery query) {
  const PythonPattern* p = match_python(function, file, query);
  if (p == nullptr) {
    return std::nullopt;
  }
  return Wait{.kind = p->kind, .what = python_name(*p, function)};
}

}  // namespace xpurun::report
