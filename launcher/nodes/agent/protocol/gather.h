// Gather: the elected node's side of one request for a dump: which nodes owe an archive, which chunks have
// arrived, which chunks to request next, and when waiting ends. Pure: the caller passes the times. The number
// of archives under way is bounded, and so is the number of chunks of each; a lost chunk is requested again.
// Only set-up, own_dumped() and result() look at all nodes, because a round of a thousand nodes has thousands
// of steps.
#pragma once

#include "common/base/clock.h"
#include "launcher/nodes/agent/protocol/wire.h"
#include "launcher/nodes/node_messages.h"

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace xpurun::nodes {

class Gather {
 public:
  // Ends at now + timeout_s at the latest.
  Gather(DumpCall call, double timeout_s, base::MonoNs now);

  const DumpCall& call() const { return call_; }

  // A node of the job. `waits`: it lives, so its archive is waited for.
  void expect(launcher::GatheredNode node, bool waits);
  // A node that has ended, whose archive of an earlier request is here.
  void expect_ended(launcher::GatheredNode node);
  // This node itself: no archive, only the end of its own dump.
  void expect_own(launcher::GatheredNode node);
  void own_dumped(const launcher::DumpedMessage& dumped);

  // An expected node has died, or lives again.
  void set_alive(const std::string& node, bool alive);
  void set_clock(const std::string& node, int64_t offset_ns, int64_t uncertainty_ns);

  // False: the node is not expected, or the archive differs from its offer.
  bool offered(const std::string& node, const Offer& offer);
  bool received(const std::string& node, const Part& part, base::MonoNs now);
  // The archive has been written to `directory`, or could not be.
  void unpacked(const std::string& node, const std::string& directory, const std::string& error);

  // The chunks to request now.
  std::vector<std::pair<std::string, Want>> wants(base::MonoNs now);
  struct Archive {
    std::string node;
    std::string bytes;
  };
  // An archive that has arrived completely. Each is returned once.
  std::optional<Archive> take_complete();
  // Nodes whose offer of an archive is still awaited.
  bool lacks_offers() const { return lacking_ > 0; }
  // The node's archive is not needed any more.
  bool done_with(const std::string& node) const;
  // The node's own directory of the dump, as offered.
  std::string dump_of(const std::string& node) const;

  // The size of all archives that have arrived, packed.
  uint64_t archive_bytes() const;

  bool finished(base::MonoNs now) const { return now >= deadline_ || open_ == 0; }
  launcher::GatheredMessage result() const;

 private:
  enum class Stage { owed, offered, coming, unpacking, done };
  struct Node {
    launcher::GatheredNode out;
    Stage stage = Stage::owed;
    bool waits = true;
    bool own = false;
    int broken = 0;  // archives whose hash was wrong
    Offer offer;
    std::string bytes;
    std::vector<bool> here;  // by chunk
    uint64_t missing = 0;
    uint64_t first_missing = 0;
    std::map<uint64_t, base::MonoNs> asked;  // requested chunks, and when they were requested
  };

  // Every change of `stage` or `waits` goes through these: they keep the counts below.
  void set_stage(Node& n, Stage stage);
  void set_waits(Node& n, bool waits);
  void count(const Node& n, int sign);
  Want want_of(Node& n, base::MonoNs now);
  static void start_over(Node& n);
  void start_downloads();

  DumpCall call_;
  base::MonoNs deadline_;
  double timeout_s_;
  std::map<std::string, Node> nodes_;
  std::deque<std::string> offered_;  // stage offered, in the order of the offers
  std::set<std::string> coming_;     // stage coming
  int64_t lacking_ = 0;              // nodes whose offer is waited for
  int64_t open_ = 0;                 // nodes that are waited for
  int64_t under_way_ = 0;            // archives that come or are being unpacked, ...
  int64_t under_way_bytes_ = 0;      // ... and their size
  int64_t on_the_way_bytes_ = 0;     // bytes of the chunks that may have been requested
  std::vector<launcher::GatheredNode> never_seen_;
};

}  // namespace xpurun::nodes
