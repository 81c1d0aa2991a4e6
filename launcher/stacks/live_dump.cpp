#include "launcher/stacks/live_dump.h"

#include "common/base/os/fd.h"
#include "common/base/os/host.h"
#include "common/base/os/io.h"
#include "common/base/output/progress.h"
#include "common/model/stacks/stack_file.h"
#include "launcher/os/pidfd.h"
#include "launcher/spawn/install_paths.h"

#include <fmt/format.h>

#include <functional>
#include <map>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

namespace xpurun::launcher {

namespace {

constexpr double kProgressS = 0.2;

// Collects helpers as they end.
class Reaper {
 public:
  explicit Reaper(EventLoop& loop) : loop_(loop) {}
  ~Reaper() {
    for (const auto& [pid, fd] : helpers_) {
      loop_.remove(fd.fd());
    }
  }
  Reaper(const Reaper&) = delete;
  Reaper& operator=(const Reaper&) = delete;

  void watch(base::Pid pid, DumpJob& job) {
    auto fd = Pidfd::open(pid);
    if (!fd) {
      return;
    }
    const int raw = fd->fd();
    helpers_.emplace(pid, std::move(*fd));
    (void)loop_.add(raw, EPOLLIN, [this, pid, &job](uint32_t) { reap(pid, job); });
  }

 private:
  void reap(base::Pid pid, DumpJob& job) {
    int status = 0;
    if (::waitpid(pid, &status, WNOHANG) != pid) {
      return;
    }
    const auto it = helpers_.find(pid);
    loop_.remove(it->second.fd());
    helpers_.erase(it);
    job.helper_ended(pid, base::WaitStatus(status));
  }

  EventLoop& loop_;
  std::map<base::Pid, Pidfd> helpers_;
};

std::string content_of(int fd) {
  constexpr size_t kMost = 4096;
  if (fd < 0 || ::lseek(fd, 0, SEEK_SET) != 0) {
    return {};
  }
  return base::read_fd(fd, kMost).value_or("");
}

}  // namespace

base::Result<LiveDumpResult> dump_live(const LiveDump& dump, const std::vector<DumpTarget>& targets) {
  XPURUN_TRY_ASSIGN(const std::string program, stackdump_program());
  XPURUN_TRY_ASSIGN(EventLoop loop, EventLoop::create());
  // Helpers write complaints to standard error and into their result. Standard error is needed only if there
  // is no result.
  const base::UniqueFd complaints(::memfd_create("xpurun-complaints", MFD_CLOEXEC));
  DumpPlan request{.program = program,
                   .directory = dump.directory,
                   .host = base::host_name(),
                   .targets = targets,
                   .pause_limit_s = dump.pause_limit_s,
                   .deadline_s = dump.debuggers ? kDumpWithDebuggersS : kDumpS,
                   .stderr_fd = complaints.get(),
                   .order = DumpOrder::all_together,
                   .keep_snapshots = dump.keep_snapshots,
                   .helper_options = dump.helper_options};
  ::pthread_sigmask(SIG_BLOCK, nullptr, &request.signal_mask);
  LiveDumpResult result;
  Reaper reaper(loop);
  std::unique_ptr<DumpJob> job;
  job = std::make_unique<DumpJob>(
      loop, std::move(request), [&](base::Pid pid) { reaper.watch(pid, *job); },
      [&](const StackDumpOutcome& outcome) {
        result.outcome = outcome;
        loop.stop();
      });
  base::Progress progress(
      fmt::format("reading and symbolising {} process{}", targets.size(), targets.size() == 1 ? "" : "es"),
      0);
  const std::function<void()> show = [&] {
    progress.advance();
    loop.after(kProgressS, show);
  };
  show();
  job->start();
  XPURUN_TRY(loop.run());
  result.complaints = content_of(complaints.get());
  return result;
}

std::vector<model::ProcessStacks> load_dumped(const std::string& directory, const StackDumpOutcome& outcome) {
  std::vector<model::ProcessStacks> out;
  for (const model::DumpedProcess& p : outcome.processes) {
    std::string why = model::reason_or_status(p.reason, p.status);
    if (!p.file.empty()) {
      auto loaded = model::load_process_stacks(fmt::format("{}/{}", directory, p.file));
      if (loaded) {
        out.push_back(std::move(*loaded));
        continue;
      }
      why = why.empty() || p.status == model::DumpStatus::ok ? base::to_line(loaded.error()) : why;
    }
    model::ProcessStacks failed;
    failed.host = base::host_name();
    failed.pid = p.pid;
    failed.rank = p.rank;
    failed.role = p.role;
    failed.status = model::DumpStatus::failed;
    failed.reason = why;
    out.push_back(std::move(failed));
  }
  return out;
}

}  // namespace xpurun::launcher
