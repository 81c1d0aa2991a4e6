#include "report/diagnosis/diagnose.h"

#include "common/base/clock.h"
#include "common/base/line_breaks.h"
#include "common/base/os/wait_status.h"
#include "common/base/strings.h"
#include "common/base/tr.h"
#include "common/model/language/vocabulary_words.h"
#include "report/diagnosis/rule.h"
#include "report/diagnosis/several_nodes.h"
#include "report/diagnosis/title.h"

#include <algorithm>

namespace xpurun::report {

using base::tr;
using model::RunManifest;
using model::Verdict;
using model::word_of;

namespace {

constexpr Rule kRules[] = {
    not_started,         // nothing ran
    interrupted,         // the user ended the run, perhaps because it hung
    looked_at,           // the user has asked where the job stands
    computed_wrongly,    // all ranks exited cleanly
    left_running,        // not all of them
    was_slow,            // likewise
    finished,            // likewise
    hung,                // ended by xpurun, still lasting, or the cause of later failures
    failed_by_mismatch,  // before the failures that it caused
    met_other_call,      // likewise, where the calls were not recorded
    gave_up_first,       // before the rank that waited
    left_early,          // before the failures that it caused
    timed_out,           // by timeout(1), while a rank stood still
    launcher_ended,      // before any rank
    watch_ended,         // unless a process is known to have failed
    gave_up_unrecorded,  // the same
    rank_failed,         //
    command_failed,      // no rank known
    still_running,       //
};

constexpr size_t kMostEvidence = 10;  // lines
constexpr size_t kLongestWord = 106;  // columns

// A single name that is too long loses its middle.
std::string shortened(std::string_view text) {
  std::string line;
  for (const std::string_view word : base::split(text, ' ')) {
    line += line.empty() ? "" : " ";
    for (const std::string_view part : base::unbreakable_parts(word)) {
      line += base::elide_middle(part, kLongestWord);
    }
  }
  return line;
}

// The begin of the culprits' state, or the time of their death.
std::string since_of(const Scene& scene, const Verdict& v) {
  double at_s = -1;
  switch (v.kind) {
    case model::VerdictKind::slow:
      return v.slow.since;
    case model::VerdictKind::crash:
    case model::VerdictKind::exception:
    case model::VerdictKind::exit:
      at_s = v.seconds;
      break;
    case model::VerdictKind::hang:
    case model::VerdictKind::interrupted:
      if (v.slow.present()) {
        return v.slow.since;
      }
      at_s = v.ranks.empty() ? -1 : scene.dump_at_s() - v.seconds;
      break;
    default:
      break;
  }
  const bool known = knows_clock(scene.facts.run, at_s);
  return known ? base::utc_iso8601(scene.facts.run.started_wall_ns + base::s_to_ns(at_s)) : std::string();
}

// Of a job whose launcher has restarted the ranks.
void name_attempt(const Scene& scene, Verdict& verdict) {
  const int n = attempts(scene.facts.run);
  if (n > 1 && !verdict.headline.empty()) {
    say(verdict, tr("{}; this was attempt {} of the ranks", verdict.headline, n));
  }
}

}  // namespace

Verdict diagnose(const Facts& facts) {
  const Scene scene(facts);
  Verdict verdict;
  for (const Rule rule : kRules) {
    if (auto v = rule(scene)) {
      verdict = std::move(*v);
      break;
    }
  }
  name_attempt(scene, verdict);
  name_left(scene, verdict);
  add_calls(scene, verdict);
  doubt_gaps(scene, verdict);
  name_hosts(scene, verdict);
  add_evidence(scene, verdict);
  verdict.since = since_of(scene, verdict);
  // A rule may have set the words before the place.
  verdict.title = verdict.title.empty() ? title_of(verdict) : title_with(verdict, verdict.title);
  return verdict;
}

Verdict diagnose_in(base::Language language, const Facts& facts, const Verdict& english) {
  if (language == base::Language::english) {
    return english;
  }
  const base::Speaking speaking(language);
  Verdict out = diagnose(facts);
  // Words decide some ties between groups of ranks, so that a diagnosis in another language may reach another
  // verdict.
  if (out.id != english.id || !(out.ranks == english.ranks)) {
    out = english;
    out.sentence = sentence_of(english);
    out.headline.clear();
    out.title = title_of(out);
  }
  return out;
}

std::string dump_that_matters(const RunManifest& run) {
  if (const model::Stall* stall = stall_that_matters(run)) {
    return stall->dump;
  }
  if (run.outcome == model::RunOutcome::exit && run.child_status.succeeded()) {
    return {};
  }
  Facts facts;
  facts.run = run;
  const Scene scene(facts);
  const Ending* root = scene.root_failure();
  if (root != nullptr && root->notice != nullptr && !root->notice->dump.empty()) {
    return root->notice->dump;
  }
  // A dump of the other ranks at the time of a death shows which rank waited for which.
  const auto first = [&](auto fits) {
    const auto found = std::find_if(run.dumps.begin(), run.dumps.end(),
                                    [&](const model::DumpRecord& d) { return root != nullptr && fits(d); });
    return found == run.dumps.end() ? std::string() : found->dir;
  };
  std::string after = first([&](const model::DumpRecord& d) {
    return (d.why == model::DumpReason::death || d.why == model::DumpReason::crash) &&
           d.at_s + 1 >= root->at_s;
  });
  // A rank that has raised may need so long to end that the others are dumped for their stillness before.
  after = after.empty() ? first([&](const model::DumpRecord& d) {
    return d.why == model::DumpReason::hang && d.at_s >= root->at_s;
  })
                        : after;
  if (!after.empty()) {
    return after;
  }
  const bool fresh = run.outcome == model::RunOutcome::running && run.stalls.empty() && !run.dumps.empty();
  return fresh && run.dumps.back().why == model::DumpReason::hang ? run.dumps.back().dir : std::string();
}

std::vector<std::string> evidence_lines(const Verdict& verdict, bool details) {
  std::vector<std::string> lines;
  for (size_t i = 0; details && i < std::min(verdict.details.size(), kMostEvidence); ++i) {
    lines.push_back(shortened(base::sanitize(verdict.details[i])));
  }
  for (const std::string& evidence : verdict.evidence) {
    if (lines.size() >= kMostEvidence) {
      break;
    }
    lines.push_back(shortened(base::sanitize(evidence)));
  }
  if (!verdict.next.empty()) {
    lines.push_back(tr("next: {}", shortened(base::sanitize(verdict.next.line()))));
  }
  return lines;
}

std::string sentence_of(const RunManifest& run) {
  const base::Language language = base::spoken();
  if (language == base::Language::english || run.verdict.sentence.empty()) {
    return run.verdict.sentence;
  }
  Facts facts;
  facts.run = run;
  return diagnose_in(language, facts, run.verdict).sentence;
}

std::string sentence_of(const Verdict& v) {
  if (base::spoken() == base::Language::english || v.kind == model::VerdictKind::none ||
      v.kind == model::VerdictKind::running || v.sentence.empty()) {
    return v.sentence;
  }
  std::string out = v.ranks.empty() ? tr("the job") : rank_words(v.ranks);
  if (v.signal != 0) {
    out += tr(" ended by {}", base::signal_name(v.signal));
  } else if (v.exit_code >= 0) {
    out += tr(" exited with status {}", v.exit_code);
  } else if (v.state != RankState::none) {
    out += tr(" {}", word_of(v.state));
  }
  if (!v.where.function.empty()) {
    out += tr(", in {}", place(v.where));
  }
  if (v.kind == model::VerdictKind::slow && v.slow.present()) {
    out += tr(" costs {:.0f} % of each step", 100 * v.slow.share);
  }
  if (v.kind == model::VerdictKind::hang) {
    out += tr(" for {}", seconds_words(v.seconds));
  }
  if (!v.waiting.empty()) {
    out += tr("; ") + waiting_clause(v.waiting, v.ranks.size());
  }
  return tr("{}: {}", tr(heading_word(v)), out);
}

}  // namespace xpurun::report
