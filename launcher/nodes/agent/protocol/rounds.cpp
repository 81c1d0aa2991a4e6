#include "launcher/nodes/agent/protocol/rounds.h"

#include "launcher/nodes/node_limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

namespace xpurun::nodes {

using namespace launcher;
using base::MonoNs;
using base::s_to_ns;

namespace {

// Time after the gathering, for the owner's judgement and the transport.
constexpr double kJudgeS = 30;
// Nodes do not see a failure at the same moment: later claims up to this are about the same failure.
constexpr double kCoveredS = 5;
constexpr double kRepeatVerdictS = 60;
constexpr size_t kMostJudged = 1000;
// A dump's moment further away than this comes from a wrong clock.
constexpr int64_t kFarthestDumpNs = 2'000'000'000;

// The directory of another node's files, relative to the run directory.
std::string directory_of(const std::string& node) {
  return "nodes/" + node;
}

}  // namespace

Rounds::Rounds(const StartMessage& start, uint64_t instance, Membership& members, const Outlet& outlet)
    : start_(start),
      instance_(instance),
      members_(members),
      outlet_(outlet),
      chunk_(kChunkBytes),
      copy_(start, members, outlet) {}

void Rounds::stalled(const StalledMessage& message) {
  claim_.stall += 1;
  claim_.why = message.why;
  claim_.ranks = message.ranks;
  claimed_ = now();
}

void Rounds::moves_again() {
  if (claim_.why == ClaimReason::hang) {
    claimed_ = 0;
  }
}

void Rounds::dumped(const DumpedMessage& message) {
  if (gather_ && gather_->call().request == message.request) {
    gather_->own_dumped(message);
    return;
  }
  // The elected node does not send itself the dump of its own round that is over.
  if (!request_ || request_->id != message.request || request_->owner == start_.node) {
    return;
  }
  const Offer offer{.request = message.request,
                    .status = message.status,
                    .reason = message.reason.substr(0, kLongestText),
                    .directory = message.directory};
  outlet_.pack({.run_directory = start_.directory, .dump = message.directory, .all = start_.collect_all},
               [this, offer](std::string archive) {
                 if (request_ && request_->id == offer.request) {
                   upload_ = std::make_unique<Upload>(offer, std::move(archive), chunk_, now());
                   advance();
                 }
               });
}

void Rounds::judged(VerdictMessage message) {
  message.node = start_.node;
  message.directory = start_.directory;
  message.shared = gathered_.request == message.request && copy_.hand_out(gathered_, gathered_bytes_);
  if (!message.shared) {
    outlet_.to_supervisor(JobFilesMessage{.request = message.request});
  }
  judged_.insert(message.request);
  if (request_ && request_->id == message.request) {
    settle();
  }
  judgement_ = {.message = std::move(message), .until = now() + s_to_ns(kRepeatVerdictS), .next = now()};
}

bool Rounds::called(const Member& from, const DumpCall& call) {
  if (request_ && request_->id == call.request) {
    return request_->owner == from.node;
  }
  const Member* elected = members_.elected(now());
  // A dump stops every rank of this node for a moment, so only the elected node may request one.
  if (elected != &from) {
    return false;
  }
  if (judged_.count(call.request) != 0) {
    return true;
  }
  gather_.reset();
  upload_.reset();
  request_ = {.id = call.request,
              .owner = from.node,
              .instance = from.instance,
              .claim = {.why = call.why, .ranks = call.ranks},
              .at = now()};
  outlet_.to_supervisor(DumpMessage{.request = call.request,
                                    .why = call.why,
                                    .at_wall_ns = own_time(call.at_wall_ns, from),
                                    .node = call.claimant,
                                    .ranks = call.ranks});
  return true;
}

int64_t Rounds::own_time(int64_t their_wall_ns, const Member& owner) const {
  const int64_t here = outlet_.wall_ns();
  const ClockOffset& clock = owner.clock;
  // A wrong clock must not postpone the dump: it is then taken at once.
  const bool sane = their_wall_ns > 0 && their_wall_ns < INT64_MAX / 2;
  const int64_t at = sane ? their_wall_ns - clock.offset_ns() : here;
  return std::abs(at - here) <= kFarthestDumpNs ? at : here;
}

bool Rounds::offered(const Member& from, const Offer& offer) {
  if (JobCopy::is_copy(offer.request)) {
    return copy_.offered(from, offer);
  }
  if (!gather_ || gather_->call().request != offer.request) {
    // An offer for an earlier request, which is over.
    outlet_.to_node(from.node, Taken{.request = offer.request});
    return true;
  }
  const bool good = gather_->offered(from.node, offer);
  if (good && gather_->done_with(from.node)) {
    outlet_.to_node(from.node, Taken{.request = offer.request});
  }
  return good;
}

bool Rounds::wanted(const Member& from, const Want& want) {
  if (JobCopy::is_copy(want.request)) {
    return copy_.wanted(from, want);
  }
  if (!request_ || request_->owner != from.node) {
    return false;
  }
  if (upload_) {
    for (Part& part : upload_->wanted(want, now())) {
      outlet_.to_node(from.node, std::move(part));
    }
  }
  return true;
}

bool Rounds::received(const Member& from, const Part& part) {
  if (JobCopy::is_copy(part.request)) {
    return copy_.received(from, part);
  }
  // A chunk of an earlier request of this node is late, not a stranger's.
  return gather_ && part.request == gather_->call().request
             ? gather_->received(from.node, part, now())
             : start_.node != from.node && part.request.starts_with(subject_word(start_.node));
}

bool Rounds::taken(const Member& from, const Taken& taken) {
  if (JobCopy::is_copy(taken.request)) {
    return copy_.taken(from, taken);
  }
  if (!request_ || request_->owner != from.node || request_->id != taken.request) {
    return false;
  }
  upload_.reset();
  return true;
}

bool Rounds::verdict(const Member& from, const VerdictMessage& message) {
  const bool owner = request_ && request_->id == message.request && request_->owner == from.node;
  if (!owner && members_.elected(now()) != &from) {
    return false;
  }
  if (!judged_.insert(message.request).second) {
    return true;
  }
  if (judged_.size() > kMostJudged) {
    judged_ = {message.request};
  }
  if (owner) {
    settle();
  }
  VerdictMessage heard = message;
  heard.node = from.node;
  if (heard.shared) {
    copy_.expect(from, heard.request);
  }
  outlet_.to_supervisor(std::move(heard));
  return true;
}

bool Rounds::open_request() const {
  if (!request_ || request_->settled) {
    return false;
  }
  return owner_lives() && now() - request_->at < s_to_ns(start_.gather_timeout_s + kJudgeS);
}

// A helper that was started again does not know its earlier requests.
bool Rounds::owner_lives() const {
  const Member* owner = members_.find(request_->owner);
  return owner != nullptr && owner->instance == request_->instance && members_.alive(*owner, now());
}

bool Rounds::covers(ClaimReason why, MonoNs claimed) const {
  return why == ClaimReason::hang || claimed <= request_->at + s_to_ns(kCoveredS);
}

void Rounds::settle() {
  request_->settled = true;
  if (covers(claim_.why, claimed_)) {
    claimed_ = 0;
  }
  for (const auto& [name, m] : members_.others()) {
    if (m.state.claim.present() && covers(m.state.claim.why, m.claimed)) {
      handled_[m.instance] = m.state.claim.stall;
    }
  }
}

void Rounds::start_first_claim() {
  if (gather_ || !members_.is_elected(now()) || open_request()) {
    return;
  }
  const Member* first = nullptr;
  base::MonoNs when = 0;
  const auto look = [&](const Member& m, const Claim& claim, MonoNs claimed) {
    const auto handled = handled_.find(m.instance);
    const bool open = claim.present() && claimed != 0 && now() - claimed < s_to_ns(kClaimS) &&
                      (handled == handled_.end() || handled->second < claim.stall);
    if (open && (first == nullptr || claimed < when)) {
      first = &m;
      when = claimed;
    }
  };
  look(members_.own(), claim_, claimed_);
  for (const auto& [name, m] : members_.others()) {
    if (members_.alive(m, now())) {
      look(m, m.state.claim, m.claimed);
    }
  }
  if (first != nullptr) {
    begin(*first, first == &members_.own() ? claim_ : first->state.claim);
  }
}

void Rounds::inherit_claim() {
  if (!request_ || request_->settled || request_->owner == start_.node || claimed_ != 0 ||
      !members_.is_connected() || now() - request_->at >= s_to_ns(kClaimS) || owner_lives()) {
    return;
  }
  const bool stalled = members_.own().state.state.phase == NodePhase::stalled;
  if (stalled || request_->claim.why != ClaimReason::hang) {
    request_->settled = true;
    claim_ = {.stall = claim_.stall + 1, .why = request_->claim.why, .ranks = request_->claim.ranks};
    claimed_ = now();
  }
}

void Rounds::begin(const Member& claimant, const Claim& claim) {
  // Unique on all nodes, also after a restart of this helper: its instance is a part of it.
  const DumpCall call{.request = fmt::format("{}-{:016x}-{}", subject_word(start_.node).substr(0, 150),
                                             instance_, ++requests_),
                      .why = claim.why,
                      .claimant = claimant.node,
                      .ranks = claim.ranks,
                      .at_wall_ns = outlet_.wall_ns() + s_to_ns(kDumpAheadS)};
  request_ = {.id = call.request, .owner = start_.node, .instance = instance_, .claim = claim, .at = now()};
  upload_.reset();
  gather_ = std::make_unique<Gather>(call, start_.gather_timeout_s, now());
  expect_nodes();
  next_call_ = now();
  outlet_.to_supervisor(DumpMessage{.request = call.request,
                                    .why = call.why,
                                    .at_wall_ns = call.at_wall_ns,
                                    .node = call.claimant,
                                    .ranks = call.ranks});
}

GatheredNode Rounds::described(const Member& m) const {
  return {.node = m.node,
          .host = m.state.host,
          .node_rank = m.state.node_rank,
          .ranks = m.state.expected,
          .offset_ns = m.clock.offset_ns(),
          .uncertainty_ns = &m == &members_.own() ? 0 : m.clock.uncertainty_ns()};
}

void Rounds::expect_nodes() {
  std::set<int> ranks = {members_.own().state.node_rank};
  handled_[instance_] = claim_.stall;
  gather_->expect_own(described(members_.own()));
  for (const auto& [name, m] : members_.others()) {
    const bool waits = members_.alive(m, now());
    GatheredNode node = described(m);
    ranks.insert(m.state.node_rank);
    if (m.ended) {
      node.reason = fmt::format("ended before with exit status {}", m.state.state.exit_status);
    } else if (!waits) {
      node.reason = fmt::format("no message for {:.0f} s", base::ns_to_s(now() - m.last_word));
    }
    // An earlier dump of this node is used: its failure may explain what the others do now.
    if (const auto before = archived_.find(name); m.ended && before != archived_.end()) {
      node.directory = directory_of(name);
      node.dump = before->second;
      gather_->expect_ended(std::move(node));
    } else {
      gather_->expect(std::move(node), waits);
    }
    handled_[m.instance] = m.state.claim.stall;
  }
  for (int rank = 0; rank < std::min(start_.nodes, kMostNodes); ++rank) {
    if (ranks.count(rank) == 0) {
      gather_->expect({.node_rank = rank, .reason = "the node has never joined"}, false);
    }
  }
}

void Rounds::unpack(Gather::Archive archive) {
  const std::string directory = directory_of(archive.node);
  const std::string request = gather_->call().request;
  outlet_.to_node(archive.node, Taken{.request = request});
  outlet_.unpack(start_.directory + "/" + directory, std::move(archive.bytes),
                 [this, request, directory, node = archive.node](const base::Status& status) {
                   archived_.erase(node);
                   if (gather_ && gather_->call().request == request) {
                     if (status) {
                       archived_[node] = gather_->dump_of(node);
                     }
                     gather_->unpacked(node, status ? directory : "", status ? "" : to_line(status.error()));
                     advance();
                   }
                 });
}

void Rounds::advance_gather() {
  if (now() >= next_call_ && gather_->lacks_offers()) {
    next_call_ = now() + s_to_ns(kRepeatS);
    outlet_.to_all(gather_->call());
  }
  while (auto archive = gather_->take_complete()) {
    unpack(std::move(*archive));
  }
  for (auto& [node, want] : gather_->wants(now())) {
    outlet_.to_node(node, std::move(want));
  }
  if (gather_->finished(now())) {
    finish_gather();
  }
}

void Rounds::finish_gather() {
  for (const auto& [name, m] : members_.others()) {
    gather_->set_clock(name, m.clock.offset_ns(), m.clock.uncertainty_ns());
  }
  GatheredMessage result = gather_->result();
  gathered_ = result;
  gathered_bytes_ = gather_->archive_bytes();
  gather_.reset();
  outlet_.to_supervisor(std::move(result));
}

void Rounds::tick() {
  if (gather_) {
    for (const auto& [name, m] : members_.others()) {
      gather_->set_alive(name, members_.alive(m, now()));
    }
  }
  advance();
}

void Rounds::advance() {
  if (claimed_ != 0 && now() - claimed_ >= s_to_ns(kClaimS)) {
    claimed_ = 0;
  }
  inherit_claim();
  start_first_claim();
  if (gather_) {
    advance_gather();
  }
  if (upload_) {
    if (upload_->expired(now())) {
      upload_.reset();
    } else if (const auto offer = upload_->due(now())) {
      outlet_.to_node(request_->owner, *offer);
    }
  }
  copy_.advance();
  if (judgement_ && now() >= judgement_->next) {
    judgement_->next = now() + s_to_ns(kStateIntervalS);
    outlet_.to_all(judgement_->message);
    if (now() >= judgement_->until) {
      judgement_.reset();
    }
  }
}

}  // namespace xpurun::nodes
