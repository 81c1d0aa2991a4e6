// LogRelay: follows the files that ranks write their output to (--logs) and repeats them on our own streams,
// whole lines at a time, with the rank in front if asked (--prefix). The files stay as the record.
#pragma once

#include "common/base/fd.h"
#include "common/base/ids.h"
#include "common/base/result.h"
#include "launcher/supervise/event_loop.h"

#include <map>
#include <string>

namespace xpurun::launcher {

enum class LinePrefix { none, rank };

class LogRelay {
 public:
  // `directory` is <run>/ranks; it need not exist yet.
  LogRelay(EventLoop& loop, std::string directory, LinePrefix prefix);
  ~LogRelay() { loop_.cancel(timer_); }
  LogRelay(const LogRelay&) = delete;
  LogRelay& operator=(const LogRelay&) = delete;

  void start();
  // The rest, an unfinished last line included.
  void finish();

 private:
  struct Stream {
    base::UniqueFd file;
    int target;  // our descriptor it is repeated on
    std::string rank;
    std::string held;  // beginning of a line that has not ended yet
  };

  void look_for_files();
  void pump(Stream& stream);
  void write_lines(Stream& stream, std::string_view lines) const;

  EventLoop& loop_;
  std::string directory_;
  LinePrefix prefix_;
  std::map<std::string, Stream> streams_;  // by path
  EventLoop::TimerId timer_ = 0;
};

// The value of wire::kLogsEnv for our own standard streams.
base::Result<std::string> logs_variable(const std::string& directory);

}  // namespace xpurun::launcher
