// SocketPlace: the directory of this run's sockets. In the run directory if that can hold them; FUSE without
// mknod cannot, a long path is none for a socket, and a rank that connects to a socket on a stalled file
// system would stand still. Else a private directory of $XDG_RUNTIME_DIR, /tmp or /dev/shm.
#pragma once

#include "common/base/result.h"
#include "launcher/storage/opened_dir.h"
#include "launcher/storage/storage.h"

#include <string>
#include <string_view>

namespace xpurun::launcher {

class SocketPlace {
 public:
  // Tries each place with a real socket.
  static base::Result<SocketPlace> choose(const DirFacts& run_dir);

  std::string path(std::string_view name) const;
  bool in_run_dir() const { return !own_; }
  // Removes the sockets, and the directory if it is one of ours.
  void remove(Storage& storage) const;

  static constexpr std::string_view kNotice = "notice.sock";
  static constexpr std::string_view kControl = "control.sock";

 private:
  SocketPlace(std::string dir, bool own) : dir_(std::move(dir)), own_(own) {}

  std::string dir_;
  bool own_;
};

}  // namespace xpurun::launcher
