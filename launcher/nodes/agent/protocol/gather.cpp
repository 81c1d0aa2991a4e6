#include "launcher/nodes/agent/protocol/gather.h"

#include "common/base/hash.h"
#include "launcher/nodes/node_limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

namespace xpurun::nodes {

using namespace launcher;
using base::MonoNs;
using base::s_to_ns;

namespace {

constexpr int kMostBroken = 2;

// The bytes of one archive that may be under way at a time.
int64_t most_on_the_way(const Offer& offer) {
  return static_cast<int64_t>(std::min<uint64_t>(offer.size, kChunksOnTheWay * offer.chunk));
}

}  // namespace

Gather::Gather(DumpCall call, double timeout_s, MonoNs now)
    : call_(std::move(call)), deadline_(now + s_to_ns(timeout_s)), timeout_s_(timeout_s) {}

void Gather::count(const Node& n, int sign) {
  const bool here = n.stage == Stage::coming || n.stage == Stage::unpacking;
  lacking_ += !n.own && n.waits && n.stage == Stage::owed ? sign : 0;
  open_ += n.stage != Stage::done && (n.waits || n.stage == Stage::unpacking) ? sign : 0;
  under_way_ += here ? sign : 0;
  under_way_bytes_ += here ? sign * static_cast<int64_t>(n.offer.size) : 0;
  on_the_way_bytes_ += n.stage == Stage::coming ? sign * most_on_the_way(n.offer) : 0;
}

void Gather::set_stage(Node& n, Stage stage) {
  count(n, -1);
  n.stage = stage;
  count(n, 1);
}

void Gather::set_waits(Node& n, bool waits) {
  count(n, -1);
  n.waits = waits;
  count(n, 1);
}

void Gather::expect(GatheredNode node, bool waits) {
  node.status = waits ? NodeStatus::silent : NodeStatus::cut_off;
  if (node.node.empty()) {
    never_seen_.push_back(std::move(node));
    return;
  }
  Node& n = nodes_[node.node];
  n.out = std::move(node);
  n.waits = waits;
  count(n, 1);
}

void Gather::expect_ended(GatheredNode node) {
  Node& n = nodes_[node.node];
  n.out = std::move(node);
  n.out.status = NodeStatus::partial;
  n.waits = false;
  n.stage = Stage::done;
  count(n, 1);
}

void Gather::expect_own(GatheredNode node) {
  Node& n = nodes_[node.node];
  n.out = std::move(node);
  n.out.status = NodeStatus::silent;
  n.out.reason = "its own dump is not done";
  n.own = true;
  count(n, 1);
}

void Gather::own_dumped(const DumpedMessage& dumped) {
  for (auto& [name, n] : nodes_) {
    if (n.own) {
      set_stage(n, Stage::done);
      n.out.status = dumped.status == DumpOutcome::complete ? NodeStatus::complete : NodeStatus::partial;
      n.out.reason = dumped.reason;
      n.out.dump = dumped.directory;
    }
  }
}

void Gather::set_alive(const std::string& node, bool alive) {
  const auto found = nodes_.find(node);
  if (found != nodes_.end() && !found->second.own) {
    set_waits(found->second, alive);
  }
}

void Gather::set_clock(const std::string& node, int64_t offset_ns, int64_t uncertainty_ns) {
  if (const auto found = nodes_.find(node); found != nodes_.end() && !found->second.own) {
    found->second.out.offset_ns = offset_ns;
    found->second.out.uncertainty_ns = uncertainty_ns;
  }
}

bool Gather::offered(const std::string& node, const Offer& offer) {
  const auto found = nodes_.find(node);
  if (found == nodes_.end() || offer.request != call_.request || found->second.own) {
    return false;
  }
  Node& n = found->second;
  set_waits(n, true);
  if (n.stage != Stage::owed) {
    return true;
  }
  set_stage(n, Stage::offered);
  n.offer = offer;
  n.out.dump = offer.directory;
  offered_.push_back(node);
  return true;
}

void Gather::start_over(Node& n) {
  n.bytes.assign(n.offer.size, '\0');
  n.here.assign(n.offer.chunks(), false);
  n.missing = n.offer.chunks();
  n.first_missing = 0;
  n.asked.clear();
}

void Gather::start_downloads() {
  constexpr auto kMost = static_cast<int64_t>(kMostDownloads);
  for (auto next = offered_.begin(); next != offered_.end() && under_way_ < kMost;) {
    Node& n = nodes_[*next];
    const int64_t bytes = under_way_bytes_ + static_cast<int64_t>(n.offer.size);
    const bool too_much = bytes > static_cast<int64_t>(kMostDownloadBytes) ||
                          on_the_way_bytes_ + most_on_the_way(n.offer) > int64_t{kMostOnTheWayBytes};
    if (under_way_ > 0 && too_much) {
      ++next;
      continue;
    }
    set_stage(n, Stage::coming);
    start_over(n);
    coming_.insert(*next);
    next = offered_.erase(next);
  }
}

Want Gather::want_of(Node& n, MonoNs now) {
  Want want{.request = call_.request};
  for (auto& [number, when] : n.asked) {
    if (now - when >= s_to_ns(kChunkTimeoutS)) {
      want.numbers.push_back(number);
      when = now;
    }
  }
  for (uint64_t number = n.first_missing; number < n.here.size() && n.asked.size() < kChunksOnTheWay;
       ++number) {
    if (!n.here[number] && n.asked.emplace(number, now).second) {
      want.numbers.push_back(number);
    }
  }
  return want;
}

std::vector<std::pair<std::string, Want>> Gather::wants(MonoNs now) {
  start_downloads();
  std::vector<std::pair<std::string, Want>> out;
  for (const std::string& name : coming_) {
    if (Want want = want_of(nodes_[name], now); !want.numbers.empty()) {
      out.emplace_back(name, std::move(want));
    }
  }
  return out;
}

bool Gather::received(const std::string& node, const Part& part, MonoNs /*now*/) {
  const auto found = nodes_.find(node);
  if (found == nodes_.end() || part.request != call_.request) {
    return false;
  }
  Node& n = found->second;
  if (n.stage != Stage::coming) {
    return n.stage == Stage::unpacking || n.stage == Stage::done;
  }
  if (part.number >= n.here.size()) {
    return false;
  }
  const size_t at = part.number * n.offer.chunk;
  if (part.bytes.size() != std::min<size_t>(n.offer.chunk, n.bytes.size() - at)) {
    return false;
  }
  n.asked.erase(part.number);
  if (n.here[part.number]) {
    return true;
  }
  n.bytes.replace(at, part.bytes.size(), part.bytes);
  n.here[part.number] = true;
  --n.missing;
  while (n.first_missing < n.here.size() && n.here[n.first_missing]) {
    ++n.first_missing;
  }
  return true;
}

std::optional<Gather::Archive> Gather::take_complete() {
  for (auto next = coming_.begin(); next != coming_.end();) {
    const std::string name = *next++;
    Node& n = nodes_[name];
    if (n.missing > 0) {
      continue;
    }
    if (base::hash_text(n.bytes) == n.offer.hash) {
      set_stage(n, Stage::unpacking);
      coming_.erase(name);
      return Archive{.node = name, .bytes = std::move(n.bytes)};
    }
    if (++n.broken < kMostBroken) {
      start_over(n);
    } else {
      unpacked(name, "", "its archive does not match its hash");
    }
  }
  return std::nullopt;
}

void Gather::unpacked(const std::string& node, const std::string& directory, const std::string& error) {
  const auto found = nodes_.find(node);
  if (found == nodes_.end()) {
    return;
  }
  Node& n = found->second;
  set_stage(n, Stage::done);
  coming_.erase(node);
  n.bytes = std::string();
  n.out.directory = directory;
  const bool whole = error.empty() && n.offer.status == DumpOutcome::complete;
  n.out.status = whole ? NodeStatus::complete : NodeStatus::partial;
  n.out.reason = error.empty() ? n.offer.reason : error;
}

bool Gather::done_with(const std::string& node) const {
  const auto found = nodes_.find(node);
  return found == nodes_.end() || found->second.stage == Stage::unpacking ||
         found->second.stage == Stage::done;
}

uint64_t Gather::archive_bytes() const {
  uint64_t out = 0;
  for (const auto& [name, n] : nodes_) {
    out += n.out.directory.empty() ? 0 : n.offer.size;
  }
  return out;
}

std::string Gather::dump_of(const std::string& node) const {
  const auto found = nodes_.find(node);
  return found == nodes_.end() ? std::string() : found->second.out.dump;
}

GatheredMessage Gather::result() const {
  GatheredMessage out{.request = call_.request, .nodes = never_seen_};
  for (const auto& [name, n] : nodes_) {
    GatheredNode& node = out.nodes.emplace_back(n.out);
    if (n.stage == Stage::done || n.own) {
      continue;
    }
    node.status = n.waits ? NodeStatus::silent : NodeStatus::cut_off;
    if (n.stage == Stage::unpacking) {
      node.reason = "its archive came too late";
    } else if (n.stage == Stage::coming && n.missing < n.here.size()) {
      node.reason = fmt::format("{} of {} chunks came", n.here.size() - n.missing, n.here.size());
    } else if (node.reason.empty()) {
      node.reason = n.waits ? fmt::format("no answer for {:.0f} s", timeout_s_) : "no word from the node";
    }
  }
  std::sort(out.nodes.begin(), out.nodes.end(), [](const GatheredNode& a, const GatheredNode& b) {
    return std::tie(a.node_rank, a.node) < std::tie(b.node_rank, b.node);
  });
  return out;
}

}  // namespace xpurun::nodes
