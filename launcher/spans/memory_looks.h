// MemoryLooks: keeps the looks that ranks take at their memory (common/model/memory/memory_look.h), the
// newest of each reason, in ranks/<rank>/memory-<reason>.json, and asks for looks. Event loop's thread only.
#pragma once

#include "common/model/memory/memory_look.h"
#include "common/model/rank_set.h"
#include "launcher/collect/python_segments.h"
#include "launcher/os/timer.h"
#include "launcher/processes/process_table.h"
#include "launcher/storage/storage.h"

#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace xpurun::launcher {

// Which ranks answered an order, which did not in time, and which cannot be asked.
struct LookAnswer {
  model::RankSet answered;
  model::RankSet silent;
  model::RankSet unreachable;
};

class MemoryLooks {
 public:
  struct Parts {
    EventLoop& loop;
    ProcessTable& table;
    Storage& storage;
    PythonSegments& segments;
  };
  using Done = std::function<void(const LookAnswer&)>;

  // `elapsed_s`: since the start of the run.
  MemoryLooks(Parts parts, const std::string& run_dir, std::string host, std::function<double()> elapsed_s);

  // Called with each look that is kept.
  void on_look(std::function<void(const model::MemoryLook&)> consumer) { consumer_ = std::move(consumer); }
  // A look that was not made by the rank; its rank and pid are set.
  void keep(model::MemoryLook look);
  // A message of a process that the table knows as a rank. A malformed one is dropped.
  void received(base::Pid pid, std::string_view json);
  // Asks all living ranks of this node, and calls `done` when all have answered, or after `patience_s`. An
  // error if an earlier order is not finished.
  base::Status ask_all(const LookOrder& order, double patience_s, Done done);
  // Asks one process, whose answer is only kept.
  void ask(base::Pid pid, const LookOrder& order) { parts_.segments.order_look(pid, order); }

 private:
  void finish();

  Parts parts_;
  std::string ranks_dir_;
  std::string host_;
  std::function<double()> elapsed_s_;
  std::map<base::Pid, uint32_t> awaited_;  // number of the order
  LookAnswer answer_;
  Done done_;  // empty: no order of the user
  Timer patience_;
  std::function<void(const model::MemoryLook&)> consumer_;
};

}  // namespace xpurun::launcher
