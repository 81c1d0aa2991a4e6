// JobCopy: after a verdict, the node that judged hands the data of all nodes to every other node, so that
// each has the page of the whole job. One archive, fetched in chunks by each node; bounded in size
// (node_limits.h) and in time (kHandOutS). Thread of the logic only.
#pragma once

#include "launcher/nodes/agent/protocol/gather.h"
#include "launcher/nodes/agent/protocol/membership.h"
#include "launcher/nodes/agent/protocol/outlet.h"
#include "launcher/nodes/agent/protocol/upload.h"

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace xpurun::nodes {

// Whether an archive of `bytes` (packed) may be sent to `others` nodes.
bool may_hand_out(uint64_t bytes, size_t others);
// Whether archives of `bytes` in all may become small enough if they are packed together. Equal content of
// different ranks then counts once.
bool may_become_small(uint64_t bytes, size_t others);

class JobCopy {
 public:
  // All references outlive this object.
  JobCopy(const launcher::StartMessage& start, const Membership& members, const Outlet& outlet)
      : start_(start), members_(members), outlet_(outlet) {}

  // Whether an offer, a request for chunks or a chunk belongs to such an archive.
  static bool is_copy(std::string_view request);

  // --- the node that has judged
  // `bytes`: of the packed archives of all nodes. False: nothing is handed out.
  bool hand_out(const launcher::GatheredMessage& gathered, uint64_t bytes);
  bool wanted(const Member& from, const Want& want);
  bool taken(const Member& from, const Taken& taken);
  void set_chunk(uint64_t bytes) { chunk_ = bytes; }

  // --- the other nodes; false: the sender is not the node that has judged, or a limit is exceeded
  void expect(const Member& judge, const std::string& request);
  bool offered(const Member& from, const Offer& offer);
  bool received(const Member& from, const Part& part);

  // After messages, and every 0.25 s.
  void advance();

 private:
  struct HandOut {
    std::string request;            // of the verdict
    std::unique_ptr<Upload> files;  // null: being packed
    std::set<std::string> waiting;  // nodes that lived then and have not taken it
    std::set<std::string> took;
    base::MonoNs until = 0;
  };
  struct Fetch {
    std::string request;  // of the verdict
    std::string judge;
    uint64_t instance = 0;  // of the judge's helper
    std::unique_ptr<Gather> gather;
    bool unpacking = false;
    base::MonoNs until = 0;
  };

  base::MonoNs now() const { return outlet_.now(); }
  void advance_hand_out();
  void advance_fetch();
  void unpack(std::string archive);
  // Ends a fetch with its result.
  void end_fetch(const std::string& reason);

  const launcher::StartMessage& start_;
  const Membership& members_;
  const Outlet& outlet_;
  uint64_t chunk_ = 0;
  std::optional<HandOut> hand_out_;
  std::optional<Fetch> fetch_;
  std::string over_;  // the last archive that has come, or will not come
};

}  // namespace xpurun::nodes
