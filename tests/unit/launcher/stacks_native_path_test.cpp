// Stacks with native frames, as samples have them.
#include "launcher/stacks/native_path.h"

#include <doctest/doctest.h>

using namespace xpurun;
using namespace xpurun::launcher;

TEST_CASE("a stack with native frames as frames of a sample") {
  using model::FrameKind;
  const auto native = [](const char* func, const char* module) {
    return model::Frame{.func = func, .module = module, .offset = 0x1f};
  };
  model::ThreadStack t;
  t.frames = {
      native("mkl_blas_sgemm", "libtorch_cpu.so"),
      native("sgemm_", "libblas.so.3"),
      native("libblas.so.3+0x1f", "libblas.so.3"),
      native("libblas.so.3+0x1f", "libblas.so.3"),
      native("at::native::linear", "libtorch_cpu.so"),
      native("at::_ops::addmm::redispatch", "libtorch_cpu.so"),
      native("libtorch_cpu.so+0x1f", "libtorch_cpu.so"),
      native("at::_ops::addmm::call", "libtorch_cpu.so"),
      native("_PyObject_MakeTpCall", "python3.11"),
      {.kind = FrameKind::python, .func = "forward", .file = "/job/net.py", .line = 3},
      native("_PyEval_EvalFrameDefault", "libpython3.11.so.1.0"),
      {.kind = FrameKind::marker, .func = "[unwind stopped]"},
      native("torch::autograd::PyNode::apply", "libtorch_python.so"),
      native("torch::autograd::Engine::evaluate_function", "libtorch_cpu.so"),
      native("torch::autograd::generated::MmBackward0::apply", "libtorch_cpu.so"),
      native("start_thread", "libc.so.6"),
  };
  std::vector<std::string> path;
  for (const stackdump::SampledFrame& f : native_path(t)) {
    path.push_back(f.function);
  }
  CHECK(path == std::vector<std::string>{"autograd: MmBackward0", "autograd: PyNode", "forward",
                                         "aten::addmm", "libblas.so.3", "sgemm_ (libblas.so.3)",
                                         "mkl_blas_sgemm (libtorch_cpu.so)"});
  CHECK(native_path(t)[2].line == 3);
  CHECK(runs_program(native_path(t)));
  CHECK(runs_program({{.function = "poll (libc.so.6)"}, {.function = "aten::mm"}}));
  CHECK(runs_program({{.function = "autograd: AccumulateGrad"}}));
  CHECK_FALSE(runs_program({{.function = "poll (libc.so.6)"}, {.function = "sgemm_ (libblas.so.3)"}}));
}
