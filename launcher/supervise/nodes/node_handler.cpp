#include "launcher/supervise/nodes/node_handler.h"

#include "common/base/output/log.h"
#include "common/base/tr.h"
#include "launcher/nodes/joining.h"
#include "launcher/nodes/node_limits.h"
#include "launcher/spawn/install_paths.h"
#include "launcher/supervise/reporting/live_view.h"
#include "report/diagnosis/diagnose.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <variant>

namespace xpurun::launcher {

namespace {

// After the end of the command, the caller of xpurun waits for the exit status.
constexpr double kVerdictAfterTheEndS = 15;
// Time from the last stalled state of another node to the end of a stall that other nodes have claimed.
// States arrive every 2 s.
constexpr double kForeignStallS = 3 * kStateIntervalS;
// Time after a verdict on a failure, and after the last sign that ranks end, within which a launcher ends the
// ranks that wait for the failed rank.
constexpr double kAftermathS = 10;
// The limit of that time: a job may start and end processes without end.
constexpr double kLongestAftermathS = 60;

}  // namespace

NodeHandler::NodeHandler(Parts parts, Setup setup, Hooks hooks)
    : NodeHandler(parts, setup, std::move(hooks),
                  {.program = [] { return nodes_program(); },
                   .make = [&parts, &setup](NodeChannel::Hooks link) -> std::unique_ptr<NodeChannel> {
                     return std::make_unique<NodeLink>(NodeLink::Parts{.loop = parts.loop,
                                                                       .signal_mask = setup.signal_mask,
                                                                       .stderr_fd = setup.stderr_fd},
                                                       std::move(link));
                   }}) {}

NodeHandler::NodeHandler(Parts parts, Setup setup, Hooks hooks, const Backend& backend)
    : parts_(parts),
      hooks_(std::move(hooks)),
      program_(backend.program),
      join_(parts_.table, parts_.options, std::move(setup.host), std::move(setup.directory)),
      decision_(parts_.loop, {.verdict_s = verdict_limit_s(parts_.options)}, decision_hooks()),
      link_(backend.make(link_hooks())),
      state_({parts_.loop, parts_.journal, parts_.watcher, parts_.job},
             {.heard = [this] { return link_->running(); },
              .send = [this](const StateMessage& message) { link_->send(message); },
              .calls = [this] { return hooks_.calls(); }}),
      dump_({parts_.loop, parts_.storage, parts_.journal, parts_.table, parts_.dumps, parts_.job},
            dump_hooks()),
      verdict_({parts_.loop, parts_.storage, parts_.journal, parts_.job, parts_.options, decision_},
               verdict_hooks()),
      end_wait_(parts_.loop, decision_,
                [this] {
                  forget_passed_hang();
                  hooks_.idle();
                }),
      hand_out_wait_(parts_.loop, [this] {
        verdict_.no_files();
        hooks_.idle();
      }) {}

NodeChannel::Hooks NodeHandler::link_hooks() {
  return {.started = [this](base::Pid pid) { hooks_.started(pid); },
          .up =
              [this] {
                state_.report();
                decision_.repeat_claim();
              },
          .received = [this](FromHelper message) { received(std::move(message)); },
          .lost =
              [this](const std::string& reason) {
                cut_off(fmt::format("the helper for other nodes has ended: {}", reason));
              }};
}

JointDecision::Hooks NodeHandler::decision_hooks() {
  return {.send = [this](const ToHelper& message) { link_->send(message); },
          .dump = [this](const DumpMessage& order) { take_dump(order); },
          .merge = [this](const GatheredMessage& message) { verdict_.merge(message); },
          .decided = [this](const VerdictMessage& message) { decided(message); },
          .act = [this](const ActMessage& message) { act(message); },
          .judge_alone = [this](const std::string& why) { judge_alone(why); }};
}

OrderedDump::Hooks NodeHandler::dump_hooks() {
  return {.collecting_evidence = [this] { return hooks_.collecting_evidence(); },
          .dumped = [this](const std::string& directory) { verdict_.dump_done(directory); },
          .ready = [this](const std::string& request,
                          const std::string& directory) { decision_.dumped(request, directory); }};
}

JobVerdict::Hooks NodeHandler::verdict_hooks() {
  return {.reporting = [this] { return hooks_.reporting(); },
          .request_report = [this] { hooks_.request_report(); },
          .judged = [this](const ReportResult& result) { hooks_.judged(result); },
          .act = [this](const ActMessage& message) { link_->send(message); }};
}

void NodeHandler::rank_found() {
  if (verdict_.is_failure()) {
    // The launcher has started the ranks again.
    verdict_.forget();
  }
  // A round on a failure may end without a verdict, and the restarted ranks can fail again.
  failure_reported_ = failure_reported_ && decision_.is_open_on_failure();
  auto wanted = join_.look();
  if (!wanted) {
    return;
  }
  auto program = program_();
  if (!*wanted || !program) {
    failed(base::to_line(!*wanted ? wanted->error() : program.error()));
    return;
  }
  StartMessage message = std::move(**wanted);
  decision_.set_node(message.node);
  base::log_info("this is node {} of {}, job {}", message.node, message.nodes, message.run);
  link_->start(std::move(*program), std::move(message));
}

void NodeHandler::failed(const std::string& reason) {
  link_->give_up();
  cut_off(reason);
  const base::Speaking speaking(parts_.options.language);
  hooks_.say(base::tr("no verdict over all nodes: {}", reason));
}

void NodeHandler::cut_off(const std::string& reason) {
  questions_.lost();
  decision_.cut_off(reason);
  end_wait_.look();
  verdict_.no_files();
  hand_out_wait_.lost();
}

void NodeHandler::received(FromHelper message) {
  if (auto* joined = std::get_if<JoinedMessage>(&message)) {
    base::log_info("joined the other nodes at {}, {} of them live, {} judges", joined->server, joined->nodes,
                   joined->elected);
    decision_.joined(*joined);
    cut_off_reported_ = false;
  } else if (auto* alone = std::get_if<AloneMessage>(&message)) {
    if (!std::exchange(cut_off_reported_, true)) {
      base::log_warn("cut off from the other nodes: {}", alone->reason);
    }
    cut_off(alone->reason);
  } else if (auto* refused = std::get_if<FailedMessage>(&message)) {
    failed(refused->reason);
  } else if (auto* nodes = std::get_if<NodesMessage>(&message)) {
    decision_.nodes_changed(std::move(*nodes));
    notice_stalls();
    forget_passed_hang();
    end_wait_.look();
  } else if (auto* order = std::get_if<DumpMessage>(&message)) {
    decision_.ordered(*order);
  } else if (auto* gathered = std::get_if<GatheredMessage>(&message)) {
    decision_.gathered(*gathered);
  } else if (auto* files = std::get_if<JobFilesMessage>(&message)) {
    verdict_.files_came(*files);
    hand_out_wait_.done(files->request);
  } else if (auto* verdict = std::get_if<VerdictMessage>(&message)) {
    decision_.verdict_came(*verdict);
  } else if (auto* action = std::get_if<ActMessage>(&message)) {
    decision_.act_came(*action);
  } else if (auto* request = std::get_if<RequestMessage>(&message)) {
    hooks_.control(request->arguments, [this, id = request->id](std::string body) {
      link_->send(AnswerMessage{.id = id, .status = 200, .body = std::move(body)});
    });
  } else if (auto* answers = std::get_if<AnswersMessage>(&message)) {
    questions_.answered(std::move(*answers));
  }
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

void NodeHandler::process_died() {
  last_death_ = parts_.loop.now();
  dump_.process_died();
}

// On a busy host, ranks whose connections broke take seconds to end.
base::MonoNs NodeHandler::aftermath_end() const {
  base::MonoNs sign = std::max(failed_at_, last_death_);
  for (const model::PythonException& e : std::as_const(parts_.journal).manifest().exceptions) {
    if (e.kind == model::ExceptionKind::raised) {
      sign = std::max(sign, parts_.journal.started() + base::s_to_ns(e.at_s));
    }
  }
  return std::min(sign + base::s_to_ns(kAftermathS), failed_at_ + base::s_to_ns(kLongestAftermathS));
}

// True if a stall has to wait, because its ranks may only be waiting for a failed rank. The verdict on the
// failure then stays. If they still wait after that time, the stall is claimed.
bool NodeHandler::in_aftermath() {
  aftermath_.stop();
  const base::MonoNs end = aftermath_end();
  if (!verdict_.is_failure() || parts_.loop.now() >= end) {
    return false;
  }
  aftermath_.at(end, [this] {
    if (!state_.stalled() || parts_.job.is_ending() || decision_.is_open() || in_aftermath()) {
      return;
    }
    if (!claim_stall()) {
      judge_alone("the other nodes are gone");
    }
  });
  return true;
}

bool NodeHandler::claim_stall() {
  verdict_.forget();
  return decision_.claim(ClaimReason::hang, still_ranks());
}

bool NodeHandler::stall_raised() {
  const bool another = state_.stalled();
  state_.set_stalled(true);
  state_.report();
  if (verdict_.about_to_be_forgotten()) {
    verdict_.forget();  // this is another stall
  }
  // A stall that another node has claimed is open already, with its verdict or soon.
  if (another && verdict_.is_hang() && !decision_.is_open()) {
    return stall_changed(false);
  }
  if (decision_.is_open() || verdict_.is_hang()) {
    judge_again();  // the verdict may have come before this node had a stall
    return true;
  }
  return in_aftermath() || claim_stall();
}

bool NodeHandler::stall_changed(bool escalated) {
  escalated_ |= escalated;
  if (verdict_.is_confirmed_hang() || in_aftermath()) {
    return true;
  }
  // The verdict of the current round may have been made before the hang was confirmed.
  claim_again_ = decision_.is_open();
  if (decision_.claim(ClaimReason::hang, still_ranks())) {
    return true;
  }
  verdict_.forget();
  return false;
}

bool NodeHandler::stall_cleared() {
  state_.set_stalled(false);
  aftermath_.stop();
  escalated_ = false;
  claim_again_ = false;
  state_.report();
  if (decision_.others_stalled()) {
    return true;
  }
  verdict_.forget_soon();
  return false;
}

// A stall that other nodes have claimed ends when the last of them has no stall any more.
void NodeHandler::notice_stalls() {
  const base::MonoNs now = parts_.loop.now();
  if (decision_.others_stalled() || decision_.is_open()) {
    last_foreign_stall_ = now;
  }
  const bool open = std::as_const(parts_.journal).open_stall() != nullptr;
  if (open && !state_.stalled() && !parts_.job.is_ending() &&
      now - last_foreign_stall_ >= base::s_to_ns(kForeignStallS)) {
    verdict_.forget_soon();
    hooks_.stall_cleared();
  }
}

// A failure during a round on a failure belongs to that round: the round's dumps wait for it.
void NodeHandler::rank_failed(base::Rank rank) {
  if (failure_reported_ || verdict_.is_failure() || decision_.is_open_on_failure()) {
    return;
  }
  state_.report();
  failure_reported_ = decision_.claim(ClaimReason::death, {rank});
}

// A launcher that fails by itself, without a failed rank before, is the first failure of the job.
void NodeHandler::command_ended() {
  state_.report();
  hand_out_wait_.command_ended();
  decision_.hurry(kVerdictAfterTheEndS);
  if (parts_.job.ended_by_us || hooks_.was_interrupted()) {
    return;
  }
  if (verdict_.about_to_be_forgotten() || !decision_.others_work()) {
    forget_passed_hang();
  }
  // The next states of the other nodes show whether their ranks are still stuck.
  const bool hung = verdict_.is_hang() && !decision_.is_open();
  if (parts_.job.command_status.succeeded() && (hung || !leads())) {
    end_wait_.begin();
  } else if (!leads()) {
    failure_reported_ = decision_.claim(ClaimReason::death, {}) || failure_reported_;
  }
}

bool NodeHandler::has_ended_well() const {
  const JobState& job = parts_.job;
  return job.has_ended() && !job.ended_by_us && !job.detached && !hooks_.was_interrupted() &&
         job.command_status.succeeded();
}

// A command that exits cleanly has ended its stall, even if no poll has seen a rank make progress.
void NodeHandler::forget_passed_hang() {
  if (!verdict_.is_hang() || decision_.is_open() || !has_ended_well() || decision_.others_stalled()) {
    return;
  }
  verdict_.forget();
  if (parts_.options.report && parts_.job.is_recorded()) {
    hooks_.request_report();  // the last report still shows the verdict that has passed
  }
}

void NodeHandler::take_dump(const DumpMessage& order) {
  if (order.why == ClaimReason::hang && parts_.journal.open_stall() == nullptr) {
    parts_.journal.add_stall({}, -1);
    last_foreign_stall_ = parts_.loop.now();
  }
  dump_.take(order, escalated_);
}

void NodeHandler::evidence_collected() {
  dump_.evidence_collected();
  judge_again();
}

std::string NodeHandler::host_of(const std::string& node) const {
  for (const NodeInfo& n : decision_.nodes()) {
    if (n.node == node) {
      return n.host;
    }
  }
  return node;
}

std::vector<model::StillElsewhere> NodeHandler::still_elsewhere(double seconds) const {
  constexpr size_t kMost = 3;
  std::vector<model::StillElsewhere> out;
  for (const NodeInfo& n : decision_.nodes()) {
    for (const RankOnNode& r : n.ranks) {
      const double still_s = r.still_s + n.seen_s;
      if (n.alive && n.node != decision_.node() && r.alive && still_s >= seconds) {
        out.push_back({.rank = r.rank, .host = n.host, .still_s = still_s, .where = r.where});
      }
    }
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const auto& a, const auto& b) { return a.still_s > b.still_s; });
  out.resize(std::min(out.size(), kMost));
  return out;
}

void NodeHandler::decided(const VerdictMessage& message) {
  const model::Verdict& verdict = message.verdict;
  const bool made_here = message.node.empty();
  if (verdict.kind == model::VerdictKind::none || verdict.kind == model::VerdictKind::running) {
    judge_alone("all nodes together showed nothing wrong when they were asked");
    return;
  }
  const bool passed = verdict.kind == model::VerdictKind::hang && has_ended_well();
  if (passed && !decision_.others_work()) {
    judge_alone("the stall has passed");
    return;
  }
  const bool ending = parts_.job.is_ending();
  failed_at_ = parts_.loop.now();
  verdict_.put_in_force(verdict, dump_.directory(),
                        made_here ? JobVerdict::Judge{}
                                  : JobVerdict::Judge{host_of(message.node), message.directory, message.node,
                                                      message.request, message.shared});
  if (made_here || message.shared) {
    hand_out_wait_.expect(message.request);
  }
  if (verdict_.is_failure() && !ending) {
    const base::Speaking speaking(parts_.options.language);
    hooks_.say(report::sentence_of(verdict));
  }
  const bool doubt =
      verdict.kind == model::VerdictKind::hang && verdict.level != model::VerdictLevel::confirmed;
  if (std::exchange(claim_again_, false) && doubt && state_.stalled() && !parts_.job.is_ending()) {
    (void)decision_.claim(ClaimReason::hang, still_ranks());
  }
  if (!made_here && !parts_.job.is_ending()) {
    hooks_.request_report();  // for this node's own page
  }
  if (state_.stalled() && !ending) {
    (void)in_aftermath();
  }
  if (passed) {
    end_wait_.begin();
  }
  state_.report();
  // Deferred: the caller still uses the state that the end of the run would change.
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
  verdict_.stay_alone(why);
  const model::Stall* stall = std::as_const(parts_.journal).open_stall();
  if (stall != nullptr && stall->dump.empty() && !parts_.job.has_ended() && !parts_.dumps.busy()) {
    parts_.dumps.request({.why = model::DumpReason::hang, .escalated = escalated_, .reply = {}});
  } else {
    hooks_.request_report();
  }
  parts_.loop.after(0, [this] { hooks_.idle(); });
}

void NodeHandler::verdict_reported() {
  if (const std::string hint = join_.hint(); !hint.empty()) {
    hooks_.say(hint);
  }
}

void NodeHandler::finish(int exit_status) {
  constexpr double kLastWordsS = 2;
  state_.stop();
  link_->finish(exit_status, kLastWordsS);
}

NodeList NodeHandler::list() const {
  const JobIdentity& job = join_.identity();
  NodeList out{.node = decision_.node(),
               .run = plain_word(job.run),
               .server = decision_.is_joined() ? decision_.server() : "",
               .reason = decision_.why_alone(),
               .expected = job.nodes};
  if (out.node.empty() && job.several_nodes() && out.reason.empty()) {
    out.reason = fmt::format("one of {} nodes, without --nats: the others are not known", job.nodes);
  }
  out.nodes = listed(decision_.nodes());
  return out;
}

void NodeHandler::complete(LiveStatus& status) const {
  if (!decision_.nodes().empty()) {
    add_other_ranks(status_of_others(decision_.nodes(), decision_.node(), join_.identity().nodes), status);
  }
}

// Nodes of rank 8 or above receive only the elected node's state. The elected node receives all states.
std::string NodeHandler::better_informed() const {
  const auto& nodes = decision_.nodes();
  if (!decision_.is_joined() || static_cast<int>(nodes.size()) >= join_.identity().nodes) {
    return "";
  }
  const auto judge = std::find_if(nodes.begin(), nodes.end(), [](const NodeInfo& n) { return n.elected; });
  return judge == nodes.end() || judge->node == decision_.node() ? "" : judge->node;
}

void NodeHandler::ask(AskMessage question, NodeQuestions::Done done) {
  if (!decision_.is_joined()) {
    done({});
    return;
  }
  link_->send(questions_.ask(std::move(question), std::move(done)));
}

}  // namespace xpurun::launcher
