// ChildWaits: finds Python processes that only wait for processes they started: in multiprocessing's join(),
// torch.multiprocessing.spawn(), subprocess's wait() and the like. Such a process is not a rank; the
// processes it waits for may be. Read from outside, without stopping any process.
#pragma once

#include "common/base/clock.h"
#include "stackdump/resolve/position.h"

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

namespace xpurun::launcher {

// Whether a main thread with these innermost Python frames waits for a process. `launcher`: in
// torch.multiprocessing.spawn(), which does nothing else; `perhaps`: in a join(), which for example torch's
// data loader also uses to end its workers.
enum class ProcessWait { none, perhaps, launcher };
ProcessWait process_wait(const std::vector<stackdump::CodeName>& innermost_first);

class ChildWaits {
 public:
  // Reads the main thread's innermost Python frames. Without a result, the process has to be opened again.
  using Reader = std::function<std::optional<std::vector<stackdump::CodeName>>()>;
  // Empty if the process cannot be read, or not yet.
  using Opener = std::function<Reader(base::Pid)>;

  // `patience_s`: minimum duration of a wait that counts, because a data loader also ends its workers with
  // join().
  explicit ChildWaits(double patience_s, Opener open = open_python);

  // Samples these processes and forgets all others. Returns the processes whose wait counts. A process keeps
  // counting for half a minute after its last observed wait.
  std::set<base::Pid> look(const std::vector<base::Pid>& pids, base::MonoNs now);

 private:
  struct Watched {
    Reader reader;
    base::MonoNs next_open = 0;
    base::MonoNs since = 0;  // 0: not waiting
    base::MonoNs last = 0;   // last time seen waiting
    bool counts = false;
  };

  static Reader open_python(base::Pid pid);
  ProcessWait wait_of(base::Pid pid, Watched& watched, base::MonoNs now) const;

  base::MonoNs patience_;
  Opener open_;
  std::map<base::Pid, Watched> watched_;
};

}  // namespace xpurun::launcher
