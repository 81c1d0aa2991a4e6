#include "launcher/evidence/evidence_request.h"

#include "common/base/strings.h"

#include <fmt/format.h>

namespace xpurun::launcher {

std::vector<std::string> evidence_words(const EvidenceRequest& request) {
  std::vector<std::string> out{std::string(kEvidenceRole),
                               request.directory,
                               fmt::format("{}", static_cast<int64_t>(request.limit_s * 1000)),
                               fmt::format("{}", request.since_us),
                               request.nvml,
                               request.kernel_only ? "kernel" : "all"};
  for (const FlightRank& rank : request.ranks) {
    out.push_back(fmt::format("{}:{}", rank.rank, rank.pid));
  }
  return out;
}

base::Result<EvidenceRequest> parse_evidence_words(const std::vector<std::string>& words) {
  const auto limit_ms = words.size() > 2 ? base::parse_int(words[2]) : std::nullopt;
  const auto since_us = words.size() > 3 ? base::parse_int(words[3]) : std::nullopt;
  if (words.size() < 6 || words[0] != kEvidenceRole || !limit_ms || *limit_ms < 0 || !since_us ||
      *since_us < 0) {
    return base::fail("wrong words for the evidence helper");
  }
  EvidenceRequest out{.directory = words[1],
                      .ranks = {},
                      .limit_s = static_cast<double>(*limit_ms) / 1000,
                      .since_us = static_cast<uint64_t>(*since_us),
                      .nvml = words[4],
                      .kernel_only = words[5] == "kernel"};
  for (size_t i = 6; i < words.size(); ++i) {
    const auto parts = base::split(words[i], ':');
    const auto rank = base::parse_int(parts[0]);
    const auto pid = parts.size() == 2 ? base::parse_int(parts[1]) : std::nullopt;
    if (!rank || !pid || *rank < 0 || *pid <= 0 || *pid > (1 << 22)) {
      return base::fail(fmt::format("'{}' is not a rank with its pid", words[i]));
    }
    out.ranks.push_back({.rank = static_cast<base::Rank>(*rank), .pid = static_cast<base::Pid>(*pid)});
  }
  return out;
}

}  // namespace xpurun::launcher
