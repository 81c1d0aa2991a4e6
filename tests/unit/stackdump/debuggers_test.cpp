#include "stackdump/debuggers/child_tool.h"
#include "stackdump/debuggers/cuda_gdb.h"
#include "stackdump/debuggers/gdb_stacks.h"

#include <doctest/doctest.h>

#include <unistd.h>

using namespace xpurun;
using namespace xpurun::stackdump;

TEST_CASE("gdb's backtraces are read with any names") {
  const auto threads = parse_gdb_backtrace(
      "[New LWP 12]\n"
      "warning: something\n"
      "Thread 2 (Thread 0x7f01 (LWP 12) \"a (b)\"):\n"
      "#0  0x00007f12 in std::function<void (int)>::operator()(int) const (this=...) at /a b/c.h:590\n"
      "#1  <signal handler called>\n"
      "#2  0x0000000000000001 in (anonymous namespace)::f in g (x=...) from /usr/lib/libx.so.1\n"
      "#3  0x00007f13 in ?\? () from /usr/lib/libcuda.so.1\n"
      "#4  0x00007f14 in ?\? ()\n"
      "#5  plain (a=...) at m.c:3\n"
      "#6  unbalanced ((( at\n"
      "#x\n"
      "Thread 1 (LWP 11):\n"
      "#0  main () at a.c:1\n"
      "Thread 3 (process 10):\n");
  REQUIRE(threads.size() == 3);
  CHECK(threads[0].tid == 12);
  const auto& f = threads[0].frames;
  REQUIRE(f.size() == 7);
  CHECK(f[0].func == "std::function::operator()");
  CHECK(f[0].pc == 0x7f12);
  CHECK(f[0].file == "/a b/c.h");
  CHECK(f[0].line == 590);
  CHECK(f[1].func == "<signal handler called>");
  CHECK(f[2].module == "libx.so.1");
  CHECK(f[2].func.find('x') == std::string::npos);
  CHECK(f[3].func == "libcuda.so.1");
  CHECK(f[4].func == "[unknown code]");
  CHECK(f[5].func == "plain");
  CHECK(f[5].pc == 0);
  CHECK(threads[1].tid == 11);
  CHECK(threads[2].tid == 10);
  CHECK(parse_gdb_backtrace("#0 main () at a.c:1\n").empty());
}

TEST_CASE("columns of cuda-gdb may vary") {
  const auto kernels = parse_cuda_kernels(
      "Kernel Dev Grid Status SMs Mask GridDim BlockDim Invocation\n"
      "* 0 2 7 Active 0xff (1,2,3) (4,5,6) k<<<int>>>(a=1, b=(2))\n"
      "garbage\n"
      "  Kernel Parent Dev Grid Status   SMs Mask GridDim BlockDim Name Args\n"
      "  1 - 0 8 Sleeping 0x1 (1,1,1) (32,1,1) other ()\n"
      "  2 - 0 9 Sleeping 0x1 (1,1,1)\n");
  REQUIRE(kernels.size() == 2);
  CHECK(kernels[0].device == 2);
  CHECK(kernels[0].grid == 7);
  CHECK(kernels[0].grid_dim == "1,2,3");
  CHECK(kernels[0].block_dim == "4,5,6");
  CHECK(kernels[1].device == 0);
  CHECK(kernels[1].status == "Sleeping");
  CHECK(parse_cuda_kernels("").empty());
  CHECK(parse_cuda_kernels("No CUDA kernels.\n").empty());
}

TEST_CASE("the thread that waits for the GPU is the calling thread") {
  const auto frame = [](const char* func, const char* module) {
    model::Frame f;
    f.func = func;
    f.module = module;
    return f;
  };
  model::ProcessStacks p;
  p.threads.resize(3);
  // The driver's own thread.
  p.threads[0].frames = {frame("poll", "libc.so.6"), frame("libcuda.so.1+0x1", "libcuda.so.1"),
                         frame("clone3", "libc.so.6")};
  CHECK(gpu_waiter(p) == -1);
  p.threads[1].frames = {frame("libcuda.so.1+0x1", "libcuda.so.1"),
                         frame("cuStreamSynchronize", "libcuda.so.1"),
                         frame("cudaStreamSynchronize", "libcudart.so.12"), frame("c10::f", "libc10.so")};
  CHECK(gpu_waiter(p) == 1);
  p.threads[2] = p.threads[1];
  p.threads[2].main = true;
  CHECK(gpu_waiter(p) == 2);
  p.threads[2].frames = {frame("cuLaunchKernel", "libcuda.so.1"), frame("c10::f", "libc10.so")};
  CHECK(gpu_waiter(p) == 1);
}

TEST_CASE("gdb runs if xpurun's own engine fails, but not if threads are in uninterruptible sleep") {
  model::ProcessStacks p;
  p.pid = ::getpid();
  p.method = "ptrace";
  model::Frame native;
  native.kind = model::FrameKind::native;
  model::Frame stopped;
  stopped.kind = model::FrameKind::marker;
  p.threads.resize(2);
  for (model::ThreadStack& t : p.threads) {
    t.state = 'S';
    t.frames = {native, stopped};
  }
  CHECK(wants_gdb(p, {}));
  p.threads[1].state = 'D';
  CHECK_FALSE(wants_gdb(p, {}));
  p.threads[1].state = 'S';
  p.threads[1].frames = {native, native, stopped};
  CHECK_FALSE(wants_gdb(p, {}));
  CHECK(wants_gdb(p, {.unwinder = UnwinderKind::gdb}));
}

TEST_CASE("tools run with both outputs, and are ended in time") {
  const auto ran = run_tool({"sh", "-c", "echo out; echo err >&2; exit 3"}, 5'000'000'000);
  REQUIRE(ran);
  CHECK(ran->out == "out\n");
  CHECK(ran->err == "err\n");
  CHECK(ran->exit_status == 3);
  CHECK(ran->end == ToolEnd::exited);
  CHECK_FALSE(run_tool({"/no/such/tool"}, 1'000'000'000));
  // A child that keeps the pipes open does not delay the caller.
  const auto background = run_tool({"sh", "-c", "sleep 100 & echo done"}, 20'000'000'000);
  REQUIRE(background);
  CHECK(background->out == "done\n");
  const auto slow = run_tool({"sh", "-c", "echo first; exec sleep 100"}, 200'000'000);
  REQUIRE(slow);
  CHECK(slow->end == ToolEnd::timed_out);
  CHECK(slow->out == "first\n");
  CHECK(tool_exists("sh"));
  CHECK(tool_exists("/bin/sh"));
  CHECK_FALSE(tool_exists("no-such-tool-at-all"));
}
