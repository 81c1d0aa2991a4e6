// Ranks that were alive when the command had ended: xpurun neither waits for them nor ends them.
#include "common/base/strings.h"
#include "common/base/tr.h"
#include "report/diagnosis/rule.h"
#include "report/diagnosis/vocabulary.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace xpurun::report {

using base::tr;
using model::ProcessRecord;
using model::RankSet;
using model::Verdict;

namespace {

constexpr size_t kMostPids = 8;  // in the sentence

std::vector<const ProcessRecord*> left_ranks(const Scene& scene) {
  std::vector<const ProcessRecord*> out;
  for (const ProcessRecord* p : current_ranks(scene.facts.run)) {
    if (p->left) {
      out.push_back(p);
    }
  }
  return out;
}

RankSet ranks_of_processes(const std::vector<const ProcessRecord*>& processes) {
  RankSet out;
  for (const ProcessRecord* p : processes) {
    out.insert(p->rank);
  }
  return out;
}

// "4711, 4712"; of many processes the first ones.
std::string pids_of(const std::vector<const ProcessRecord*>& processes, std::string_view between) {
  std::string out;
  for (size_t i = 0; i < std::min(processes.size(), kMostPids); ++i) {
    out += fmt::format("{}{}", i == 0 ? "" : between, processes[i]->pid);
  }
  return out;
}

// "ranks 0-1 go on (pid 4711, 4712: python3 train.py), and xpurun neither waits for them nor ends them"
std::string left_words(const Scene& scene, const std::vector<const ProcessRecord*>& left) {
  const std::string pids = pids_of(left, ", ") + (left.size() > kMostPids ? tr(", ...") : "");
  std::vector<std::string> words;
  for (const std::string& word : left.front()->cmdline) {
    words.push_back(base::sanitize(word));
  }
  const std::string command = base::elide_middle(base::join(words, " "), 60);
  const std::string who = scene.names(ranks_of_processes(left));
  return left.size() == 1
             ? tr("{} goes on (pid {}: {}), and xpurun neither waits for it nor ends it", who, pids, command)
             : tr("{} go on (pid {}: {}), and xpurun neither waits for them nor ends them", who, pids,
                  command);
}

}  // namespace

std::optional<Verdict> left_running(const Scene& scene) {
  const model::RunManifest& run = scene.facts.run;
  const std::vector<const ProcessRecord*> left = left_ranks(scene);
  const Ending* failure = scene.root_failure();
  if (left.empty() || run.outcome != model::RunOutcome::exit || !run.child_status.succeeded() ||
      (failure != nullptr && failure->known)) {
    return std::nullopt;
  }
  Verdict v{.id = std::string(kNoneRanksLeft),
            .kind = model::VerdictKind::none,
            .confidence = model::Confidence::high};
  v.ranks = ranks_of_processes(left);
  v.host = host_of(run, left.front()->node);
  v.pid = left.front()->pid;
  v.where = left.front()->place;
  v.seconds = run.elapsed_s;
  say(v, tr("the command ended with status 0 after {}, while {}", base::human_duration(run.elapsed_s),
            left_words(scene, left)));
  v.next = {.text = tr("let the command wait for its ranks (in a shell script: wait), or end them"),
            .command = "kill " + pids_of(left, " ")};
  return v;
}

void name_left(const Scene& scene, Verdict& verdict) {
  const std::vector<const ProcessRecord*> left = left_ranks(scene);
  if (!left.empty() && verdict.id != kNoneRanksLeft && !verdict.headline.empty()) {
    say(verdict, tr("{}; {}", verdict.headline, left_words(scene, left)));
  }
}

}  // namespace xpurun::report
