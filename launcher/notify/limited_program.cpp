#include "launcher/notify/limited_program.h"

#include "common/base/os/io.h"
#include "common/base/os/procfs.h"
#include "common/base/os/program.h"
#include "common/base/strings.h"
#include "launcher/spawn/environment.h"

#include <fmt/format.h>

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

namespace xpurun::launcher {

namespace {

// Longer lines are taken in parts.
constexpr size_t kLongestLine = 64 * 1024;
// This many bytes of the output are kept; the rest is read and dropped.
constexpr size_t kMostOutput = 1024 * 1024;
constexpr const char* kMark = "XPURUN_EVENT_PROGRAM";
// Of one program.
constexpr size_t kMostProcesses = 100'000;

// A file in memory: unlike a pipe it never blocks the writer, however slowly the program reads.
base::Result<base::UniqueFd> input_of(const std::string& text) {
  base::UniqueFd fd(::memfd_create("xpurun-input", MFD_CLOEXEC));
  if (!fd) {
    return base::fail_errno("cannot make a file in memory");
  }
  XPURUN_TRY(base::write_all(fd.get(), text));
  if (::lseek(fd.get(), 0, SEEK_SET) != 0) {
    return base::fail_errno("cannot rewind a file in memory");
  }
  return fd;
}

}  // namespace

LimitedProgram::~LimitedProgram() {
  if (output_) {
    setup_.loop.remove(output_.get());
  }
  kill_all();
}

void LimitedProgram::kill_all() const {
  if (pid_ <= 0) {
    return;
  }
  const base::ProcFs proc;
  // With the program's end its children became children of xpurun, the subreaper.
  std::vector<base::Pid> found;
  if (!is_reaped_) {
    found.push_back(pid_);
  }
  for (const base::Pid child : proc.children(::getpid())) {
    const auto environment = proc.environ(child);
    const auto mark = environment.find(kMark);
    if (mark != environment.end() && mark->second == mark_) {
      found.push_back(child);
    }
  }
  for (size_t i = 0; i < found.size() && found.size() < kMostProcesses; ++i) {
    const auto children = proc.children(found[i]);
    found.insert(found.end(), children.begin(), children.end());
  }
  ::kill(-pid_, SIGKILL);
  for (const base::Pid pid : found) {
    ::kill(pid, SIGKILL);
  }
}

void LimitedProgram::start(const std::vector<std::string>& argv, const std::string& input, double limit_s,
                           Handlers handlers) {
  handlers_ = std::move(handlers);
  started_ = setup_.loop.now();
  if (const auto launched = launch(argv, input); !launched) {
    deadline_.after(
        0, [this, why = base::to_line(launched.error())] { finish(model::ProgramStatus::not_run, why); });
    return;
  }
  setup_.started(pid_);
  deadline_.after(limit_s, [this, limit_s] {
    give_up(fmt::format("has not ended within {}", base::human_duration(limit_s)));
  });
}

base::Status LimitedProgram::launch(const std::vector<std::string>& argv, const std::string& input) {
  XPURUN_TRY_ASSIGN(const std::string path, base::find_program(argv.at(0)));
  XPURUN_TRY_ASSIGN(const base::UniqueFd in, input_of(input));
  XPURUN_TRY_ASSIGN(base::Pipe out, base::make_pipe());
  ::fcntl(out.read_end.get(), F_SETFL, O_NONBLOCK);
  static unsigned number = 0;
  is_reaped_ = false;
  mark_ = fmt::format("{}-{}", ::getpid(), ++number);
  auto environment = without_preload(current_environment());
  environment.push_back(fmt::format("{}={}", kMark, mark_));
  XPURUN_TRY_ASSIGN(pid_, base::start_program({.path = path,
                                               .argv = argv,
                                               .env = environment,
                                               .in = in.get(),
                                               .out = out.write_end.get(),
                                               .err = out.write_end.get(),
                                               .own_group = true,
                                               .signal_mask = setup_.signal_mask}));
  output_ = std::move(out.read_end);
  return setup_.loop.add(output_.get(), EPOLLIN, [this](uint32_t) { read_output(); });
}

void LimitedProgram::read_output() {
  char buf[4096];
  ssize_t n = 0;
  while (output_ && (n = ::read(output_.get(), buf, sizeof buf)) > 0) {
    if (read_bytes_ < kMostOutput) {
      pending_.append(buf, static_cast<size_t>(n));
    }
    read_bytes_ += static_cast<size_t>(n);
    for (size_t end; (end = pending_.find('\n')) != std::string::npos || pending_.size() > kLongestLine;) {
      handlers_.line(std::string_view(pending_).substr(0, end));
      pending_.erase(0, end == std::string::npos ? end : end + 1);
    }
  }
  if (n == 0 && output_) {
    setup_.loop.remove(output_.get());
    output_.reset();
  }
}

void LimitedProgram::give_up(const std::string& why) {
  if (busy()) {
    kill_all();
    finish(model::ProgramStatus::timeout, why);
  }
}

bool LimitedProgram::helper_ended(base::Pid pid, base::WaitStatus status) {
  if (pid_ <= 0 || pid != pid_) {
    return false;
  }
  is_reaped_ = true;
  if (busy()) {
    finish(status.succeeded() ? model::ProgramStatus::ok : model::ProgramStatus::failed,
           status.succeeded() ? std::string() : status.text());
  }
  return true;
}

void LimitedProgram::finish(model::ProgramStatus status, std::string reason) {
  deadline_.stop();
  // After a normal end too: processes that the program has left behind must not outlive it.
  kill_all();
  pid_ = 0;
  // The pipe still holds what was written before the end.
  read_output();
  if (!pending_.empty()) {
    handlers_.line(std::exchange(pending_, {}));
  }
  if (output_) {
    setup_.loop.remove(output_.get());
    output_.reset();
  }
  const auto done = std::exchange(handlers_.done, nullptr);
  done({.status = status,
        .reason = std::move(reason),
        .seconds = base::ns_to_s(setup_.loop.now() - started_)});
}

}  // namespace xpurun::launcher
