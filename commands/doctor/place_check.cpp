// Checks the resources of a run: its directory, sockets, ports, shared memory and the clock.
#include "commands/doctor/checks.h"
#include "common/base/os/io.h"
#include "common/base/os/temporary_directory.h"
#include "common/base/strings.h"
#include "common/base/tr.h"
#include "launcher/storage/direct_storage.h"
#include "launcher/storage/socket_place.h"

#include <fmt/format.h>

#include <arpa/inet.h>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/timex.h>
#include <unistd.h>

namespace xpurun::launcher {

namespace {

using base::tr;

constexpr uint64_t kLittleDisk = uint64_t{1} << 30;
constexpr uint64_t kNoDisk = uint64_t{64} << 20;
constexpr uint64_t kLittleSharedMemory = uint64_t{1} << 30;
constexpr uint16_t kControlPort = 18888;
constexpr uint16_t kMetricsPort = 18889;

uint64_t free_bytes(const std::string& path) {
  struct statvfs fs {};
  return ::statvfs(path.c_str(), &fs) == 0 ? uint64_t{fs.f_bavail} * fs.f_frsize : 0;
}

// The directory itself, or its nearest existing parent.
std::string nearest_existing(std::string path) {
  while (!base::file_exists(path)) {
    const size_t slash = path.rfind('/');
    if (slash == std::string::npos) {
      return ".";
    }
    path.resize(slash == 0 ? 1 : slash);
  }
  return path;
}

Finding sockets(const std::string& dir) {
  DirectStorage storage;
  const auto place = SocketPlace::choose(facts_of(dir));
  if (!place) {
    return {.check = "sockets",
            .grade = Grade::warn,
            .text = base::to_line(place.error()),
            .lost = tr("crash notices, `xpurun stacks --run` and `xpurun top`"),
            .remedy = tr("--runs-dir on another file system, with a shorter name")};
  }
  place->remove(storage);
  return {.check = "sockets",
          .text = place->in_run_dir()
                      ? tr("Unix sockets work in run directories")
                      : tr("Unix sockets do not work in run directories; they work in {}", place->path(""))};
}

Findings disk(const std::string& runs_dir) {
  const std::string parent = nearest_existing(runs_dir);
  const uint64_t free = free_bytes(parent);
  const auto probe = base::TemporaryDirectory::create_in(parent, ".xpurun-doctor");
  if (!probe) {
    return {{.check = "disk",
             .grade = Grade::fail,
             .text = base::to_line(probe.error()),
             .lost = tr("xpurun cannot start without a run directory"),
             .remedy = "xpurun --runs-dir DIR -- COMMAND"}};
  }
  Finding room{.check = "disk", .text = tr("{} free for {}", base::human_size(free), runs_dir)};
  if (free < kLittleDisk) {
    room.grade = free < kNoDisk ? Grade::fail : Grade::warn;
    room.lost = tr("dumps and reports of large jobs");
    room.remedy = tr("xpurun runs prune, or --runs-dir elsewhere");
  }
  return {room, sockets(probe->path())};
}

Finding shared_memory() {
  const uint64_t free = free_bytes("/dev/shm");
  Finding out{.check = "shm", .text = tr("{} free in /dev/shm", base::human_size(free))};
  if (free < kLittleSharedMemory) {
    out.grade = Grade::warn;
    out.lost = tr("NCCL and dataloader workers die of SIGBUS when /dev/shm is full");
    out.remedy = tr("docker run --shm-size=16g, or --ipc=host");
  }
  return out;
}

Finding port(uint16_t number, std::string_view what) {
  const base::UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(number);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (fd && ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
    return {.check = "ports", .text = tr("{} ({}) is free", number, what)};
  }
  return {.check = "ports",
          .grade = Grade::warn,
          .text = tr("{} ({}) is taken: {}", number, what, tr(std::strerror(errno))),
          .lost = tr("only the default port number: another free port is used; run.json has the address"),
          .remedy = fmt::format("ss -ltnp 'sport = :{}'", number)};
}

Finding clock_sync() {
  timex state{};
  const int rc = ::adjtimex(&state);
  if (rc < 0) {
    return {.check = "clock", .text = tr("the kernel does not report whether the clock is synchronised")};
  }
  if (rc == TIME_ERROR || (state.status & STA_UNSYNC) != 0) {
    return {.check = "clock",
            .grade = Grade::warn,
            .text = tr("the clock is not synchronised"),
            .lost = tr("comparison of times between hosts; nothing on a single host"),
            .remedy = tr("timedatectl set-ntp true, or start chronyd")};
  }
  return {.check = "clock",
          .text = tr("synchronised to within {:.1f} ms", static_cast<double>(state.maxerror) / 1e3)};
}

}  // namespace

Findings check_place(const DoctorContext& context) {
  Findings out = disk(context.runs_dir);
  out.push_back(shared_memory());
  out.push_back(port(kControlPort, tr("control")));
  out.push_back(port(kMetricsPort, tr("metrics")));
  out.push_back(clock_sync());
  return out;
}

}  // namespace xpurun::launcher
