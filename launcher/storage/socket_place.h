// SocketPlace: the directory of this run's sockets: the run directory if it can hold sockets, else a private
// directory of $XDG_RUNTIME_DIR, /tmp or /dev/shm. Reasons against the run directory: FUSE without mknod, a
// path longer than sun_path, or a network file system, where a rank that connects would stall with the file
// system.
#pragma once

#include "common/base/result.h"
#include "launcher/storage/opened_dir.h"
#include "launcher/storage/storage.h"

#include <string>
#include <string_view>

namespace xpurun::launcher {

class SocketPlace {
 public:
  // Tests each directory with a real socket.
  static base::Result<SocketPlace> choose(const DirFacts& run_dir);

  std::string path(std::string_view name) const;
  bool in_run_dir() const { return !own_; }
  // Removes the sockets, and the directory if choose() made it.
  void remove(Storage& storage) const;

  static constexpr std::string_view kNotice = "notice.sock";
  static constexpr std::string_view kControl = "control.sock";

 private:
  SocketPlace(std::string dir, bool own) : dir_(std::move(dir)), own_(own) {}

  std::string dir_;
  bool own_;
};

}  // namespace xpurun::launcher
