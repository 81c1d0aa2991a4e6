// PythonReports: handles the reports of the bootstraps in Python processes: exceptions go into the journal,
// calls of torch.distributed into collectives.json of each dump, spans into span files. Event loop's thread
// only.
#pragma once

#include "common/model/timing/trace_problem.h"
#include "common/wire/notice.h"
#include "launcher/collect/python_segments.h"
#include "launcher/journal/journal.h"
#include "launcher/options/run_options.h"
#include "launcher/processes/process_table.h"
#include "launcher/spans/memory_looks.h"
#include "launcher/spans/span_service.h"
#include "launcher/spans/traced_names.h"
#include "launcher/storage/storage.h"
#include "launcher/supervise/exception_list.h"

#include <functional>
#include <map>
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
    MpiSegments& mpi;
    CallPlaces& places;
  };
  struct Hooks {
    std::function<void(base::Pid)> look_at;  // finds a process that the table does not know yet
    std::function<void(const model::PythonException&)> recorded;  // called for each exception
    std::function<void(base::Pid, base::WaitStatus)> ended;       // a rank added after its end
    std::function<void(base::Rank)> worker_failed;  // an exception has ended a process of the rank
    std::function<bool()> spans_wanted;             // spans are wanted at the moment
  };
  PythonReports(Parts parts, const std::string& host, Hooks hooks);

  // A message of the process. Malformed messages and those beyond the limit are dropped.
  void received(base::Pid pid, std::string_view json);
  // Creates memory for the calls and spans of the process and passes its descriptor to `answer`; -1: there is
  // none.
  void attach(base::Pid pid, SpanWriter writer, const std::function<void(int descriptor)>& answer);
  // The same for the MPI calls of the process.
  void attach_mpi(base::Pid pid, const std::function<void(int descriptor)>& answer);
  // Adds the calls that the ranks have made so far, including the last state of dead ranks.
  void add_calls(model::CollectiveFacts& facts) const;
  // Writes all spans recorded so far. Called before a dump and at the end of the job.
  void save_spans() { spans_.flush(); }
  // The latest sample of a rank.
  std::optional<model::LoadSample> load(base::Pid pid) const { return spans_.load(pid); }
  // Changes the functions that Python traces. The names are those of --trace-python.
  base::Status change_traced(const std::vector<std::string>& add, const std::vector<std::string>& remove);
  TracedState traced() const;
  MemoryLooks& looks() { return looks_; }
  void on_spans(SpanService::Consumer consumer) { spans_.on_spans(std::move(consumer)); }
  void on_load(SpanService::LoadConsumer consumer) { spans_.on_load(std::move(consumer)); }

 private:
  void discover(base::Pid pid);
  bool take_helper_death(base::Pid parent, std::string_view json);
  bool take_untraced(base::Pid pid, std::string_view json);
  bool take_look(base::Pid pid, std::string_view json);
  void add_departed(base::Pid pid, std::string_view json, int code);
  void note_worker_failure(const model::PythonException& exception);
  void find_port_holder(model::ExceptionLink& link, base::Pid pid);

  Parts parts_;
  Hooks hooks_;
  PythonSegments segments_;
  SpanService spans_;
  MemoryLooks looks_;
  TracedNames names_;
  ExceptionList exceptions_;
  std::map<int, model::PortHolder> port_holders_;
  std::map<base::Rank, int> worker_failures_;  // processes of the rank that have raised
  base::Pid unkept_ = 0;                       // the last process with a report that was not kept
  bool changed_ = false;                       // the names have changed since the start of the job
};

}  // namespace xpurun::launcher
