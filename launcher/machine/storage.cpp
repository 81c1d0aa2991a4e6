#include "launcher/machine/storage.h"

#include "common/base/strings.h"
#include "stackdump/native/kernel_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <fcntl.h>
#include <set>
#include <sys/statvfs.h>
#include <system_error>
#include <thread>

namespace xpurun::launcher {

using model::FileSystem;
using model::MachineFact;
using model::MachineReading;

namespace {

constexpr int kMostDescriptors = 256;  // of one process
constexpr size_t kMostPlaces = 64;
constexpr size_t kMostHelpers = 32;  // of one rank
constexpr size_t kMostSums = 200;
// The whole call may block, and a thread in it cannot be ended.
constexpr size_t kMostQuestions = 64;

std::string directory_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == 0 || slash == std::string::npos ? std::string("/") : path.substr(0, slash);
}

// "flags:\t0100001" in octal
bool opened_for_writing(std::string_view fdinfo) {
  constexpr std::string_view kName = "flags:";
  for (const std::string_view line : base::split(fdinfo, '\n')) {
    if (line.starts_with(kName)) {
      const std::string_view digits = base::trim(line.substr(kName.size()));
      return !digits.empty() && (digits.back() - '0') % 4 != O_RDONLY;
    }
  }
  return false;
}

double used_share(uint64_t all, uint64_t free) {
  return all == 0 ? 0 : 1 - static_cast<double>(std::min(free, all)) / static_cast<double>(all);
}

}  // namespace

std::vector<std::string> written_places(const base::ProcFs& proc, base::Pid pid) {
  std::vector<std::string> out{proc.link(pid, "cwd")};
  const auto env = proc.environ(pid);
  const auto tmp = env.find("TMPDIR");
  out.push_back(tmp == env.end() ? "/tmp" : tmp->second);
  for (int fd = 1; fd < kMostDescriptors; ++fd) {
    const std::string path = proc.link(pid, fmt::format("fd/{}", fd));
    if (path.starts_with('/') && !path.starts_with("/dev/") && !path.ends_with(" (deleted)") &&
        opened_for_writing(proc.text(pid, fmt::format("fdinfo/{}", fd)))) {
      out.push_back(directory_of(path));
    }
  }
  std::erase_if(out, [](const std::string& path) { return !path.starts_with('/'); });
  return out;
}

struct SpaceReader::Question {
  std::mutex mutex;  // guards the members below
  std::condition_variable changed;
  bool asked = false;  // and not answered
  std::optional<FreeSpace> answer;
};

std::optional<FreeSpace> SpaceReader::ask_kernel(const std::string& path) {
  struct statvfs fs {};
  if (::statvfs(path.c_str(), &fs) != 0) {
    return std::nullopt;
  }
  // As df: blocks that are reserved for root are no space for others.
  const uint64_t usable = fs.f_blocks - (fs.f_bfree - std::min(fs.f_bavail, fs.f_bfree));
  return FreeSpace{.bytes = usable * fs.f_frsize,
                   .free_bytes = static_cast<uint64_t>(fs.f_bavail) * fs.f_frsize,
                   .inodes = fs.f_files,
                   .free_inodes = fs.f_favail};
}

