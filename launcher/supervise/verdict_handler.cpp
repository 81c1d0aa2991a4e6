#include "launcher/supervise/verdict_handler.h"

#include "common/base/strings.h"
#include "common/base/tr.h"
#include "common/model/evidence/source_record.h"
#include "launcher/notify/github_actions.h"
#include "launcher/output/journald.h"
#include "launcher/output/termination_message.h"
#include "report/diagnosis/diagnose.h"
#include "report/diagnosis/title.h"
#include "report/diagnosis/vocabulary.h"
#include "report/diagnosis/wording.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <unistd.h>

namespace xpurun::launcher {

using base::tr;

namespace {

constexpr size_t kMostSourceColumns = 100;

// False for a job that ended well, and for a job whose only process failed by itself: its own output has
// already said everything.
enum class EndText { nothing, sentence, with_evidence };

EndText end_text(const model::RunManifest& run, bool several_ranks) {
  using model::VerdictKind;
  const model::Verdict& v = run.verdict;
  // A stall that passed before the hang timeout was a pause.
  const bool stalls = std::any_of(run.stalls.begin(), run.stalls.end(),
                                  [](const model::Stall& s) { return !s.early && !report::was_no_hang(s); });
  if (stalls || v.kind == VerdictKind::hang || v.kind == VerdictKind::crash || v.kind == VerdictKind::slow) {
    return EndText::with_evidence;
  }
  if (v.id == report::kNoneRanksLeft) {
    return EndText::with_evidence;  // and how to end them
  }
  if (v.id == report::kNoneRequestsLeft || v.id == report::kNoneThreadRaised) {
    return EndText::sentence;
  }
  if (v.kind == VerdictKind::none &&
      (v.slow.present() || (v.id == report::kNoneFinished && !v.next.text.empty()))) {
    return EndText::sentence;
  }
  if (v.kind == VerdictKind::none || v.kind == VerdictKind::running) {
    return EndText::nothing;
  }
  if (several_ranks) {
    return EndText::with_evidence;
  }
  // Who presses Ctrl-C on a single command knows it, but not where the command stood still or what was slow.
  // A command that fails has told the rest itself.
  const bool stood = !v.ranks.empty() || !v.waiting.empty() || v.slow.present();
  return v.kind != VerdictKind::interrupted ? EndText::sentence
         : stood                            ? EndText::with_evidence
                                            : EndText::nothing;
}

// What a verdict says, without its times: every judgement of a lasting stall tells a longer time, which is no
// news.
std::string facts_of(const model::Verdict& v) {
  std::string out = fmt::format("{}|{}|{}|{}|{}|{}|{}:{}|{}|{}|{}", v.id, name_of(v.level), v.ranks.text(),
                                name_of(v.state), v.signal, v.exit_code, v.where.file, v.where.line,
                                v.where.function, v.exception.type, v.exception.message);
  for (const model::Waiting& waiting : v.waiting) {
    out += fmt::format("|{} {} {}", waiting.ranks.text(), waiting.what, waiting.where.function);
  }
  return out + fmt::format("|{} {}", v.collective.id, v.collective.sequence);
}

// A traceback among these lines has the line of source.
bool shows_line(const std::vector<std::string>& lines, const model::CodeLocation& where) {
  const std::string name = fmt::format("{}\", line {}, in ", base::base_name(where.file), where.line);
  return std::any_of(lines.begin(), lines.end(),
                     [&](const std::string& line) { return line.find(name) != std::string::npos; });
}

}  // namespace

void VerdictHandler::take(const ReportResult& result) {
  no_report_ = result.problem;
  place_ = result.place;
  unfinished_ = result.unfinished;
  const model::Verdict verdict = result.verdict ? *result.verdict : hooks_.diagnose();
  if (parts_.options.language != base::Language::english) {
    const base::Speaking speaking(parts_.options.language);
    spoken_for_ = result.verdict && !result.spoken ? std::string() : verdict.sentence;
    spoken_ = result.spoken ? *result.spoken : result.verdict ? model::Verdict() : hooks_.diagnose();
  }
  parts_.journal.manifest().verdict = verdict;
  if (verdict.kind == model::VerdictKind::hang) {
    take_hang(verdict);
  } else {
    for (model::Stall& stall : parts_.journal.manifest().stalls) {
      stall.pending = false;
    }
  }
  parts_.journal.save_now();
  if (owes_place_ && !unfinished_) {
    owes_place_ = false;
    if (verdict.sentence == last_said_ && !parts_.job.is_ending()) {
      say_place();
    }
  }
}

// A verdict of another node comes in English, with its fields, from which the sentence is made again.
model::Verdict VerdictHandler::spoken(const model::Verdict& verdict) const {
  if (parts_.options.language == base::Language::english) {
    return verdict;
  }
  if (verdict.sentence == spoken_for_) {
    return spoken_;
  }
  const base::Speaking speaking(parts_.options.language);
  model::Verdict out = verdict;
  out.sentence = report::sentence_of(verdict);
  return out;
}

// The ranks may have made progress since, or the job may have ended. The verdict still belongs to that stall.
void VerdictHandler::take_hang(const model::Verdict& verdict) {
  for (model::Stall& stall : parts_.journal.manifest().stalls) {
    if (stall.dump == verdict.dump) {
      stall.pending = false;
      const bool first = stall.verdict.kind != verdict.kind;
      if (stall.verdict.id != verdict.id || stall.verdict.level != verdict.level) {
        stall.verdict_s = parts_.journal.elapsed_s();
      }
      stall.verdict = verdict;
      hooks_.hang_found(stall);
      if (first && stall.cleared_s >= 0 && !parts_.job.is_recorded()) {
        announce(verdict, stall.n);
        say_progress_again(stall);
        hooks_.hang_passed(stall);
      }
    }
  }
  model::Stall* open = stall_of(verdict);
  if (open == nullptr || parts_.job.is_recorded()) {
    return;
  }
  publish(verdict);
  const bool act_on_it = must_act(*open) && verdict.level == model::VerdictLevel::confirmed;
  if (act_on_it && !hooks_.collecting_evidence()) {
    act(*open, verdict);
  } else {
    open->pending = act_on_it;  // the report that comes after the evidence is of this stall
    announce(verdict, open->n);
  }
}

// The open stall that the verdict is about.
model::Stall* VerdictHandler::stall_of(const model::Verdict& verdict) {
  auto& stalls = parts_.journal.manifest().stalls;
  const auto it = std::find_if(stalls.begin(), stalls.end(), [&](const model::Stall& s) {
    return s.cleared_s < 0 && !s.dump.empty() && s.dump == verdict.dump;
  });
  return it != stalls.end() ? &*it : parts_.journal.open_stall();
}

// Once for each finding, because every further report on a stall also gets here.
void VerdictHandler::publish(const model::Verdict& verdict) {
  if (std::string facts = facts_of(verdict); facts != published_) {
    published_ = std::move(facts);
    hooks_.publish(verdict);
  }
}

bool VerdictHandler::stall_ended(model::Stall& stall) {
  if (parts_.job.ended_by_us) {
    return false;  // ranks that are being ended move, too
  }
  stall.cleared_s = parts_.journal.elapsed_s();
  stall.pending = false;
  if (stall.action == model::HangAction::restart && stall.restarted_s < 0) {
    // The ranks were ended. The hang is over when they have been started again.
    parts_.journal.save_now();
    return false;
  }
  const model::Stall* other = parts_.journal.open_stall();
  model::Verdict& verdict = parts_.journal.manifest().verdict;
  verdict = other != nullptr ? other->verdict : model::Verdict();
  if (verdict.kind == model::VerdictKind::none) {
    verdict.kind = model::VerdictKind::running;
  }
  parts_.journal.save_now();
  say_progress_again(stall);
  hooks_.hang_passed(stall);
  return true;
}

void VerdictHandler::ranks_restarted() {
  model::RunManifest& run = parts_.journal.manifest();
  const auto found = std::find_if(run.stalls.rbegin(), run.stalls.rend(), [](const model::Stall& i) {
    return i.action == model::HangAction::restart && i.restarted_s < 0;
  });
  if (found == run.stalls.rend() || parts_.job.is_ending()) {
    return;
  }
  model::Stall& stall = *found;
  stall.restarted_s = parts_.journal.elapsed_s();
  if (stall.cleared_s < 0) {
    stall.cleared_s = stall.restarted_s;
  }
  run.verdict = {};
  run.verdict.kind = model::VerdictKind::running;
  parts_.journal.save_now();
  {
    const base::Speaking speaking(parts_.options.language);
    hooks_.say(tr("the launcher has restarted the ranks ({} after the stall was found)",
                  base::human_duration(stall.restarted_s - stall.at_s)));
  }
  announced_.clear();
  hooks_.hang_passed(stall);
}

void VerdictHandler::say_progress_again(const model::Stall& stall) {
  if (announced_.erase(stall.n) == 0 || parts_.job.is_ending()) {
    return;
  }
  const double since_s = stall.since_s < 0 ? stall.at_s - parts_.options.hang_timeout_s : stall.since_s;
  const base::Speaking speaking(parts_.options.language);
  hooks_.say(tr("progress again {}, after {}",
                report::moment_words(parts_.journal.manifest(), stall.cleared_s),
                base::human_duration(stall.cleared_s - since_s)));
}

// While the job is being ended, reports still come in. The end of the run prints the last of them.
void VerdictHandler::announce(const model::Verdict& verdict, int stall) {
  if (parts_.job.is_ending() || hooks_.was_interrupted() || verdict.sentence.empty()) {
    return;
  }
  const model::Stall* one = parts_.journal.stall(stall);
  const bool early = one != nullptr && one->early;
  if (early && announced_.contains(stall)) {
    return;  // one line: the verdict may follow
  }
  const bool ends_job = one != nullptr && one->pending && parts_.options.on_hang != OnHang::restart;
  if (early || ends_job) {
    say_sentence_once(verdict,
                      stall);  // the place of the report comes with the verdict, or with the job's end
  } else if (is_news(verdict, stall)) {
    report(verdict);
  }
}

// Whether the facts were not yet said of this stall; from now on they are.
bool VerdictHandler::is_news(const model::Verdict& verdict, int stall) {
  std::string facts = facts_of(verdict);
  const auto [known, first] = announced_.try_emplace(stall);
  if (!first && known->second == facts) {
    return false;
  }
  known->second = std::move(facts);
  return true;
}

void VerdictHandler::say_sentence_once(const model::Verdict& verdict, int stall) {
  if (is_news(verdict, stall)) {
    hooks_.say_sentence(spoken(verdict));
  }
}

void VerdictHandler::say_title_once(const model::Verdict& verdict, int stall) {
  model::Verdict title = spoken(verdict);
  title.sentence = report::sentence_lines(title).front();
  title.headline.clear();
  if (is_news(verdict, stall)) {
    hooks_.say_sentence(title);
  }
}

void VerdictHandler::report(const model::Verdict& verdict) {
  if (verdict.sentence.empty()) {
    return;
  }
  last_said_ = verdict.sentence;
  hooks_.say_sentence(spoken(verdict));
  say_place();
  hooks_.reported();
}

void VerdictHandler::say_place() {
  owes_place_ = unfinished_;
  if (unfinished_) {
    return;  // the page does not exist yet
  }
  const base::Speaking speaking(parts_.options.language);
  if (!no_report_.empty()) {
    hooks_.say(tr("no report: {}", no_report_));
  } else if (!place_.empty()) {
    hooks_.say(place_);
  } else {
    hooks_.say_report();
  }
}

bool VerdictHandler::must_act(const model::Stall& stall) const {
  // A proof raises a stall early.
  constexpr double kRoundingS = 0.05;
  const double stood_s = stall.since_s < 0 ? kForever : parts_.journal.elapsed_s() - stall.since_s;
  const double grace_s = std::min(parts_.options.proof_grace_s, parts_.options.hang_timeout_s);
  return parts_.options.on_hang != OnHang::report && stall.action == model::HangAction::none &&
         stood_s >= grace_s - kRoundingS && !parts_.job.ended_by_us && !hooks_.was_interrupted();
}

void VerdictHandler::act(model::Stall& stall, const model::Verdict& verdict) {
  if (parts_.options.on_hang != OnHang::restart) {
    // The sentence and the evidence are printed last, after all output of the dying job.
    say_title_once(verdict, stall.n);
    end_the_job(stall);
  } else if (const std::string refused = restart_refused(); !refused.empty()) {
    say_sentence_once(verdict, stall.n);
    const base::Speaking speaking(parts_.options.language);
    hooks_.say(tr("warning: the ranks are not restarted: {}", refused));
    end_the_job(stall);
  } else {
    announce(verdict, stall.n);
    restart(stall);
  }
}

std::string VerdictHandler::restart_refused() const {
  const int hangs = model::confirmed_hangs(parts_.journal.manifest());
  return hangs > parts_.options.max_hangs
             ? fmt::format("this is hang {} of the run (--max-hangs {})", hangs, parts_.options.max_hangs)
             : hooks_.restart_obstacle();
}

std::string VerdictHandler::how_processes_end() const {
  const double grace_s = parts_.options.grace_s;
  return grace_s >= kForever ? tr("TERM, no KILL (--grace none)")
                             : tr("TERM, {} grace, KILL", base::human_duration(grace_s));
}

void VerdictHandler::restart(model::Stall& stall) {
  {
    const base::Speaking speaking(parts_.options.language);
    hooks_.say(
        tr("ending the ranks, for the launcher to start them again (--on-hang restart, hang {} "
           "of at most {}): {}",
           model::confirmed_hangs(parts_.journal.manifest()), parts_.options.max_hangs, how_processes_end()));
  }
  stall.action = model::HangAction::restart;
  hooks_.restart_the_ranks();
}

void VerdictHandler::end_the_job() {
  model::Stall none;
  model::Stall* stall = parts_.journal.open_stall();
  end_the_job(stall != nullptr ? *stall : none);
}

void VerdictHandler::end_the_job(model::Stall& stall) {
  {
    const base::Speaking speaking(parts_.options.language);
    hooks_.say(tr("ending the job (--on-hang {}): {}",
                  parts_.options.on_hang == OnHang::restart ? "restart" : "kill", how_processes_end()));
  }
  stall.action = model::HangAction::kill;
  parts_.journal.manifest().outcome = model::RunOutcome::hang;
  hooks_.end_the_job();
}

// The command that shows the dump of a crash, from any directory; empty if there is another next step.
std::string VerdictHandler::stacks_command(const model::Verdict& verdict) const {
  const bool of_dump = verdict.kind == model::VerdictKind::crash && !verdict.dump.empty() &&
                       !verdict.next.text.empty() && verdict.next.command.empty() &&
                       verdict.next.text.ends_with(verdict.dump);
  if (!of_dump) {
    return "";
  }
  std::error_code ec;
  const auto dir = std::filesystem::absolute(parts_.journal.dir().path(), ec);
  return "xpurun stacks " + base::shell_quote((dir / verdict.dump).string());
}

// The line and its neighbours, as the report has kept them; empty if there is no report.
std::vector<std::string> VerdictHandler::source_lines(const model::CodeLocation& where) const {
  constexpr int kAround = 1;
  std::vector<std::string> out;
  const auto record = model::load_source_record(parts_.journal.dir().source_json());
  if (where.file.empty() || !record) {
    return out;
  }
  for (const model::SourceFile& file : record->files) {
    for (const model::SourceLine& line : file.lines) {
      const bool blank = line.text.find_first_not_of(" \t") == std::string::npos;
      if (!blank && file.file == where.file && std::abs(line.number - where.line) <= kAround) {
        out.push_back(fmt::format("{} {:>4}  {}", line.number == where.line ? '>' : ' ', line.number,
                                  base::elide_middle(base::sanitize(line.text), kMostSourceColumns)));
      }
    }
  }
  return out;
}

void VerdictHandler::print_end() {
  const model::RunManifest& run = parts_.journal.manifest();
  if (run.verdict.kind != model::VerdictKind::none && run.verdict.kind != model::VerdictKind::running) {
    publish(run.verdict);
  }
  // Without a report there is nothing to read, and the file system may not answer.
  const bool reported = parts_.options.report && no_report_.empty();
  tell_github(run.verdict, reported ? parts_.journal.dir().report_json() : std::string());
  const EndText text =
      parts_.options.attaches() ? EndText::with_evidence : end_text(run, hooks_.several_ranks());
  if (parts_.options.verbosity < 0 || text == EndText::nothing) {
    return;
  }
  report(run.verdict);
  if (text == EndText::sentence) {
    return;
  }
  model::Verdict words = spoken(run.verdict);
  const base::Speaking speaking(parts_.options.language);
  const std::string stacks = stacks_command(run.verdict);
  if (!stacks.empty()) {
    words.next = {};
  }
  const std::vector<std::string> evidence = report::evidence_lines(words, parts_.options.verbosity > 0);
  if (reported && !shows_line(evidence, run.verdict.where)) {
    for (const std::string& line : source_lines(run.verdict.where)) {
      hooks_.say("  " + line);
    }
  }
  for (const std::string& line : evidence) {
    hooks_.say("  " + line);
  }
  if (!stacks.empty()) {
    hooks_.say("  " + tr("next: {}", tr("see the C++ stack of the crashed thread: {}", stacks)));
  }
}

std::optional<Ink::Colour> colour_of(const model::Verdict& verdict) {
  switch (verdict.level) {
    case model::VerdictLevel::confirmed:
      return Ink::Colour::bad;
    case model::VerdictLevel::suspected:
      return Ink::Colour::doubtful;
    case model::VerdictLevel::none:
      break;
  }
  return std::nullopt;
}

void publish(const model::Verdict& verdict, const TerminationLog& log, const std::string& directory) {
  const bool in_kubernetes = std::getenv("KUBERNETES_SERVICE_HOST") != nullptr;
  if (const std::string path = log.path(in_kubernetes); !path.empty()) {
    write_termination_message(path, termination_message(verdict));
  }
  if (logs_to_journal(std::getenv("JOURNAL_STREAM"), STDERR_FILENO)) {
    send_to_journal(journal_entry(verdict, directory));
  }
}

}  // namespace xpurun::launcher
