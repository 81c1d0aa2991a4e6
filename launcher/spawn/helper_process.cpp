#include "launcher/spawn/helper_process.h"

#include "common/base/scope.h"

#include <fmt/format.h>

#include <fcntl.h>
#include <spawn.h>
#include <unistd.h>
#include <utility>

namespace xpurun::launcher {

HelperProcess::HelperProcess(HelperProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, 0)),
      input_(std::move(other.input_)),
      output_(std::move(other.output_)) {}

HelperProcess& HelperProcess::operator=(HelperProcess&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(input_, other.input_);
  std::swap(output_, other.output_);
  return *this;
}

base::Result<HelperProcess> HelperProcess::start(const std::vector<std::string>& argv,
                                                 const sigset_t& signal_mask, int stderr_fd) {
  int in[2];
  int out[2];
  if (::pipe2(in, O_CLOEXEC) != 0) {
    return base::fail_errno("cannot create a pipe");
  }
  base::UniqueFd in_read(in[0]);
  base::UniqueFd in_write(in[1]);
  if (::pipe2(out, O_CLOEXEC) != 0) {
    return base::fail_errno("cannot create a pipe");
  }
  base::UniqueFd out_read(out[0]);
  base::UniqueFd out_write(out[1]);
  ::fcntl(out_read.get(), F_SETFL, O_NONBLOCK);

  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  const auto free_actions = base::on_scope_exit([&] { ::posix_spawn_file_actions_destroy(&actions); });
  ::posix_spawn_file_actions_adddup2(&actions, in_read.get(), 0);
  ::posix_spawn_file_actions_adddup2(&actions, out_write.get(), 1);
  if (stderr_fd >= 0) {
    ::posix_spawn_file_actions_adddup2(&actions, stderr_fd, 2);
  }
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  const auto free_attributes = base::on_scope_exit([&] { ::posix_spawnattr_destroy(&attributes); });
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
  ::posix_spawnattr_setsigmask(&attributes, &signal_mask);

  std::vector<char*> pointers;
  pointers.reserve(argv.size() + 1);
  for (const std::string& word : argv) {
    pointers.push_back(const_cast<char*>(word.c_str()));
  }
  pointers.push_back(nullptr);
  HelperProcess helper;
  pid_t pid = 0;
  const int err = ::posix_spawn(&pid, argv.at(0).c_str(), &actions, &attributes, pointers.data(), environ);
  if (err != 0) {
    return base::fail_errno(fmt::format("cannot start {}", argv.at(0)), err);
  }
  helper.pid_ = pid;
  helper.input_ = std::move(in_write);
  helper.output_ = std::move(out_read);
  return helper;
}

void HelperProcess::kill() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
  }
}

}  // namespace xpurun::launcher