void SpaceReader::read(const std::string& mountinfo, const std::vector<std::string>& paths, double patience_s,
                       MachineReading& out) {
  std::map<std::string, std::pair<FileSystem, std::string>> mounts;
  for (const std::string& path : paths) {
    FileSystem fs = model::file_system_of(mountinfo, path);
    // /dev/shm and other memory may be full; files of the kernel are not.
    if (!fs.empty() && (!model::is_virtual(fs) || fs.type == "tmpfs") && mounts.size() < kMostPlaces) {
      const std::string mount = fs.mount;
      mounts.emplace(mount, std::pair(std::move(fs), path));
    }
  }
  for (const auto& [mount, known] : mounts) {
    auto& question = questions_[mount];
    if (question == nullptr) {
      question = std::make_shared<Question>();
    }
    const std::lock_guard lock(question->mutex);
    if (question->asked || questions_.size() > kMostQuestions) {
      continue;
    }
    question->asked = true;
    question->answer.reset();
    try {
      std::thread([question, ask = ask_, path = known.second] {
        auto answer = ask(path);
        const std::lock_guard inner(question->mutex);
        question->answer = answer;
        question->asked = false;
        question->changed.notify_all();
      }).detach();
    } catch (const std::system_error&) {
      question->asked = false;
    }
  }
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(patience_s);
  for (const auto& [mount, known] : mounts) {
    const auto question = questions_[mount];
    std::unique_lock lock(question->mutex);
    question->changed.wait_until(lock, until, [&] { return !question->asked; });
    const auto& [fs, path] = known;
    const std::string where = base::sanitize(mount);
    out.values.push_back({.fact = MachineFact::mount_silent,
                          .object = where,
                          .value = question->asked ? 1.0 : 0.0,
                          .detail = model::file_system_words(fs)});
    if (question->asked || !question->answer) {
      continue;
    }
    const FreeSpace& space = *question->answer;
    const std::string of = path == mount
                               ? model::file_system_words(fs)
                               : base::sanitize(fmt::format("{}, on {}", path, model::file_system_words(fs)));
    if (space.bytes > 0) {
      out.values.push_back(
          {.fact = MachineFact::space,
           .object = where,
           .value = used_share(space.bytes, space.free_bytes),
           .detail = fmt::format("{} of {} are free in {}", base::human_size(space.free_bytes),
                                 base::human_size(space.bytes), of)});
    }
    if (space.inodes > 0) {
      out.values.push_back(
          {.fact = MachineFact::inodes,
           .object = where,
           .value = used_share(space.inodes, space.free_inodes),
           .detail = fmt::format("{} of {} inodes are free in {}", space.free_inodes, space.inodes, of)});
    }
  }
}

std::optional<StorageWait> storage_wait(const base::ProcFs& proc, base::Pid pid) {
  const auto stat = proc.stat(pid);
  if (!stat || (stat->state != 'D' && stat->state != 'S')) {
    return std::nullopt;
  }
  const std::string call = proc.text(pid, "syscall");
  const int fd = stackdump::syscall_descriptor(call);
  const std::string path = fd >= 0 ? proc.link(pid, fmt::format("fd/{}", fd)) : std::string();
  if (!path.starts_with('/')) {
    return std::nullopt;
  }
  FileSystem fs = model::file_system_of(proc.text(pid, "mountinfo"), path);
  if (model::is_virtual(fs) || (stat->state != 'D' && !model::is_served(fs))) {
    return std::nullopt;
  }
  return StorageWait{.call = fmt::format("{}() of {}", stackdump::syscall_name(call), path),
                     .file_system = std::move(fs)};
}

void StorageWaits::sample(const HostFiles& host, const std::vector<WatchedRank>& ranks, double seconds) {
  const base::ProcFs proc = host.proc();
  for (const WatchedRank& rank : ranks) {
    std::vector<base::Pid> pids{rank.pid};
    const auto children = proc.listed_children(rank.pid);
    for (size_t i = 0; children && i < std::min(children->size(), kMostHelpers); ++i) {
      pids.push_back((*children)[i]);
    }
    std::set<std::string> counted;  // mount points: a rank with ten workers in one mount waits once
    for (const base::Pid pid : pids) {
      const auto wait = storage_wait(proc, pid);
      if (!wait || !counted.insert(wait->file_system.mount).second) {
        continue;
      }
      const std::pair key(rank.rank, wait->file_system.mount);
      if (sums_.contains(key) || sums_.size() < kMostSums) {
        Sum& sum = sums_[key];
        sum.us += seconds * 1e6;
        sum.detail =
            base::sanitize(fmt::format("{}, {}", wait->call, model::file_system_words(wait->file_system)));
      }
    }
  }
}

void StorageWaits::read(MachineReading& out) const {
  for (const auto& [key, sum] : sums_) {
    out.values.push_back({.fact = MachineFact::storage_wait,
                          .object = base::sanitize(key.second),
                          .value = sum.us,
                          .detail = sum.detail,
                          .rank = key.first});
  }
}

}  // namespace xpurun::launcher
