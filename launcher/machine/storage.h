// The file systems that the ranks use: how full they are, whether they answer, and how long the ranks wait
// inside calls to them.
#pragma once

#include "common/model/stacks/file_system.h"
#include "launcher/machine/places.h"

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace xpurun::launcher {

struct FreeSpace {
  uint64_t bytes = 0;  // for unprivileged users
  uint64_t free_bytes = 0;
  uint64_t inodes = 0;  // 0: the file system has no limit
  uint64_t free_inodes = 0;
};

// Directories that a rank writes into, as far as visible: its working directory, TMPDIR, files that are open
// for writing.
std::vector<std::string> written_places(const base::ProcFs& proc, base::Pid pid);

class SpaceReader {
 public:
  // Asks a file system that may be dead, so the question may never return. Empty: no answer.
  using Ask = std::function<std::optional<FreeSpace>(const std::string& path)>;
  explicit SpaceReader(Ask ask = ask_kernel) : ask_(std::move(ask)) {}

  // Values of the file systems of `paths`, each with its path that fills it. Waits `patience_s` at most for
  // those that have not answered before; they are asked by threads of their own, which may outlive this
  // object. While a file system does not answer, it is not asked again.
  void read(const std::string& mountinfo, const std::vector<std::string>& paths, double patience_s,
            model::MachineReading& out);

  static std::optional<FreeSpace> ask_kernel(const std::string& path);

 private:
  struct Question;
  Ask ask_;
  std::map<std::string, std::shared_ptr<Question>> questions_;  // by mount point
};

// Samples what the ranks and their helper processes wait in, and adds up the time by rank and file system.
class StorageWaits {
 public:
  // `seconds`: since the sample before.
  void sample(const HostFiles& host, const std::vector<WatchedRank>& ranks, double seconds);
  void read(model::MachineReading& out) const;

 private:
  struct Sum {
    double us = 0;
    std::string detail;  // of the last sample
  };
  std::map<std::pair<base::Rank, std::string>, Sum> sums_;  // by rank and mount point
};

// The call of a thread that waits for a file system: "read() of /data/x", and the file system. Empty if it
// waits for none, or if this process may not see it.
struct StorageWait {
  std::string call;
  model::FileSystem file_system;
};
std::optional<StorageWait> storage_wait(const base::ProcFs& proc, base::Pid pid);

}  // namespace xpurun::launcher
