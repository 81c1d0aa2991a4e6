// A /proc made of files, with a supervisor whose pid is above any pid of the kernel, so that no pidfd is
// opened.
#pragma once

#include "common/base/ids.h"
#include "common/base/os/io.h"
#include "common/base/os/procfs.h"
#include "common/base/os/temporary_directory.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <string>

namespace xpurun::test {

inline constexpr base::Pid kSupervisor = 5000001;
inline constexpr base::Pid kCommand = 5000010;

class FakeProc {
 public:
  // `later`: the files of all processes follow with the next write(), which takes a while.
  enum class Write { now, later };

  void add(base::Pid pid, base::Pid parent, const std::string& program, std::string environment = {},
           Write when = Write::now) {
    const std::string dir = fmt::format("{}/{}", root_.path(), pid);
    parents_[pid] = parent;
    names_[pid] = program;
    starts_[pid] = static_cast<int>(++clock_);
    REQUIRE(base::make_dirs(fmt::format("{}/task/{}", dir, pid)));
    std::replace(environment.begin(), environment.end(), ' ', '\0');
    REQUIRE(base::write_file_atomic(dir + "/environ", environment));
    REQUIRE(base::write_file_atomic(dir + "/cmdline", program + std::string(1, '\0')));
    REQUIRE(base::write_file_atomic(dir + "/maps", ""));
    std::filesystem::create_symlink("/usr/bin/" + program, dir + "/exe");
    if (when == Write::now) {
      write();
    }
  }
  // Sets the file and offset of a descriptor of the process.
  void descriptor(base::Pid pid, int fd, const std::string& target, int offset) {
    const std::string dir = fmt::format("{}/{}", root_.path(), pid);
    REQUIRE(base::make_dirs(dir + "/fd"));
    REQUIRE(base::make_dirs(dir + "/fdinfo"));
    const std::string link = fmt::format("{}/fd/{}", dir, fd);
    std::filesystem::remove(link);
    std::filesystem::create_symlink(target, link);
    REQUIRE(base::write_file_atomic(fmt::format("{}/fdinfo/{}", dir, fd),
                                    fmt::format("pos:\t{}\nflags:\t0100001\n", offset)));
  }
  // Its children become the supervisor's.
  void end(base::Pid pid, Write when = Write::now) {
    std::filesystem::remove_all(fmt::format("{}/{}", root_.path(), pid));
    parents_.erase(pid);
    for (auto& [child, parent] : parents_) {
      parent = parent == pid ? kSupervisor : parent;
    }
    if (when == Write::now) {
      write();
    }
  }
  void exec(base::Pid pid, const std::string& program, std::string environment) {
    std::replace(environment.begin(), environment.end(), ' ', '\0');
    REQUIRE(base::write_file_atomic(fmt::format("{}/{}/environ", root_.path(), pid), environment));
    exec(pid, program);
  }
  // `command`: the program, and its arguments behind spaces.
  void exec(base::Pid pid, const std::string& command) {
    const std::string program = command.substr(0, command.find(' '));
    std::string words = command + std::string(1, '\0');
    std::replace(words.begin(), words.end(), ' ', '\0');
    REQUIRE(base::write_file_atomic(fmt::format("{}/{}/cmdline", root_.path(), pid), words));
    const std::string exe = fmt::format("{}/{}/exe", root_.path(), pid);
    std::filesystem::remove(exe);
    std::filesystem::create_symlink("/usr/bin/" + program, exe);
    names_[pid] = program;
    write();
  }
  // The process is exiting: the kernel has released its memory map, but the process is not a zombie yet.
  void lose_memory(base::Pid pid) {
    const std::string dir = fmt::format("{}/{}", root_.path(), pid);
    std::filesystem::remove(dir + "/exe");
    REQUIRE(base::write_file_atomic(dir + "/cmdline", ""));
    names_[pid] += "-exit";
    write();
  }
  // It has ended, and its parent has not asked for its status.
  void become_zombie(base::Pid pid) {
    zombies_.insert(pid);
    write();
  }
  base::ProcFs proc() const { return base::ProcFs(root_.path()); }

  void write() {
    std::map<base::Pid, std::string> children;
    for (const auto& [pid, parent] : parents_) {
      children[parent] += fmt::format("{} ", pid);
      std::string stat =
          fmt::format("{} ({}) {} {}", pid, names_[pid], zombies_.contains(pid) ? 'Z' : 'S', parent);
      for (int field = 5; field <= 52; ++field) {
        stat += field == 22 ? fmt::format(" {}", starts_[pid]) : std::string(" 0");
      }
      REQUIRE(base::write_file_atomic(fmt::format("{}/{}/stat", root_.path(), pid), stat));
    }
    REQUIRE(base::make_dirs(fmt::format("{}/{}/task/{}", root_.path(), kSupervisor, kSupervisor)));
    parents_.emplace(kSupervisor, 1);
    names_[kSupervisor] = "xpurun";
    for (const auto& [pid, parent] : parents_) {
      REQUIRE(base::write_file_atomic(fmt::format("{0}/{1}/task/{1}/children", root_.path(), pid),
                                      children[pid]));
    }
  }

 private:
  base::TemporaryDirectory root_ = *base::TemporaryDirectory::create("xpurun-proc-");
  std::map<base::Pid, base::Pid> parents_;
  std::set<base::Pid> zombies_;
  std::map<base::Pid, std::string> names_;
  std::map<base::Pid, int> starts_;
  uint64_t clock_ = 100;
};

}  // namespace xpurun::test
