#include "report/speed/ranks/stages.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

namespace xpurun::report {

namespace {

constexpr double kMostUnlike = 4;  // bytes in one direction over those in the other
constexpr size_t kToLower = 1;     // bits of a place
constexpr size_t kToHigher = 2;

// Indices of ranks.
struct Ends {
  std::optional<size_t> from;
  std::optional<size_t> to;
  double bytes = 0;
};

struct Crowd {
  std::vector<size_t> members;
  double bytes = 0;
};

using Links = std::map<std::pair<size_t, size_t>, double>;  // bytes, from and to

Links links_of(const JobSteps& job, std::vector<Crowd>& crowds) {
  std::map<uint64_t, Ends> messages;
  std::map<uint64_t, Crowd> collectives;
  for (size_t r = 0; r < job.ranks(); ++r) {
    for (const auto& [id, traffic] : job.rank(r).traffic) {
      if (traffic.message) {
        Ends& ends = messages[id];
        (traffic.sends ? ends.from : ends.to) = r;
        ends.bytes = std::max(ends.bytes, traffic.total_bytes());
      } else {
        collectives[id].members.push_back(r);
        collectives[id].bytes = std::max(collectives[id].bytes, traffic.total_bytes());
      }
    }
  }
  for (auto& [id, crowd] : collectives) {
    crowds.push_back(std::move(crowd));
  }
  Links out;
  for (const auto& [id, ends] : messages) {
    if (ends.from && ends.to && *ends.from != *ends.to) {
      out[{*ends.from, *ends.to}] += ends.bytes;
    }
  }
  return out;
}

bool reduce_more(const std::vector<Crowd>& crowds, size_t a, size_t b, double bytes) {
  return std::any_of(crowds.begin(), crowds.end(), [&](const Crowd& crowd) {
    const auto has = [&crowd](size_t r) {
      return std::binary_search(crowd.members.begin(), crowd.members.end(), r);
    };
    return crowd.bytes > bytes && has(a) && has(b);
  });
}

}  // namespace

std::vector<size_t> stages_of(const JobSteps& job) {
  std::vector<Crowd> crowds;
  const Links links = links_of(job, crowds);
  std::vector<size_t> out(job.ranks(), 0);
  for (const auto& [ends, there] : links) {
    const auto [a, b] = ends;
    const auto back = links.find({b, a});
    if (a > b || back == links.end() ||
        std::max(there, back->second) > kMostUnlike * std::min(there, back->second) ||
        reduce_more(crowds, a, b, there + back->second)) {
      continue;
    }
    out[a] |= kToHigher;
    out[b] |= kToLower;
  }
  return std::find(out.begin(), out.end(), size_t{0}) == out.end() ? out : std::vector<size_t>();
}

}  // namespace xpurun::report
