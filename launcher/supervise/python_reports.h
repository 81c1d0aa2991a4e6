// PythonReports: takes what the bootstraps in Python processes report: exceptions into the journal, calls of
// torch.distributed into collectives.json of each dump, spans into span files. Event loop's thread only.
#pragma once

#include "common/model/timing/trace_problem.h"
#include "common/wire/notice.h"
#include "launcher/collect/python_segments.h"
#include "launcher/journal/journal.h"
#include "launcher/options/run_options.h"
#include "launcher/processes/process_table.h"
#include "launcher/spans/span_service.h"
#include "launcher/spans/traced_names.h"
#include "launcher/storage/storage.h"

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace xpurun::launcher {

class PythonReports {
 public:
  struct Parts {
    EventLoop& loop;
    ProcessTable& table;
    Journal& journal;
    Storage& storage;
    const RunOptions& options;
  };
  struct Hooks {
    std::function<void()> discover;  // looks for processes that are not in the table yet
    std::function<void(const model::PythonException&)> recorded;  // told of each exception
    std::function<void(base::Pid, base::WaitStatus)> ended;       // of a rank that was added after its end
    std::function<bool()> spans_wanted;                           // at this moment
  };
  PythonReports(Parts parts, const std::string& host, Hooks hooks);

  // A message of the process; what is malformed, or too much, is dropped.
  void received(base::Pid pid, std::string_view json);
  // Makes memory for the calls and spans of the process and passes the descriptor to `answer`, or -1.
  void attach(base::Pid pid, SpanWriter writer, const std::function<void(int descriptor)>& answer);
  // Adds what the ranks had called at this moment, the last state of dead ranks included.
  void add_calls(model::CollectiveFacts& facts) const;
  // Writes all spans of this moment. Before a dump and at the end of the job.
  void save_spans() { spans_.flush(); }
  // The latest sample of a rank.
  std::optional<model::LoadSample> load(base::Pid pid) const { return spans_.load(pid); }
  // Changes the functions that Python traces. Names as of --trace-python.
  base::Status change_traced(const std::vector<std::string>& add, const std::vector<std::string>& remove);
  TracedState traced() const;
  void on_spans(SpanService::Consumer consumer) { spans_.on_spans(std::move(consumer)); }

 private:
  void discover(base::Pid pid);
  bool take_untraced(base::Pid pid, std::string_view json);
  void add_departed(base::Pid pid, std::string_view json, int code);

  Parts parts_;
  Hooks hooks_;
  PythonSegments segments_;
  SpanService spans_;
  TracedNames names_;
  bool changed_ = false;  // the names, since the start of the job
};

}  // namespace xpurun::launcher
