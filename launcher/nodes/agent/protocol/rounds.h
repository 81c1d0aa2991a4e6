// Rounds: from a claim that something is wrong to the job's verdict. The elected node turns the first claim
// into a request for a dump, gathers the archives and hands them to its supervisor; every node makes its
// dump, sends its archive and hears the verdict. A claim stays in its node's state until the verdict, so the
// next elected node starts again where the previous one died. Thread of the logic only.
#pragma once

#include "launcher/nodes/agent/protocol/gather.h"
#include "launcher/nodes/agent/protocol/job_copy.h"
#include "launcher/nodes/agent/protocol/membership.h"
#include "launcher/nodes/agent/protocol/outlet.h"
#include "launcher/nodes/agent/protocol/upload.h"

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

namespace xpurun::nodes {

class Rounds {
 public:
  // All references outlive this object.
  Rounds(const launcher::StartMessage& start, uint64_t instance, Membership& members, const Outlet& outlet);

  // --- from this node's supervisor
  void stalled(const launcher::StalledMessage& message);
  // The ranks make progress again, so a claim of a hang is void.
  void moves_again();
  void dumped(const launcher::DumpedMessage& message);
  void judged(launcher::VerdictMessage message);

  // --- from other nodes; false: the sender is not allowed to send this
  bool called(const Member& from, const DumpCall& call);
  bool offered(const Member& from, const Offer& offer);
  bool wanted(const Member& from, const Want& want);
  bool received(const Member& from, const Part& part);
  bool taken(const Member& from, const Taken& taken);
  bool verdict(const Member& from, const launcher::VerdictMessage& message);

  // Call after messages. Looks at all nodes only if there may be a claim to answer.
  void advance();
  // Every 0.25 s.
  void tick();

  // This node's open claim, part of its state.
  Claim claim() const { return claimed_ == 0 ? Claim() : claim_; }
  void set_chunk(uint64_t bytes) {
    chunk_ = bytes;
    copy_.set_chunk(bytes);
  }

 private:
  // A request that this node has been given.
  struct Request {
    std::string id;
    std::string owner;      // node
    uint64_t instance = 0;  // of the owner's helper
    Claim claim;            // that the owner has answered
    base::MonoNs at = 0;
    bool settled = false;  // a verdict has come, or the owner's gathering is over
  };

  void begin(const Member& claimant, const Claim& claim);
  void start_first_claim();
  bool owner_lives() const;
  // The owner of a request has died before the verdict, and its claim may have been the only one. This node
  // then makes the same claim, if its ranks stand still.
  void inherit_claim();
  // Whether a request is still on its way to a verdict.
  bool open_request() const;
  // Whether the verdict of the request also answers a claim that was raised at that time.
  bool covers(ClaimReason why, base::MonoNs claimed) const;
  void settle();
  launcher::GatheredNode described(const Member& m) const;
  void expect_nodes();
  void advance_gather();
  void finish_gather();
  void unpack(Gather::Archive archive);
  int64_t own_time(int64_t their_wall_ns, const Member& owner) const;
  base::MonoNs now() const { return outlet_.now(); }

  const launcher::StartMessage& start_;
  uint64_t instance_;
  Membership& members_;
  const Outlet& outlet_;

  Claim claim_;
  base::MonoNs claimed_ = 0;
  uint64_t chunk_;
  std::optional<Request> request_;
  std::unique_ptr<Upload> upload_;

  // As the elected node.
  std::unique_ptr<Gather> gather_;
  base::MonoNs next_call_ = 0;
  std::map<uint64_t, int> handled_;  // by helper: the newest claim that a request of this node covers
  // By node: the dump whose archive, from an earlier request, lies in nodes/<node>.
  std::map<std::string, std::string> archived_;
  int requests_ = 0;
  struct Judgement {
    launcher::VerdictMessage message;
    base::MonoNs until = 0;
    base::MonoNs next = 0;
  };
  std::optional<Judgement> judgement_;
  // What the last report over all nodes rests on, and the size of the archives.
  launcher::GatheredMessage gathered_;
  uint64_t gathered_bytes_ = 0;
  // The files of the job that a node sends to the others: this node's for them, or another node's for this
  // one.
  JobCopy copy_;
  std::set<std::string> judged_;  // requests whose verdict the supervisor has heard
};

}  // namespace xpurun::nodes
