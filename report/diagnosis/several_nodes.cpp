#include "report/diagnosis/several_nodes.h"

#include "common/base/strings.h"
#include "common/base/tr.h"
#include "report/diagnosis/ends/exceptions.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace xpurun::report {

using base::tr;
using model::Confidence;
using model::RankSet;
using model::RunNode;
using model::Verdict;

namespace {

constexpr size_t kMostGaps = 4;  // lines of evidence

bool are_alike(const Ending& a, const Ending& b) {
  return a.signal == b.signal && a.exit_code == b.exit_code && is_alike(a.exception, b.exception);
}

}  // namespace

std::vector<const Ending*> rivals_of(const Scene& scene, const Ending& root) {
  std::vector<const Ending*> out;
  const model::RunManifest& run = scene.facts.run;
  if (run.nodes.size() < 2) {
    return out;
  }
  const auto current = current_ranks(run);
  for (const Ending& e : scene.endings) {
    const bool counts = e.process->node != root.process->node && !e.follower && e.failed() && !e.silent &&
                        std::find(current.begin(), current.end(), e.process) != current.end();
    // A failure in a call that waits for other ranks may be caused by them.
    if (counts && (!e.in_wait || root.in_wait) && !are_alike(e, root) &&
        std::abs(e.at_s - root.at_s) <= order_uncertainty_s(run, e, root)) {
      out.push_back(&e);
    }
  }
  return root.silent ? std::vector<const Ending*>() : out;
}

void tell_tie(const Scene& scene, const Ending& root, Verdict& verdict) {
  const std::vector<const Ending*> rivals = rivals_of(scene, root);
  if (rivals.empty()) {
    return;
  }
  const model::RunManifest& run = scene.facts.run;
  const Ending& first = *rivals.front();
  RankSet ranks;
  for (const Ending* e : rivals) {
    ranks.insert(e->process->rank);
  }
  verdict.ranks.insert(ranks);
  verdict.confidence = Confidence::low;
  const bool compared =
      run.nodes[first.process->node].clock_known && run.nodes[root.process->node].clock_known;
  const std::string clocks =
      compared ? tr("agree only to {}", base::human_duration(order_uncertainty_s(run, first, root)))
               : tr("were not compared");
  const std::string others = rivals.size() > 1 ? tr(", as did {} more", rivals.size() - 1) : std::string();
  say(verdict, tr("{}; {} {}{} at about the same time, and the clocks of the hosts {}: it is not known which "
                  "failed first",
                  verdict.headline, scene.names({first.process->rank}), how_it_ended(first), others, clocks));
}

void tell_unheard(const Scene& scene, const Ending& root, Verdict& verdict) {
  if (!root.in_wait) {
    return;
  }
  RankSet ranks;
  std::vector<const RunNode*> nodes;
  for (const RunNode& node : scene.facts.run.nodes) {
    if (!node.answered && !node.ranks.empty()) {
      ranks.insert(node.ranks);
      nodes.push_back(&node);
    }
  }
  if (nodes.empty()) {
    return;
  }
  const std::string words = nodes.size() == 1
                                ? tr("{} (host {})", rank_words(ranks), base::sanitize(nodes.front()->host))
                                : rank_words(ranks);
  verdict.ranks.insert(ranks);
  verdict.confidence = Confidence::low;
  say(verdict, tr("{}; nothing is known about {}, which may have failed first", verdict.headline, words));
  verdict.next = {};
  verdict.next.text = tr("find out why no data came from {}", words);
}

void add_gaps(const Scene& scene, std::vector<std::string>& out) {
  const auto gaps = scene.gaps();
  for (size_t i = 0; i < std::min(gaps.size(), kMostGaps); ++i) {
    const RunNode& node = *gaps[i];
    out.push_back(node.ranks.empty() ? base::sanitize(node.gap)
                                     : tr("{}: {}", base::sanitize(node.gap), rank_words(node.ranks)));
  }
  if (gaps.size() > kMostGaps) {
    RankSet ranks;
    for (size_t i = kMostGaps; i < gaps.size(); ++i) {
      ranks.insert(gaps[i]->ranks);
    }
    out.push_back(tr("and the data of {} more nodes is missing: {}", gaps.size() - kMostGaps,
                     ranks.empty() ? tr("ranks unknown") : rank_words(ranks)));
  }
}

void doubt_gaps(const Scene& scene, Verdict& verdict) {
  const bool accuses_them = !verdict.ranks.empty() && scene.unheard().contains(verdict.ranks);
  if (scene.gaps().empty() || accuses_them) {
    return;
  }
  if (verdict.confidence == Confidence::high) {
    verdict.confidence = Confidence::medium;
  } else if (verdict.confidence == Confidence::medium) {
    verdict.confidence = Confidence::low;
  }
}

void name_hosts(const Scene& scene, Verdict& verdict) {
  if (scene.facts.run.nodes.size() < 2) {
    return;
  }
  std::map<std::string, RankSet> hosts;
  for (const RankView& v : scene.ranks) {
    if (verdict.ranks.contains(v.rank) && !v.host.empty()) {
      hosts[v.host].insert(v.rank);
    }
  }
  for (auto& [host, ranks] : hosts) {
    verdict.hosts.push_back({.host = host, .ranks = std::move(ranks)});
  }
  std::stable_sort(verdict.hosts.begin(), verdict.hosts.end(),
                   [](const auto& a, const auto& b) { return a.ranks.lowest() < b.ranks.lowest(); });
  model::NextStep& next = verdict.next;
  if (!next.command.empty() && !verdict.host.empty() && verdict.host != scene.facts.run.host) {
    next.text += tr("{}on host {}", next.text.empty() ? "" : tr(", "), base::sanitize(verdict.host));
  }
}

std::optional<Verdict> verdict_of_job(const model::RunManifest& run) {
  const bool is_final =
      run.verdict.kind != model::VerdictKind::none && run.verdict.kind != model::VerdictKind::running;
  if (run.nodes.size() > 1 || run.job_report_host.empty() || run.verdict.sentence.empty() || !is_final) {
    return std::nullopt;
  }
  return run.verdict;
}

bool is_culprit_elsewhere(const model::RunManifest& run, const Verdict& verdict) {
  const bool several = run.nodes.size() > 1 || !run.job_report_host.empty();
  return several && !verdict.host.empty() && verdict.host != run.host;
}

}  // namespace xpurun::report
