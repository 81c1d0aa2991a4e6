// OrderedDump: this node's part in a round of all nodes. It takes the requested dump, waits until run.json
// holds everything that the others need, then reports that. After a failure, run.json must hold the failures
// of this node's ranks: the first rank to fail is not always the first to be seen, and the ranks that the
// launcher ends follow within seconds. Event loop's thread only.
#pragma once

#include "launcher/dumps/dump_coordinator.h"
#include "launcher/ending/job_state.h"
#include "launcher/journal/journal.h"
#include "launcher/nodes/node_messages.h"
#include "launcher/os/timer.h"
#include "launcher/processes/process_table.h"
#include "launcher/storage/storage.h"

#include <functional>
#include <string>

namespace xpurun::launcher {

class OrderedDump {
 public:
  struct Parts {
    EventLoop& loop;
    Storage& storage;
    Journal& journal;
    ProcessTable& table;
    DumpCoordinator& dumps;
    const JobState& job;
  };
  struct Hooks {
    std::function<bool()> collecting_evidence;
    std::function<void(const std::string& directory)> dumped;  // stacks; evidence may still come
    // Everything that the other nodes need is on the disk.
    std::function<void(const std::string& request, const std::string& directory)> ready;
  };

  OrderedDump(Parts parts, Hooks hooks) : parts_(parts), hooks_(std::move(hooks)) {}
  OrderedDump(const OrderedDump&) = delete;
  OrderedDump& operator=(const OrderedDump&) = delete;

  // Replaces an order that is under way.
  void take(const DumpMessage& order, bool escalated);
  // The directory of the dump for the last order; empty while the dump is not done.
  const std::string& directory() const { return directory_; }

  void evidence_collected() { send_if_ready(); }
  // A process of the job has died; run.json is complete.
  void process_died();
  void job_recorded() { send_if_ready(); }

 private:
  void done(const std::string& request, const std::string& directory);
  bool failures_are_known() const;
  void wait_for_failures();
  void send_if_ready();

  Parts parts_;
  Hooks hooks_;
  std::string request_;
  std::string directory_;
  bool sent_ = true;
  bool of_failure_ = false;
  base::MonoNs ordered_ = 0;
  base::MonoNs last_death_ = 0;  // 0: none since the order
  Timer settling_{parts_.loop};
};

}  // namespace xpurun::launcher
