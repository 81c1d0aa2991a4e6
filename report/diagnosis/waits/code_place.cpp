#include "report/diagnosis/waits/code_place.h"

#include "common/model/frame_text.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <span>

namespace xpurun::report {

using model::Frame;
using model::FrameKind;

namespace {

// Pieces of paths. torch's are spelled out so that a source checkout matches and a user's own project named
// "torch" does not.
constexpr std::array<std::string_view, 27> kFrameworkPieces = {
    "/torch/distributed/", "/torch/nn/",         "/torch/autograd/",     "/torch/_",
    "/torch/utils/",       "/torch/optim/",      "/torch/cuda/",         "/torch/multiprocessing/",
    "-packages/torch/",    "-packages/horovod/", "-packages/deepspeed",  "-packages/jax/",
    "-packages/jaxlib/",   "-packages/flax/",    "-packages/mpi4py/",    "-packages/accelerate/",
    "-packages/lightning", "-packages/paddle/",  "-packages/ray/",       "-packages/pytorch_lightning/",
    "-packages/numpy/",    "-packages/joblib/",  "-packages/loky/",      "-packages/gevent/",
    "/horovod/torch/",     "/deepspeed/comm/",   "-packages/tensorflow/"};

bool has(std::string_view text, std::string_view piece) {
  return text.find(piece) != std::string_view::npos;
}

// ".../lib/python3.11/threading.py" under any prefix.
bool in_standard_library(std::string_view file) {
  for (const std::string_view piece : {"/lib/python3", "/lib64/python3"}) {
    const size_t at = file.find(piece);
    if (at != std::string_view::npos) {
      const std::string_view rest = file.substr(at + piece.size());
      return rest.starts_with('.') || rest.starts_with('/');
    }
  }
  return false;
}

bool in_libc(const Frame& f) {
  // Before glibc 2.34, libpthread was a separate library.
  return f.module.starts_with("libc.so") || f.module.starts_with("libc-") ||
         f.module.starts_with("libpthread") || f.module.starts_with("ld-linux");
}

// Libraries below the program's own call: MPI and what it is built on, and this project's own.
bool in_communication_library(const Frame& f) {
  constexpr std::array<std::string_view, 25> kLibraries = {
      "libxpurun_preload", "libmpi",    "libopen-pal", "libopen-rte", "mca_",     "libucp.",  "libuct",
      "libucs.",           "libucm.",   "libfabric",   "libpmix",     "libprrte", "libevent", "libhwloc",
      "libpsm2",           "libpsm_",   "libibverbs",  "libmlx5",     "libgloo",  "libnccl",  "libgfortran.",
      "librdmacm",         "liboshmem", "libsma",      "libnvshmem"};
  return std::any_of(kLibraries.begin(), kLibraries.end(),
                     [&](std::string_view piece) { return f.module.starts_with(piece); });
}

// Functions below which there is only the abort. A thread aborts once, so the outermost of these decides.
constexpr std::array<std::string_view, 15> kAbort = {
    "abort",          "__GI_abort",         "gsignal",           "raise",
    "__GI_raise",     "std::terminate",     "__cxa_throw",       "__cxa_rethrow",
    "__assert_fail",  "__assert_fail_base", "malloc_printerr",   "__libc_message",
    "__fortify_fail", "__stack_chk_fail",   "__GI___assert_fail"};

bool ends_process(const Frame& f) {
  return f.kind == FrameKind::native && !f.eval &&
         std::find(kAbort.begin(), kAbort.end(), f.func) != kAbort.end();
}

// Libraries below the user's code: where a call into them ends is of no interest, the caller's line is.
constexpr std::array<std::string_view, 26> kLibraries = {
    "libc.",   "libc-",     "libm.",    "libpthread", "ld-linux",   "libstdc++", "libgcc_s",
    "libgomp", "libpython", "python3",  "libtorch",   "libc10",     "libgloo",   "libnccl",
    "libcuda", "libmpi",    "libopen-", "libucp",     "libuct",     "libucs",    "libxpurun",
    "libpmix", "libevent",  "librccl",  "libmkl",     "libopenblas"};

bool names_a_function(const Frame& f) {
  return f.kind == FrameKind::native && !f.eval && !f.func.empty() && !has(f.func, "+0x");
}

// `inner`: the Python frame directly inside; may be null.
CodeOwner owner_of_frame(const Frame& f, const Frame* inner) {
  // python -c "from multiprocessing.spawn import spawn_main; spawn_main(...)"
  const bool starts_process = inner != nullptr && f.file == "<string>" &&
                              (has(inner->file, "/multiprocessing/") || has(inner->file, "/loky/backend/"));
  return starts_process ? CodeOwner::framework : owner_of(f.file);
}

}  // namespace

bool is_of_the_program(const Frame& f) {
  if (f.kind != FrameKind::native || f.eval || f.func.empty() || has(f.func, "+0x") ||
      std::any_of(kLibraries.begin(), kLibraries.end(),
                  [&](std::string_view name) { return f.module.starts_with(name); })) {
    return false;
  }
  if (!f.file.empty()) {
    // CPython's and others' sources, wherever they were built.
    constexpr std::array<std::string_view, 9> kShipped = {"/rustc/",   "/.cargo/registry/", "/Modules/",
                                                          "/Objects/", "/Python/",          "/site-packages/",
                                                          "/pytorch/", "/dist-packages/",   "/sysdeps/"};
    const bool shipped = f.file.starts_with("/build/") || f.file.starts_with("/usr/") ||
                         std::any_of(kShipped.begin(), kShipped.end(),
                                     [&](std::string_view piece) { return has(f.file, piece); });
    return f.line > 0 && !shipped;
  }
  const bool of_kernel = f.module.starts_with("[");  // [vdso]
  return !f.module.empty() && !of_kernel && !has(f.module, ".so") && f.func != "_start";
}

CodeOwner owner_of(std::string_view file) {
  if (file == "<string>" || file == "<stdin>" || file == "<dynamic-code>" ||
      file.starts_with("<ipython-input-")) {
    return CodeOwner::user;  // python -c, typed in, sent by cloudpickle, a cell of a notebook
  }
  if (file.starts_with("src/gevent/") || file.starts_with("_gevent_c")) {
    return CodeOwner::framework;  // as Cython has named them
  }
  if (file.starts_with('<') || file.empty()) {
    return CodeOwner::framework;  // <frozen importlib._bootstrap>
  }
  if (std::any_of(kFrameworkPieces.begin(), kFrameworkPieces.end(),
                  [&](std::string_view piece) { return has(file, piece); })) {
    return CodeOwner::framework;
  }
  if (has(file, "/site-packages/") || has(file, "/dist-packages/")) {
    return CodeOwner::package;
  }
  return in_standard_library(file) ? CodeOwner::framework : CodeOwner::user;
}

std::string_view last_component(std::string_view qualified) {
  const size_t dot = qualified.rfind('.');
  return dot == std::string_view::npos ? qualified : qualified.substr(dot + 1);
}

size_t called_frames(const std::vector<Frame>& frames) {
  const auto it = std::find_if(frames.begin(), frames.end(), [](const Frame& f) {
    return f.kind == FrameKind::python && owner_of(f.file) != CodeOwner::framework;
  });
  return static_cast<size_t>(it - frames.begin());
}

model::CodeLocation place_of(const std::vector<Frame>& frames) {
  const Frame* best = nullptr;
  const Frame* called = nullptr;  // the Python frame directly inside `best`, without wrappers of decorators
  const Frame* inner = nullptr;   // the same inside the current one
  CodeOwner best_owner = CodeOwner::framework;
  for (const Frame& f : frames) {
    if (f.kind != FrameKind::python) {
      continue;
    }
    const CodeOwner owner = owner_of_frame(f, inner);
    if (best == nullptr || owner < best_owner) {
      best = &f;
      called = inner;
      best_owner = owner;
    }
    if (best_owner == CodeOwner::user) {
      break;
    }
    const bool wraps = inner != nullptr && f.func.find("<locals>.") != std::string::npos;
    inner = wraps ? inner : &f;
  }
  // The first native frame of the user's, inside the named line of Python.
  const auto own = std::find_if(frames.begin(), frames.end(),
                                [&](const Frame& f) { return is_of_the_program(f) || &f == best; });
  const bool own_native = own != frames.end() && &*own != best;
  if (best != nullptr) {
    std::string callee = best->callee;
    if (callee.empty() && called != nullptr) {
      callee = called->file.starts_with("<frozen importlib.") ? "import" : called->func;
    }
    model::CodeLocation out{
        .function = best->func, .file = best->file, .line = best->line, .callee = std::move(callee)};
    if (own_native) {
      out.native = own->func;
      out.native_file = own->file;
      out.native_line = own->line;
    }
    return out;
  }
  if (own_native) {
    return {.function = own->func, .file = own->file.empty() ? own->module : own->file, .line = own->line};
  }
  for (const bool is_own : {true, false}) {
    for (const Frame& f : frames) {
      if (names_a_function(f) && !in_libc(f) && !(is_own && in_communication_library(f))) {
        return {.function = f.func, .file = f.file.empty() ? f.module : f.file, .line = f.line};
      }
    }
  }
  const auto any = std::find_if(frames.begin(), frames.end(), names_a_function);
  if (any != frames.end()) {
    return {.function = any->func, .file = any->module};
  }
  return {};
}

model::CodeLocation place_with_target(const model::ThreadStack& thread) {
  model::CodeLocation out = place_of(thread.frames);
  out.target = thread.target;
  return out;
}

bool in_multiprocessing(const std::vector<Frame>& frames) {
  // Every process of multiprocessing has frames of process.py and popen_fork.py, and every worker of a pool
  // those of pool.py below its task.
  const auto called = std::span(frames).first(called_frames(frames));
  return std::any_of(called.begin(), called.end(), [](const Frame& f) {
    return has(f.module, "_multiprocessing") || f.file.ends_with("/multiprocessing/synchronize.py") ||
           f.file.ends_with("/multiprocessing/queues.py") ||
           f.file.ends_with("/multiprocessing/connection.py") ||
           f.file.ends_with("/multiprocessing/pool.py") || f.file.ends_with("/multiprocessing/managers.py");
  });
}

bool runs_python(const model::ThreadStack& thread) {
  return std::any_of(thread.frames.begin(), thread.frames.end(),
                     [](const model::Frame& f) { return f.kind == model::FrameKind::python; });
}

bool is_finalising(const model::ThreadStack& thread) {
  return std::any_of(thread.frames.begin(), thread.frames.end(), [](const model::Frame& f) {
    return f.func == "Py_FinalizeEx" || f.func == "Py_Finalize" || f.func == "finalize_modules";
  });
}

std::vector<Frame> without_abort(const std::vector<Frame>& frames) {
  const auto last =
      std::find_if(frames.rbegin(), frames.rend(), [](const Frame& f) { return ends_process(f); });
  if (last == frames.rend() || last == frames.rbegin()) {
    return frames;
  }
  return {last.base(), frames.end()};
}

std::string innermost_native(const std::vector<Frame>& frames) {
  for (const Frame& f : frames) {
    if (f.kind == FrameKind::python || f.eval) {
      return {};
    }
    if (names_a_function(f)) {
      return model::frame_label(f);
    }
  }
  return {};
}

}  // namespace xpurun::report
