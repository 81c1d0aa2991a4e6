// NodeHandler: the supervisor's view of the other nodes of the job. It notices that other nodes exist, starts
// the helper that connects to them, publishes this node's state, takes the requested dumps, and replaces this
// node's verdict by the verdict of the job. In a job of one node it does nothing. Event loop's thread only.
#pragma once

#include "launcher/dumps/dump_coordinator.h"
#include "launcher/ending/job_state.h"
#include "launcher/journal/journal.h"
#include "launcher/nodes/joint_decision.h"
#include "launcher/nodes/node_link.h"
#include "launcher/nodes/node_questions.h"
#include "launcher/nodes/node_state.h"
#include "launcher/options/run_options.h"
#include "launcher/os/timer.h"
#include "launcher/output/live_status.h"
#include "launcher/output/node_list.h"
#include "launcher/processes/process_table.h"
#include "launcher/storage/storage.h"
#include "launcher/supervise/nodes/end_wait.h"
#include "launcher/supervise/nodes/hand_out_wait.h"
#include "launcher/supervise/nodes/job_join.h"
#include "launcher/supervise/nodes/job_verdict.h"
#include "launcher/supervise/nodes/ordered_dump.h"
#include "launcher/supervise/nodes/state_publisher.h"
#include "launcher/supervise/reporting/report_runner.h"
#include "launcher/watch/watcher.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace xpurun::launcher {

class NodeHandler {
 public:
  struct Parts {
    EventLoop& loop;
    Storage& storage;
    Journal& journal;
    ProcessTable& table;
    Watcher& watcher;
    DumpCoordinator& dumps;
    const JobState& job;
    const RunOptions& options;
  };
  struct Setup {
    std::string host;
    std::string directory;  // absolute
    sigset_t signal_mask{};
    int stderr_fd = -1;
  };
  struct Hooks {
    std::function<void(base::Pid)> started;  // the helper has started
    std::function<NewestCalls()> calls;
    std::function<bool()> collecting_evidence;
    std::function<bool()> was_interrupted;  // the user has sent a signal that ends jobs
    std::function<bool()> reporting;
    std::function<void()> request_report;
    std::function<void(const ReportResult&)> judged;  // to be recorded, reported and acted on
    std::function<void()> stall_cleared;
    std::function<void()> end_the_job;
    std::function<void()> idle;  // no answer of another node is awaited any more
    // A control request from another node. The JSON text of the reply is sent back.
    std::function<void(const std::string& request, std::function<void(std::string)> reply)> control;
    std::function<void(const std::string&)> say;
  };
  // For tests: another program, or a fake helper.
  struct Backend {
    std::function<base::Result<std::string>()> program;
    std::function<std::unique_ptr<NodeChannel>(NodeChannel::Hooks)> make;
  };

  NodeHandler(Parts parts, Setup setup, Hooks hooks);
  NodeHandler(Parts parts, Setup setup, Hooks hooks, const Backend& backend);
  NodeHandler(const NodeHandler&) = delete;
  NodeHandler& operator=(const NodeHandler&) = delete;

  // Call when a further rank is watched: its environment may show that there are other nodes.
  void rank_found();

  // Call when a stall of this node's ranks is open. True: all nodes are asked, the dump follows without a
  // further call, and this node gives no verdict.
  bool stall_raised();
  bool stall_changed(bool escalated);
  // True: ranks of other nodes are still stuck, and the stall stays open.
  bool stall_cleared();
  // A process of the job has died.
  void process_died();
  // The dead process was this rank of this node, and the rank has failed by itself. After process_died().
  void rank_failed(base::Rank rank);
  void evidence_collected();
  // Acts on the verdict of all nodes in force, if that was not possible before.
  void judge_again() { verdict_.judge_again(); }
  void command_ended();
  // run.json is complete.
  void job_recorded() { dump_.job_recorded(); }

  // A verdict of all nodes is awaited or has come: a report of this node alone is not useful now.
  // The ranks of other nodes that have been still for these seconds, the longest still ones first.
  std::vector<model::StillElsewhere> still_elsewhere(double seconds) const;
  bool leads() const { return decision_.is_open() || verdict_.in_force(); }
  // This node must wait for the others before its end.
  bool busy() const { return decision_.is_open() || end_wait_.active() || hand_out_wait_.active(); }
  // The result to use after a report; nullopt if the report is not needed any more.
  std::optional<ReportResult> take(ReportResult result) { return verdict_.take(std::move(result)); }
  // The verdict of a report whose page is still being made: the other nodes do not wait for the page.
  void take_verdict(const ReportResult& result) { verdict_.take_verdict(result); }
  // After each reported verdict: explains once how to join, if there are other nodes.
  void verdict_reported();

  bool helper_ended(base::Pid pid, base::WaitStatus status) { return link_->helper_ended(pid, status); }
  bool is_helper(base::Pid pid) const { return pid > 0 && link_->pid() == pid; }
  // After the end of the event loop.
  void finish(int exit_status);

  // For "xpurun nodes" and requests to other nodes.
  NodeList list() const;
  // Adds the ranks of the other nodes.
  void complete(LiveStatus& status) const;
  // A node that receives the states of all nodes; empty: this node, or none.
  std::string better_informed() const;
  // Sends a control request to one node or to all others, and calls `done` with all answers.
  void ask(AskMessage question, NodeQuestions::Done done);

 private:
  JointDecision::Hooks decision_hooks();
  OrderedDump::Hooks dump_hooks();
  JobVerdict::Hooks verdict_hooks();
  NodeChannel::Hooks link_hooks();
  void received(FromHelper message);
  void notice_stalls();
  bool claim_stall();
  base::MonoNs aftermath_end() const;
  bool in_aftermath();
  bool has_ended_well() const;
  void forget_passed_hang();
  void take_dump(const DumpMessage& order);
  void decided(const VerdictMessage& message);
  void act(const ActMessage& message);
  void judge_alone(const std::string& why);
  void cut_off(const std::string& reason);
  void failed(const std::string& reason);
  std::vector<base::Rank> still_ranks() const;
  std::string host_of(const std::string& node) const;

  Parts parts_;
  Hooks hooks_;
  std::function<base::Result<std::string>()> program_;
  JobJoin join_;
  JointDecision decision_;
  std::unique_ptr<NodeChannel> link_;
  StatePublisher state_;
  OrderedDump dump_;
  JobVerdict verdict_;
  EndWait end_wait_;
  HandOutWait hand_out_wait_;
  NodeQuestions questions_;
  bool cut_off_reported_ = false;

  base::MonoNs failed_at_ = 0;  // when a verdict on a failure came into force
  base::MonoNs last_death_ = 0;
  Timer aftermath_{parts_.loop};
  bool escalated_ = false;         // this node's stall has outlasted --busy-timeouts
  bool claim_again_ = false;       // the stall has outlasted --busy-timeouts during a round
  bool failure_reported_ = false;  // the other nodes know of a failed rank of this node
  base::MonoNs last_foreign_stall_ = 0;
};

}  // namespace xpurun::launcher
