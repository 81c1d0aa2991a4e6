#include "launcher/machine/machine_helper.h"

#include "common/base/clock.h"
#include "common/base/os/io.h"
#include "common/base/output/terminal.h"
#include "common/base/strings.h"
#include "launcher/machine/machine_reader.h"
#include "launcher/machine/memory/memory_users.h"

#include <fmt/format.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <system_error>
#include <thread>
#include <unistd.h>

namespace xpurun::launcher {

namespace {

// Between two samples of what the ranks wait in.
constexpr double kSampleS = 1.9;
constexpr size_t kLongestRequest = size_t{64} << 10;

// Says who has the memory without being asked, because after the kernel has killed it is too late. In a
// thread of its own: a file system that does not answer, or ranks that take all CPUs, must not delay the last
// look.
class MemoryThread {
 public:
  void start() {
    try {
      std::thread([this] { run(); }).detach();
    } catch (const std::system_error&) {
      // Without it, only these looks are missing.
    }
  }
  void watch(const std::vector<WatchedRank>& ranks) {
    const std::lock_guard lock(mutex_);
    ranks_ = ranks;
    changed_.notify_all();
  }
  bool put(const std::string& line) {
    const std::lock_guard lock(output_);
    return bool(base::put_out(line));
  }

 private:
  void run() {
    const HostFiles host;
    MemoryUsersWatch users(::getppid());
    std::unique_lock lock(mutex_);
    for (;;) {
      const std::vector<WatchedRank> ranks = ranks_;
      lock.unlock();
      const int wait_ms = users.turn(host, ranks, base::mono_ns(), base::wall_ns());
      for (const model::MemoryUsers& look : users.take()) {
        put(line_of(look));
      }
      lock.lock();
      changed_.wait_for(lock, std::chrono::milliseconds(wait_ms), [&] { return ranks != ranks_; });
    }
  }

  std::mutex mutex_;  // guards the next two
  std::condition_variable changed_;
  std::vector<WatchedRank> ranks_;
  std::mutex output_;
};

class MachineHelper {
 public:
  explicit MachineHelper(std::string run_dir) : reader_(std::move(run_dir)) {}

  // Until the supervisor has closed its end.
  void run() {
    memory_.start();
    // The ranks' CPUs are theirs. Of this thread alone.
    ::setpriority(PRIO_PROCESS, 0, 10);
    for (;;) {
      pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
      const int ready = ::poll(&input, 1, wait_ms_);
      wait_ms_ = reader_.turn(ranks_);
      sample(ready > 0);
      if (ready < 0 && errno != EINTR) {
        return;
      }
      if (ready > 0 && !take()) {
        return;
      }
    }
  }

 private:
  // `asked`: a reading follows.
  void sample(bool asked) {
    const base::MonoNs now = base::mono_ns();
    if (!asked && base::ns_to_s(now - sampled_) < kSampleS) {
      return;
    }
    if (sampled_ > 0) {
      reader_.sample(ranks_, base::ns_to_s(now - sampled_));
    }
    sampled_ = now;
  }

  bool take() {
    char bytes[4096];
    const ssize_t got = ::read(STDIN_FILENO, bytes, sizeof bytes);
    if (got <= 0) {
      return got < 0 && errno == EINTR;
    }
    text_.append(bytes, static_cast<size_t>(got));
    const size_t end = text_.rfind('\n');
    if (end == std::string::npos) {
      return text_.size() < kLongestRequest;
    }
    const size_t begin = end == 0 ? 0 : text_.rfind('\n', end - 1);
    ranks_ = ranks_from(std::string_view(text_).substr(begin == std::string::npos ? 0 : begin,
                                                       end - (begin == std::string::npos ? 0 : begin)));
    text_.erase(0, end + 1);
    memory_.watch(ranks_);
    wait_ms_ = reader_.turn(ranks_);
    return memory_.put(line_of(reader_.read(ranks_)));
  }

  MachineReader reader_;
  MemoryThread memory_;
  std::vector<WatchedRank> ranks_;
  std::string text_;
  base::MonoNs sampled_ = 0;
  int wait_ms_ = 0;
};

}  // namespace

std::vector<std::string> machine_words(const std::string& run_dir) {
  return {std::string(kMachineRole), run_dir};
}

std::string ranks_line(const std::vector<WatchedRank>& ranks) {
  std::string out;
  for (const WatchedRank& rank : ranks) {
    out += fmt::format("{}{}:{}:{}", out.empty() ? "" : " ", rank.rank, rank.local_rank, rank.pid);
  }
  return out + "\n";
}

std::vector<WatchedRank> ranks_from(std::string_view line) {
  constexpr int64_t kMostPid = 1 << 22;
  std::vector<WatchedRank> out;
  for (const std::string_view word : base::split(base::trim(line), ' ')) {
    const auto parts = base::split(word, ':');
    if (parts.size() != 3) {
      continue;
    }
    const auto rank = base::parse_int(parts[0]);
    const auto local = base::parse_int(parts[1]);
    const auto pid = base::parse_int(parts[2]);
    if (rank && local && pid && *rank >= 0 && *rank <= INT32_MAX && *local >= -1 && *local <= INT32_MAX &&
        *pid > 0 && *pid <= kMostPid) {
      out.push_back({.rank = static_cast<base::Rank>(*rank),
                     .local_rank = static_cast<int>(*local),
                     .pid = static_cast<base::Pid>(*pid)});
    }
  }
  return out;
}

void run_machine_helper(const std::vector<std::string>& words) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::signal(SIGPIPE, SIG_IGN);
  if (words.size() != 2) {
    ::_exit(2);
  }
  // Never destroyed, because a thread may wait for a dead file system.
  auto* helper = new MachineHelper(words[1]);
  helper->run();
  ::_exit(0);
}

}  // namespace xpurun::launcher
