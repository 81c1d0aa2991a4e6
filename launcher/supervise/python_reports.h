// PythonReports: takes what the bootstraps in Python processes report: exceptions into the journal, calls of
// torch.distributed into collectives.json of each dump. Event loop's thread only.
#pragma once

#include "launcher/collect/python_segments.h"
#include "launcher/journal/journal.h"
#include "launcher/processes/process_table.h"
#include "launcher/storage/storage.h"

#include <functional>
#include <string>
#include <string_view>

namespace xpurun::launcher {

class PythonReports {
 public:
  struct Parts {
    ProcessTable& table;
    Journal& journal;
    Storage& storage;
  };
  struct Hooks {
    std::function<void()> discover;  // looks for processes that are not in the table yet
    std::function<void(const model::PythonException&)> recorded;  // told of each exception
    std::function<void(base::Pid, base::WaitStatus)> ended;       // of a rank that was added after its end
  };
  PythonReports(Parts parts, Hooks hooks) : parts_(parts), hooks_(std::move(hooks)) {}

  // A message of the process; what is malformed, or too much, is dropped.
  void received(base::Pid pid, std::string_view json);
  // Makes memory for the calls of the process and passes the descriptor to `answer`, or -1.
  void attach(base::Pid pid, const std::function<void(int descriptor)>& answer);
  // Adds what the ranks had called at this moment, the last state of dead ranks included.
  void add_calls(model::CollectiveFacts& facts) const;

 private:
  void add_departed(base::Pid pid, std::string_view json, int code);

  Parts parts_;
  Hooks hooks_;
  PythonSegments segments_;
};

}  // namespace xpurun::launcher
