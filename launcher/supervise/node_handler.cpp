#include "launcher/supervise/node_handler.h"

#include "common/base/output/log.h"
#include "common/base/strings.h"
#include "common/model/job/nodes.h"
#include "launcher/nodes/joining.h"
#include "launcher/nodes/node_limits.h"
#include "launcher/options/exit_status.h"
#include "launcher/options/settings.h"
#include "launcher/spawn/install_paths.h"
#include "launcher/supervise/live_view.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <utility>
#include <variant>

namespace xpurun::launcher {

namespace {

// After the end of the command somebody waits for the exit status.
constexpr double kVerdictAfterTheEndS = 15;
// Between the first rank that ends and the end of the command.
constexpr double kEndOfRanksS = 10;
// For the files of a dump before the helper reads them.
constexpr double kFilesS = 2;
// A rank's failure may be told with the dump that its node has just taken.
constexpr double kFreshDumpS = 3;
// Between the last word of a stalled node and the end of a stall that other nodes have claimed: their states
// come every two seconds.
constexpr double kForeignStallS = 3 * kStateIntervalS;

model::DumpReason dump_reason(ClaimReason why) {
  switch (why) {
    case ClaimReason::hang:
      return model::DumpReason::hang;
    case ClaimReason::crash:
    case ClaimReason::death:
      return model::DumpReason::death;
    case ClaimReason::request:
      break;
  }
  return model::DumpReason::request;
}

bool is_failure(const model::Verdict& v) {
  return v.kind == model::VerdictKind::crash || v.kind == model::VerdictKind::exception ||
         v.kind == model::VerdictKind::exit;
}

}  // namespace

NodeHandler::NodeHandler(Parts parts, Setup setup, Hooks hooks)
    : parts_(parts),
      setup_(std::move(setup)),
      hooks_(std::move(hooks)),
      decision_(parts_.loop, {.verdict_s = verdict_limit_s(parts_.options)}, decision_hooks()),
      link_({.loop = parts_.loop, .signal_mask = setup_.signal_mask, .stderr_fd = setup_.stderr_fd},
            {.started = [this](base::Pid pid) { hooks_.started(pid); },
             .up =
                 [this] {
                   tell_state();
                   decision_.repeat_claim();
                 },
             .received = [this](FromHelper message) { received(std::move(message)); },
             .lost =
                 [this](const std::string& reason) {
                   questions_.lost();
                   decision_.cut_off(fmt::format("the helper for other nodes has ended: {}", reason));
                 }}) {}

NodeHandler::~NodeHandler() {
  parts_.loop.cancel(forgetting_);
  parts_.loop.cancel(state_timer_);
}

JointDecision::Hooks NodeHandler::decision_hooks() {
  return {.send = [this](const ToHelper& message) { link_.send(message); },
          .dump = [this](const DumpMessage& order) { take_dump(order); },
          .merge = [this](const GatheredMessage& message) { merge(message); },
          .decided = [this](const model::Verdict& v, const std::string& node) { decided(v, node); },
          .act = [this](const ActMessage& message) { act(message); },
          .judge_alone = [this](const std::string& why) { judge_alone(why); }};
}

void NodeHandler::rank_found() {
  if (verdict_ && is_failure(*verdict_)) {
    // The launcher has started the ranks again.
    forget_verdict();
    failure_told_ = false;
  }
  if (tried_to_join_) {
    return;
  }
  // In order of precedence, as the ranks themselves are known.
  const TrackedProcess* best = nullptr;
  for (const TrackedProcess* p : parts_.table.living_ranks()) {
    const bool better = p->identity && (best == nullptr || p->identity->kind < best->identity->kind);
    best = better && !starts_ranks(p->record.cmdline) ? p : best;
  }
  identity_ =
      job_identity({.own = process_environment(),
                    .rank = best != nullptr ? parts_.table.environment_of(best->record.pid) : Environment(),
                    .nodes = parts_.options.nodes.nodes,
                    .node_rank = parts_.options.nodes.node_rank,
                    .name = parts_.options.name});
  if (identity_.several_nodes() && parts_.options.nodes.wanted()) {
    tried_to_join_ = true;
    join();
  }
}

void NodeHandler::join() {
  if (const std::string missing = identity_.missing(); !missing.empty()) {
    failed(missing);
    return;
  }
  auto program = nodes_program();
  if (!program) {
    failed(base::to_line(program.error()));
    return;
  }
  OwnNode own{.host = setup_.host, .directory = setup_.directory};
  for (const TrackedProcess* p : parts_.table.living_ranks()) {
    own.living.push_back(p->record.rank);
  }
  StartMessage message = start_message(parts_.options, identity_, own);
  decision_.set_node(message.node);
  base::log_info("this is node {} of {}, job {}", message.node, identity_.nodes, message.run);
  link_.start(std::move(*program), std::move(message));
}

void NodeHandler::failed(const std::string& reason) {
  link_.give_up();
  decision_.cut_off(reason);
  hooks_.say(fmt::format("no verdict over all nodes: {}", reason));
}

void NodeHandler::received(FromHelper message) {
  if (auto* joined = std::get_if<JoinedMessage>(&message)) {
    base::log_info("joined the other nodes at {}, {} of them live, {} judges", joined->server, joined->nodes,
                   joined->elected);
    decision_.joined(*joined);
    cut_off_told_ = false;
  } else if (auto* alone = std::get_if<AloneMessage>(&message)) {
    if (!std::exchange(cut_off_told_, true)) {
      base::log_warn("cut off from the other nodes: {}", alone->reason);
    }
    questions_.lost();
    decision_.cut_off(alone->reason);
  } else if (auto* refused = std::get_if<FailedMessage>(&message)) {
    failed(refused->reason);
  } else if (auto* nodes = std::get_if<NodesMessage>(&message)) {
    decision_.nodes_changed(*nodes);
    notice_stalls();
  } else if (auto* order = std::get_if<DumpMessage>(&message)) {
    decision_.ordered(*order);
  } else if (auto* gathered = std::get_if<GatheredMessage>(&message)) {
    decision_.gathered(*gathered);
  } else if (auto* verdict = std::get_if<VerdictMessage>(&message)) {
    decision_.verdict_came(*verdict);
  } else if (auto* action = std::get_if<ActMessage>(&message)) {
    decision_.act_came(*action);
  } else if (auto* request = std::get_if<RequestMessage>(&message)) {
    hooks_.control(request->arguments, [this, id = request->id](std::string body) {
      link_.send(AnswerMessage{.id = id, .status = 200, .body = std::move(body)});
    });
  } else if (auto* answers = std::get_if<AnswersMessage>(&message)) {
    questions_.answered(std::move(*answers));
  }
}

NodePhase NodeHandler::phase() const {
  if (parts_.job.has_ended()) {
    return NodePhase::ended;
  }
  if (parts_.job.is_ending()) {
    return NodePhase::ending;
  }
  return own_stall_ ? NodePhase::stalled : NodePhase::running;
}

void NodeHandler::tell_state() {
  parts_.loop.cancel(state_timer_);
  state_timer_ = 0;
  if (!link_.running()) {
    return;
  }
  std::vector<model::RankObservation> ranks = parts_.watcher.living_observations();
  const auto gone = parts_.watcher.last_observations();
  ranks.insert(ranks.end(), gone.begin(), gone.end());
  link_.send(StateMessage{.phase = phase(),
                          .elapsed_s = parts_.journal.elapsed_s(),
                          .still_s = longest_still_s(ranks),
                          .exit_status = parts_.journal.manifest().exit_status,
                          .ranks = ranks_on_node(ranks, hooks_.calls())});
  state_timer_ = parts_.loop.after(kStateIntervalS, [this] { tell_state(); });
}

std::vector<base::Rank> NodeHandler::still_ranks() const {
  std::vector<base::Rank> out;
  for (const model::RankObservation& o : parts_.watcher.living_observations()) {
    if (o.still_s >= parts_.options.hang_timeout_s) {
      out.push_back(o.rank);
    }
  }
  return out;
}

bool NodeHandler::stall_raised() {
  own_stall_ = true;
  tell_state();
  if (forgetting_ != 0) {
    forget_verdict();  // another stall
  }
  // A stall that another node has claimed is open already, with its verdict or soon.
  if (decision_.is_open() || (verdict_ && verdict_->kind == model::VerdictKind::hang)) {
    judge_again();  // it may have come before this node had a stall
    return true;
  }
  forget_verdict();
  return decision_.claim(ClaimReason::hang, still_ranks());
}

bool NodeHandler::stall_escalated() {
  escalated_ = true;
  if (verdict_ && verdict_->kind == model::VerdictKind::hang &&
      verdict_->level == model::VerdictLevel::confirmed) {
    return true;
  }
  // The verdict of a round that is under way may not know yet that the doubt is over.
  claim_again_ = decision_.is_open();
  if (decision_.claim(ClaimReason::hang, still_ranks())) {
    return true;
  }
  forget_verdict();
  return false;
}

bool NodeHandler::stall_cleared() {
  own_stall_ = false;
  escalated_ = false;
  claim_again_ = false;
  tell_state();
  if (decision_.others_stalled()) {
    return true;
  }
  forget_verdict_soon();
  return false;
}

// A stall that other nodes have claimed ends with the last of theirs.
void NodeHandler::notice_stalls() {
  const base::MonoNs now = parts_.loop.now();
  if (decision_.others_stalled() || decision_.is_open()) {
    last_foreign_stall_ = now;
  }
  const bool open = std::as_const(parts_.journal).open_incident() != nullptr;
  if (open && !own_stall_ && !parts_.job.is_ending() &&
      now - last_foreign_stall_ >= base::s_to_ns(kForeignStallS)) {
    forget_verdict_soon();
    hooks_.stall_cleared();
  }
}

// What the others have sent shows a state that has passed: the next report is again this node's own.
void NodeHandler::forget_verdict() {
  parts_.loop.cancel(std::exchange(forgetting_, 0));
  verdict_.reset();
  if (std::exchange(has_nodes_file_, false)) {
    parts_.storage.remove(parts_.journal.dir().file(model::kNodesFile));
  }
}

// Ranks that are being ended are no longer still either, and the verdict is on what was before.
void NodeHandler::forget_verdict_soon() {
  parts_.loop.cancel(forgetting_);
  forgetting_ = parts_.loop.after(kEndOfRanksS, [this] {
    if (!parts_.job.is_ending()) {
      const bool passed = verdict_.has_value();
      forget_verdict();
      if (passed && parts_.options.report) {
        hooks_.request_report();  // the last one has been given the verdict that has passed
      }
    }
  });
}

void NodeHandler::rank_failed(base::Rank rank) {
  if (failure_told_ || (verdict_ && is_failure(*verdict_))) {
    return;
  }
  tell_state();
  failure_told_ = decision_.claim(ClaimReason::death, {rank});
}

void NodeHandler::command_ended() {
  tell_state();
  decision_.hurry(kVerdictAfterTheEndS);
}

void NodeHandler::take_dump(const DumpMessage& order) {
  base::log_info("a dump of all nodes, asked for by {}: {}", order.node, model::name_of(order.why));
  request_ = order.request;
  dump_.clear();
  dumped_waits_ = false;
  const bool hang = order.why == ClaimReason::hang;
  auto& stalls = parts_.journal.manifest().incidents;
  if (hang && parts_.journal.open_incident() == nullptr) {
    stalls.push_back({.n = static_cast<int>(stalls.size()) + 1, .at_s = parts_.journal.elapsed_s()});
    last_foreign_stall_ = parts_.loop.now();
    parts_.journal.changed();
  }
  DumpRequest wanted{
      .why = dump_reason(order.why),
      .trigger = order.ranks.empty() ? base::kNoRank : order.ranks.front(),
      .escalated = hang && escalated_,
      .reply = [this, request = order.request](const std::string& dir, size_t) { dump_done(request, dir); }};
  if (hang || order.why == ClaimReason::request) {
    parts_.dumps.request(std::move(wanted));
  } else {
    parts_.dumps.request_or_share(std::move(wanted), kFreshDumpS);
  }
}

void NodeHandler::dump_done(const std::string& request, const std::string& directory) {
  if (request != request_) {
    return;  // a newer order has come
  }
  dump_ = directory;
  if (hooks_.collecting_evidence()) {
    dumped_waits_ = true;
  } else {
    send_dumped();
  }
  // The verdict may have come before the dump of this node.
  if (verdict_ && verdict_->dump.empty()) {
    verdict_->dump = directory;
    judge_again();
  }
}

void NodeHandler::evidence_collected() {
  if (dumped_waits_) {
    send_dumped();
  }
  judge_again();
}

// The end of the job has waited for evidence or a dump.
void NodeHandler::judge_again() {
  if (verdict_ && !decision_.is_open() && !parts_.job.is_ending()) {
    judge();
  }
}

// If the verdict ends the job here, and it was made here, the job ends everywhere.
void NodeHandler::judge() {
  const bool ending = parts_.job.is_ending();
  hooks_.judged({.verdict = verdict_, .problem = no_report_, .place = report_place_});
  if (!ending && parts_.job.is_ending() && report_place_.empty()) {
    link_.send(
        ActMessage{.action = JobAction::kill, .exit_status = kExitHangEnded, .reason = verdict_->sentence});
  }
}

// The others read run.json too: as it is now.
void NodeHandler::send_dumped() {
  dumped_waits_ = false;
  parts_.journal.save_now();
  parts_.storage.when_written(kFilesS, [this, request = request_, directory = dump_](Written) {
    decision_.dumped(request, directory);
  });
}

void NodeHandler::merge(const GatheredMessage& message) {
  std::string elected;
  for (const NodeInfo& n : decision_.nodes()) {
    elected = n.elected ? n.node : elected;
  }
  model::Nodes nodes = nodes_file(message, decision_.node(), elected);
  for (model::NodeEntry& entry : nodes.nodes) {
    for (const NodeInfo& n : decision_.nodes()) {
      const bool missing =
          entry.status == model::NodeStatus::silent || entry.status == model::NodeStatus::cut_off;
      entry.silent_s = missing && n.node == entry.node ? n.seen_s : entry.silent_s;
    }
  }
  parts_.storage.replace(parts_.journal.dir().file(model::kNodesFile), to_json(nodes).dump(1) + "\n");
  has_nodes_file_ = true;
  merging_ = true;
  skip_report_ = hooks_.reporting();
  hooks_.request_report();
}

std::optional<ReportResult> NodeHandler::take(ReportResult result) {
  if (merging_) {
    if (std::exchange(skip_report_, false)) {
      return std::nullopt;
    }
    merging_ = false;
    if (decision_.is_open()) {
      no_report_ = result.problem;
      decision_.merged(result.verdict);
      return std::nullopt;
    }
  }
  if (decision_.is_open()) {
    return std::nullopt;
  }
  if (verdict_) {
    result.verdict = verdict_;
    result.place = report_place_;
    return result;
  }
  const std::string why = !decision_.is_joined() ? decision_.why_alone() : why_alone_;
  if (!why.empty() && result.verdict && result.verdict->kind != model::VerdictKind::none &&
      result.verdict->kind != model::VerdictKind::running) {
    result.verdict->evidence.push_back(fmt::format("this node only: {}", why));
  }
  return result;
}

std::string NodeHandler::host_of(const std::string& node) const {
  for (const NodeInfo& n : decision_.nodes()) {
    if (n.node == node) {
      return n.host;
    }
  }
  return node;
}

void NodeHandler::decided(const model::Verdict& verdict, const std::string& node) {
  if (verdict.kind == model::VerdictKind::none || verdict.kind == model::VerdictKind::running) {
    judge_alone("all nodes together showed nothing wrong when they were asked");
    return;
  }
  verdict_ = verdict;
  why_alone_.clear();
  // The stall of this node goes with the dump of this node.
  verdict_->dump = dump_;
  report_place_ = node.empty() ? "" : fmt::format("the report of all nodes is on {}", host_of(node));
  const bool ending = parts_.job.is_ending();
  no_report_ = node.empty() ? no_report_ : "";
  judge();
  if (is_failure(verdict) && !ending) {
    hooks_.say(verdict.sentence);
  }
  const bool doubt =
      verdict.kind == model::VerdictKind::hang && verdict.level != model::VerdictLevel::confirmed;
  if (std::exchange(claim_again_, false) && doubt && own_stall_ && !parts_.job.is_ending()) {
    (void)decision_.claim(ClaimReason::hang, still_ranks());
  }
  if (!node.empty() && !parts_.job.is_ending()) {
    hooks_.request_report();  // this node's own pages
  }
  tell_state();
  parts_.loop.after(0, [this] { hooks_.idle(); });
}

void NodeHandler::act(const ActMessage& message) {
  base::log_info("all nodes are to {}: {}", model::name_of(message.action), message.reason);
  if (parts_.job.is_ending() || message.action == JobAction::restart) {
    return;
  }
  hooks_.end_the_job();
}

void NodeHandler::judge_alone(const std::string& why) {
  base::log_info("this node judges alone: {}", why);
  why_alone_ = why;
  merging_ = false;
  forget_verdict();
  const model::Incident* stall = std::as_const(parts_.journal).open_incident();
  if (stall != nullptr && stall->dump.empty() && !parts_.job.has_ended() && !parts_.dumps.busy()) {
    parts_.dumps.request({.why = model::DumpReason::hang, .escalated = escalated_, .reply = {}});
  } else {
    hooks_.request_report();
  }
  parts_.loop.after(0, [this] { hooks_.idle(); });
}

void NodeHandler::verdict_told() {
  if (identity_.several_nodes() && !parts_.options.nodes.wanted() && !std::exchange(hint_given_, true)) {
    hooks_.say(how_to_join(identity_));
  }
}

void NodeHandler::finish(int exit_status) {
  constexpr double kLastWordsS = 2;
  parts_.loop.cancel(state_timer_);
  link_.finish(exit_status, kLastWordsS);
}

NodeList NodeHandler::list() const {
  NodeList out{.node = decision_.node(),
               .run = plain_word(identity_.run),
               .server = decision_.is_joined() ? decision_.server() : "",
               .reason = decision_.why_alone(),
               .expected = identity_.nodes};
  if (out.node.empty() && identity_.several_nodes() && out.reason.empty()) {
    out.reason = fmt::format("one of {} nodes, without --nats: the others are not known", identity_.nodes);
  }
  out.nodes = listed(decision_.nodes());
  return out;
}

void NodeHandler::ask(const std::string& node, const std::string& verb, const std::string& request,
                      NodeQuestions::Done done) {
  if (!decision_.is_joined()) {
    done({});
    return;
  }
  link_.send(questions_.ask(node, verb, request, std::move(done)));
}

}  // namespace xpurun::launcher
