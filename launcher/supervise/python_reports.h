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
  // `discover` looks for processes that are not in the table yet; `recorded` is told of each exception.
  PythonReports(Parts parts, std::function<void()> discover,
                std::function<void(const model::PythonException&)> recorded)
      : parts_(parts), discover_(std::move(discover)), recorded_(std::move(recorded)) {}

  // A message of the process; what is malformed, or too much, is dropped.
  void received(base::Pid pid, std::string_view json);
  // Makes memory for the calls of the process and passes the descriptor to `answer`, or -1.
  void attach(base::Pid pid, const std::function<void(int descriptor)>& answer);
  // Adds what the ranks had called at this moment, the last state of dead ranks included.
  void add_calls(model::CollectiveFacts& facts) const;

 private:
  Parts parts_;
  std::function<void()> discover_;
  std::function<void(const model::PythonException&)> recorded_;
  PythonSegments segments_;
};

}  // namespace xpurun::launcher
