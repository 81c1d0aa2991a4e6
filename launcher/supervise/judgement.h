// Judgement: joins the parts between a stall or a dump and a verdict that is acted on: evidence, reports, the
// verdict of this node and of all nodes, the restart of the ranks. The parts own the state; this class owns
// the parts and sets the hooks between them. Event loop's thread only.
#pragma once

#include "launcher/dumps/dump_coordinator.h"
#include "launcher/ending/helper_list.h"
#include "launcher/ending/job_state.h"
#include "launcher/ending/rank_restart.h"
#include "launcher/journal/journal.h"
#include "launcher/notify/notifier.h"
#include "launcher/options/run_options.h"
#include "launcher/output/messages.h"
#include "launcher/spawn/helper_complaints.h"
#include "launcher/storage/opened_dir.h"
#include "launcher/supervise/handlers/evidence_service.h"
#include "launcher/supervise/handlers/stall_handler.h"
#include "launcher/supervise/nodes/node_handler.h"
#include "launcher/supervise/reporting/report_runner.h"
#include "launcher/supervise/verdict_handler.h"
#include "launcher/watch/watcher.h"

#include <functional>
#include <signal.h>
#include <string>

namespace xpurun::launcher {

class Judgement {
 public:
  struct Parts {
    EventLoop& loop;
    Storage& storage;
    HelperComplaints& complaints;
    Journal& journal;
    ProcessTable& table;
    const RunOptions& options;
    Messages& messages;
    // Used once the loop runs.
    Watcher& watcher;
    DumpCoordinator& dumps;
    Notifier& notifier;
    DeathLedger& ledger;
    const JobState& job;
  };
  struct Setup {
    std::string host;
    DirFacts dir;  // of the run
    sigset_t signal_mask{};
  };
  struct Hooks {
    std::function<bool()> was_interrupted;  // the user has sent a signal that ends jobs
    std::function<model::CollectiveFacts()> python_calls;
    std::function<void()> end_the_job;
    std::function<void()> evidence_collected;
    std::function<void()> report_done;  // no report and no answer of other nodes is awaited
    std::function<void(const model::Verdict&)> steps_judged;  // in the language of the run
    // A control request from another node: the reply's JSON text is passed on.
    std::function<void(const std::string& request, std::function<void(std::string)> reply)> control;
  };

  Judgement(const Parts& parts, const Setup& setup, Hooks hooks);
  Judgement(const Judgement&) = delete;
  Judgement& operator=(const Judgement&) = delete;

  void add_helpers(HelperList& helpers);
  void rank_found();
  // The manifest has the processes of the latest poll.
  void processes_known();
  void command_ended();
  void give_up(const std::string& why);
  bool collecting_evidence() const { return evidence_.busy(); }
  // Of the recorded run. False if nothing is left to say: with --no-report, of a job that went well.
  bool request_last_report();
  bool reporting() const { return reports_.busy() || nodes_.busy(); }

  // A verdict on the steps so far, if the job goes on: Hooks::steps_judged.
  void judge_steps() { steps_.request(); }

  EvidenceService& evidence() { return evidence_; }
  StallHandler& stalls() { return stalls_; }
  VerdictHandler& verdicts() { return verdicts_; }
  NodeHandler& nodes() { return nodes_; }
  const RankRestart& restart() const { return restart_; }

 private:
  EvidenceJob::Setup evidence_setup(const Setup& setup);
  NodeHandler::Hooks node_hooks();
  VerdictHandler::Hooks verdict_hooks();
  StallHandler::Nodes stall_nodes();
  void set_report_handlers();
  void judge_pending();
  std::function<void(const std::string&)> say();
  std::function<void(base::Pid)> helper_started();

  Parts parts_;
  Hooks hooks_;
  std::string host_;
  DirFacts dir_;
  ReportRunner reports_;
  ReportRunner steps_;  // of a job that runs
  EvidenceService evidence_;
  RankRestart restart_;
  bool new_ranks_ = false;
  int attempt_ = 1;  // of the ranks
  NodeHandler nodes_;
  VerdictHandler verdicts_;
  StallHandler stalls_;
};

}  // namespace xpurun::launcher
