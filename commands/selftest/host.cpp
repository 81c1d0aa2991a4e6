#include "commands/selftest/host.h"

#include "commands/selftest/quiet_process.h"
#include "common/base/os/io.h"
#include "common/base/strings.h"
#include "common/model/json_fields.h"
#include "launcher/os/pidfd.h"
#include "launcher/spawn/command_spawner.h"
#include "launcher/spawn/environment.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <poll.h>
#include <sys/wait.h>

namespace xpurun::launcher {

namespace {

// A cold import of torch from a network file system.
constexpr int kProbeLimitMs = 60'000;

base::WaitStatus wait_at_most(base::Pid pid, int limit_ms) {
  // waitpid(2) has no time limit; a pidfd can be polled with one.
  if (const auto handle = Pidfd::open(pid)) {
    pollfd waiting{.fd = handle->fd(), .events = POLLIN, .revents = 0};
    if (::poll(&waiting, 1, limit_ms) <= 0) {
      ::kill(-pid, SIGKILL);
    }
  }
  int status = 0;
  return ::waitpid(pid, &status, 0) == pid ? base::WaitStatus(status) : base::WaitStatus();
}

}  // namespace

base::Result<TestHost> test_host_from_json(std::string_view text) {
  const auto j = model::parse_json(text);
  if (!j.is_object()) {
    return base::fail(fmt::format("the probe of the selftest's job says '{}'",
                                  base::sanitize(base::trim(text.substr(0, 200)))));
  }
  return TestHost{.python = j.value("python", ""),
                  .torch = j.value("torch", ""),
                  .problem = j.value("problem", ""),
                  .gloo = j.value("gloo", false),
                  .nccl = j.value("nccl", false),
                  .gpus = j.value("gpus", 0),
                  .mpi = j.value("mpi", false)};
}

base::Result<TestHost> probe_host(const std::vector<std::string>& python, const std::string& job,
                                  const std::string& scratch) {
  XPURUN_TRY_ASSIGN(const std::string program, resolve_program(python.at(0)));
  QuietProcess process{.argv = python,
                       .env = job_environment(current_environment(), scratch),
                       .directory = scratch,
                       .output = scratch + "/probe.txt"};
  process.argv[0] = program;
  process.argv.insert(process.argv.end(), {job, "probe", scratch + "/probe.json"});
  ::sigprocmask(SIG_SETMASK, nullptr, &process.signal_mask);
  XPURUN_TRY_ASSIGN(const base::Pid pid, start(process));
  const base::WaitStatus status = wait_at_most(pid, kProbeLimitMs);
  const auto answer = base::read_regular_file(scratch + "/probe.json");
  if (!status.succeeded() || !answer) {
    return base::fail(
        base::Error{.what = fmt::format("{} cannot run the selftest's job: it {}", program, status.text()),
                    .cause = base::read_regular_file(process.output).value_or(""),
                    .hint = "xpurun selftest -- PYTHON"});
  }
  return test_host_from_json(*answer);
}

std::string reason_to_skip(const Injection& injection, Device device, const TestHost& host) {
  if (injection.needs_mpi) {
    return host.mpi ? "" : "no mpirun, or no mpi4py";
  }
  if (host.torch.empty()) {
    return host.problem.empty() ? "no torch" : fmt::format("no torch: {}", host.problem);
  }
  if (device == Device::cpu) {
    return injection.needs_gpu ? "on GPUs only (--gpu)" : host.gloo ? "" : "torch has no gloo";
  }
  if (!host.nccl) {
    return "torch has no NCCL";
  }
  if (host.gpus == 0) {
    return "torch sees no GPU";
  }
  // Ranks that share a GPU wait for each other's kernels, which slows all of them down.
  return injection.slow && host.gpus < injection.least_ranks
             ? fmt::format("needs {} GPUs, torch sees {}", injection.least_ranks, host.gpus)
             : "";
}

}  // namespace xpurun::launcher
