#include "report/speed/roles/communicator_links.h"

#include <algorithm>
#include <array>

namespace xpurun::report {

using model::LinkClass;

namespace {

constexpr uint64_t kLatestLinkNs = uint64_t{1} << 61;  // sums of two fit

}  // namespace

CommunicatorLinks::CommunicatorLinks(size_t expected_ranks, size_t most)
    : most_of_a_rank_(most / std::max<size_t>(expected_ranks, 1)) {}

void CommunicatorLinks::add(const RankRecord& rank) {
  OfRank& to = ranks_[rank.rank];
  for (const model::EventFile& file : rank.events) {
    for (const model::EventCommunicator& one : file.communicators) {
      if (one.identity == 0 || one.nranks < 2) {
        continue;
      }
      const Id id{one.identity, one.nranks};
      to.communicators.insert(id);
      Member& member = communicators_[id];
      member.ranks.insert(rank.rank);
      member.hosts.insert(rank.host);
    }
    for (const model::EventFile::Entry& entry : file.events) {
      const auto op = file.ops.find(entry.event.op);
      if (op == file.ops.end() || entry.communicator < 0 || entry.event.begin_ns >= kLatestLinkNs ||
          entry.event.duration_ns >= kLatestLinkNs ||
          static_cast<wire::OpClass>(op->second.key.op_class) != wire::OpClass::collective) {
        continue;
      }
      const auto& comm = file.communicators[static_cast<size_t>(entry.communicator)];
      if (comm.identity != 0 && comm.nranks > 1) {
        const auto begin = static_cast<int64_t>(entry.event.begin_ns);
        const auto length = static_cast<int64_t>(entry.event.duration_ns);
        to.timed.push_back({begin, begin + length, {comm.identity, comm.nranks}});
      }
    }
  }
  if (to.communicators.size() < 2) {
    to.timed = {};  // nothing to choose between
  }
  std::stable_sort(to.timed.begin(), to.timed.end(),
                   [](const Timed& a, const Timed& b) { return a.begin_ns < b.begin_ns; });
  if (to.timed.size() > most_of_a_rank_) {
    to.timed.erase(to.timed.begin(), to.timed.end() - static_cast<std::ptrdiff_t>(most_of_a_rank_));
  }
  to.timed.shrink_to_fit();
  for (const Timed& one : to.timed) {
    to.longest_ns = std::max(to.longest_ns, one.end_ns - one.begin_ns);
  }
}

LinkClass CommunicatorLinks::of(uint64_t identity, int size) const {
  const auto found = communicators_.find({identity, size});
  if (found == communicators_.end() || found->second.hosts.contains("")) {
    return LinkClass::unknown;
  }
  const Member& member = found->second;
  return member.hosts.size() > 1                            ? LinkClass::between_nodes
         : member.ranks.size() == static_cast<size_t>(size) ? LinkClass::inside_node
                                                            : LinkClass::unknown;
}

LinkClass CommunicatorLinks::of_kernel(base::Rank rank, int64_t begin_ns, int64_t end_ns) const {
  const auto found = ranks_.find(rank);
  if (found == ranks_.end() || found->second.communicators.empty()) {
    return LinkClass::unknown;
  }
  const OfRank& own = found->second;
  std::set<LinkClass> classes;
  for (const auto& [identity, size] : own.communicators) {
    classes.insert(of(identity, size));
  }
  if (classes.size() == 1) {
    return *classes.begin();
  }
  std::array<int64_t, model::kNames<LinkClass>.size()> overlap{};
  auto at = std::lower_bound(own.timed.begin(), own.timed.end(), begin_ns - own.longest_ns,
                             [](const Timed& one, int64_t t) { return one.begin_ns < t; });
  for (; at != own.timed.end() && at->begin_ns < end_ns; ++at) {
    overlap[static_cast<size_t>(of(at->id.first, at->id.second))] +=
        std::max<int64_t>(std::min(end_ns, at->end_ns) - std::max(begin_ns, at->begin_ns), 0);
  }
  const auto most = std::max_element(overlap.begin(), overlap.end());
  return *most > 0 && 2 * *most >= end_ns - begin_ns ? static_cast<LinkClass>(most - overlap.begin())
                                                     : LinkClass::unknown;
}

}  // namespace xpurun::report
