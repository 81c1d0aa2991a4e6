#include "report/speed/judge.h"

#include "common/base/tr.h"
#include "report/speed/job_table.h"
#include "report/speed/levels.h"
#include "report/speed/patterns.h"
#include "report/speed/pictures.h"
#include "report/speed/primitives/statistics.h"
#include "report/speed/ranks/causes.h"
#include "report/speed/ranks/launches.h"
#include "report/speed/ranks/rank_shift.h"
#include "report/speed/ranks/stage_pauses.h"
#include "report/speed/ranks/stages.h"
#include "report/speed/wording.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>
#include <utility>

namespace xpurun::report {

namespace {

using model::Confidence;
using model::SlowCause;
using model::SpeedProblem;

constexpr double kLeastWaste = 0.05;  // share of a step that a cause on all ranks may cost
constexpr double kLeastInput = 0.10;
constexpr double kLeastPause = 0.01;  // of the time, by ranks that need longer for a checkpoint
constexpr double kOwnFault = 0.5;     // of a change that slow ranks explain
constexpr double kMostOfIt = 0.8;
constexpr size_t kLeastStepsAfter = 20;
constexpr size_t kWellKnown = 12;     // steps with known waits, for a certain blame
constexpr size_t kFewKnown = 4;       // steps with known waits
constexpr double kMostApart = 0.05;   // of a step: own time and waits are the step
constexpr double kLeastSpell = 0.10;  // slower than before and after
constexpr size_t kMostSpells = 5;

Confidence lower(Confidence a, Confidence b) {
  return std::min(a, b);
}

model::RankSet set_of(const JobSteps& job, const std::vector<size_t>& ranks) {
  std::vector<base::Rank> numbers;
  for (const size_t r : ranks) {
    numbers.push_back(job.rank(r).rank);
  }
  return model::RankSet::of(numbers);
}

class Judge {
 public:
  Judge(JobSteps& job, model::SpeedReport& out, const std::vector<double>& seconds,
        const std::vector<size_t>& usual, const ChangeSettings& settings, base::Language language)
      : job_(job),
        out_(out),
        seconds_(seconds),
        usual_(usual),
        own_(job, out.waits_measured),
        settings_(settings),
        language_(language) {
    for (size_t r = 0; r < job.ranks(); ++r) {
      hosts_.push_back(job.rank(r).host);
    }
  }

  void judge() {
    window_ = current_window(out_, job_.steps());
    stages_ = stages_of(job_);
    pass_over_pauses();
    measured_steps_ = known_steps(own_, window_);
    if (out_.waits_measured && measured_steps_ < std::min(kLeastKnown, window_.size())) {
      // What cannot be a wait, such as garbage collection, is known without the collectives.
      own_ = OwnTimes(job_, false);
      pass_over_pauses();
      inferred_ = true;
    }
    const StepWindow earlier = earlier_level();
    level_stages(earlier);
    int64_t since = -1;
    auto blame = job_.synchronous() ? blame_now(since) : std::nullopt;
    if (!blame && levelled_ && earlier.size() == 0) {
      blame = blame_for_its_host();
    }
    if (inferred_ && !blame) {
      own_ = OwnTimes(job_, true);
      pass_over_pauses();
      level_stages(earlier);
    }
    const auto steps = std::span(seconds_).subspan(window_.first, window_.size());
    out_.step_s = usual_seconds(steps);
    if (!out_.changes.empty() && static_cast<int64_t>(window_.first) >= out_.changes.back().step) {
      model::StepChange& latest =
          out_.changes.back();  // all steps since the change count, not only the steps that proved it
      latest.after_s = out_.step_s;
      latest.share = latest.after_s / latest.before_s - 1;
    }
    mean_step_s_ = mean_seconds();
    means_ = rank_means(job_, own_, window_);
    check_sums();
    compare_note(blame.has_value());
    out_.what_if = what_if(job_, own_, window_, kLeastBlame / 4);
    const auto slow = slowdown_of(out_.changes, job_.steps(), out_.step_s, settings_.least_share);
    if (blame) {
      add_slow_ranks(*blame, slow, since);
    }
    if (slow) {
      add_slowdown(*slow, blame);
    }
    if (!blame) {
      add_causes();
      add_lost_cpu();
    }
    add_spells();
    if (!blame) {
      add_pattern();
    }
    out_.launches = rank_launches(job_, window_);
    add_pauses();
    for (model::SpeedFinding& f : out_.findings) {
      f.since_wall_ns = begin_of(f.since);
    }
    std::stable_sort(out_.findings.begin(), out_.findings.end(), [](const auto& a, const auto& b) {
      return std::tuple(b.severity, a.problem, b.share) < std::tuple(a.severity, b.problem, a.share);
    });
    put_ranks();
    out_.heat = heat_map(job_, own_);
  }

 private:
  Confidence certainty() const {
    const bool gpu = !on_cpus(job_);
    bool cpu = true;
    for (size_t r = 0; r < job_.ranks(); ++r) {
      cpu = cpu && job_.rank(r).cpu_known;
    }
    const bool well_known = measured_steps_ >= std::min(kWellKnown, window_.size());
    const Confidence waits = out_.waits_measured && !inferred_
                                 ? (well_known ? Confidence::high : Confidence::medium)
                             : cpu && !gpu ? Confidence::medium
                                           : Confidence::low;
    return lower(waits, out_.confidence);
  }

  // The level before the job became slow, if it did.
  StepWindow earlier_level() const {
    const auto steps = std::span(seconds_).subspan(window_.first, window_.size());
    const auto slow = slowdown_of(out_.changes, job_.steps(), usual_seconds(steps), settings_.least_share);
    return slow ? slow->before : StepWindow{};
  }

  // Stages of a pipeline are compared with their own past. A GPU's waits for messages overlap with its
  // computing, so without a past, only ranks at the same place of their pipelines are compared.
  void level_stages(StepWindow earlier) {
    levelled_.reset();
    if (stages_.empty() || inferred_) {
      return;
    }
    OwnTimes level = own_;
    std::vector<size_t> each(job_.ranks());
    std::iota(each.begin(), each.end(), size_t{0});
    if (earlier.size() > 0 && level.level(each, earlier)) {
      levelled_by_ = earlier;
    } else if (!on_cpus(job_) && level.level(stages_, window_)) {
      levelled_by_ = window_;
    } else {
      return;
    }
    levelled_ = std::move(level);
  }
  // Stages may have more to compute than others, but no reason to let their GPU wait for the host.
  std::optional<Blame> blame_for_its_host() {
    auto blame = job_.synchronous() ? find_blame(own_, hosts_, window_) : std::nullopt;
    if (!blame) {
      return {};
    }
    const std::vector<RankMeans> means = rank_means(job_, own_, window_);
    const SlowCause cause = cause_of(job_, {window_, means}, *blame, nullptr).kind;
    if (cause != SlowCause::input && cause != SlowCause::gc && cause != SlowCause::cpu_contention &&
        cause != SlowCause::host_issue) {
      return {};
    }
    levelled_.reset();
    return blame;
  }
  const OwnTimes& compared() const { return levelled_ ? *levelled_ : own_; }

  // Median of the window, whose steps are given; without those in which more calls than usual were timed.
  double usual_seconds(std::span<const double> steps) const {
    std::vector<double> usual;
    for (auto it = std::lower_bound(usual_.begin(), usual_.end(), window_.first);
         it != usual_.end() && *it < window_.last; ++it) {
      usual.push_back(seconds_[*it]);
    }
    return median(usual.empty() ? std::vector<double>(steps.begin(), steps.end()) : std::move(usual));
  }

  // The mean of the window.
  double mean_seconds() const {
    double sum = 0;
    size_t count = 0;
    for (size_t i = window_.first; i < window_.last; ++i) {
      sum += own_.passed_over(i) ? 0 : seconds_[i];
      count += own_.passed_over(i) ? 0 : 1;
    }
    return count > 0 ? sum / static_cast<double>(count) : 0;
  }

  void pass_over_pauses() {
    for (const size_t step : lonely_pauses(seconds_, out_.changes)) {
      own_.pass_over(step);
    }
  }

  // Numbers that contradict each other are not certain.
  void check_sums() {
    if (!out_.waits_measured || inferred_ || !job_.synchronous()) {
      return;
    }
    for (size_t r = 0; r < job_.ranks(); ++r) {
      const RankMeans& m = means_[r];
      const double sum = m.own_s + m.wait_s;
      if (m.known == 0 || std::abs(sum - m.working_s) <= kMostApart * m.working_s) {
        continue;
      }
      out_.confidence = lower(out_.confidence, Confidence::medium);
      out_.why += fmt::format(
          "{}on rank {}, own time and waits of the steps whose collectives were all timed are {:.1f} ms, and "
          "a step takes "
          "{:.1f} ms",
          out_.why.empty() ? "" : "; ", job_.rank(r).rank, sum * 1e3, m.working_s * 1e3);
      return;
    }
  }

  // Steps between two changes that were slower than those before and after.
  void add_spells() {
    const auto& changes = out_.changes;
    size_t told = 0;
    for (size_t i = 0; i + 1 < changes.size() && told < kMostSpells; ++i) {
      const model::StepChange& begin = changes[i];
      size_t last = i + 1;
      while (last + 1 < changes.size() && changes[last].after_s > begin.before_s * (1 + kLeastSpell / 2)) {
        ++last;
      }
      const model::StepChange& end = changes[last];
      if (begin.share < kLeastSpell || end.after_s > begin.before_s * (1 + kLeastSpell / 2)) {
        continue;
      }
      const StepWindow spell{static_cast<size_t>(begin.step), static_cast<size_t>(end.step)};
      const auto steps = std::span(seconds_).subspan(spell.first, spell.size());
      const double during_s = median({steps.begin(), steps.end()});
      model::SpeedFinding f{.problem = SpeedProblem::slower,
                            .confidence = lower(Confidence::high, out_.confidence),
                            .since = begin.step,
                            .since_wall_ns = begin_of(begin.step),
                            .until = end.step,
                            .until_wall_ns = begin_of(end.step),
                            .lost_s = during_s - begin.before_s,
                            .share = 1 - begin.before_s / during_s};
      if (const auto blame =
              job_.synchronous() && !inferred_ ? find_blame(compared(), hosts_, spell) : std::nullopt) {
        f.ranks = set_of(job_, blame->ranks);
      }
      put_sentence(f, [&] { return spell_sentence(f, begin.before_s, during_s); });
      f.next = next_step(f);
      out_.findings.push_back(std::move(f));
      ++told;
      i = last;
    }
  }

  // Every n-th step is slow because of a rank. Without such a rank it may be the evaluation of an own loop.
  void add_pattern() {
    const auto pattern = pattern_of(seconds_, window_);
    const auto blame = pattern && job_.synchronous()
                           ? blame_for(*pattern, job_, inferred_ ? nullptr : &compared(), hosts_)
                           : std::nullopt;
    if (!blame) {
      return;
    }
    model::SpeedFinding f{.problem = SpeedProblem::slow_rank,
                          .confidence = certainty(),
                          .ranks = set_of(job_, blame->ranks),
                          .since = pattern->since,
                          .since_wall_ns = begin_of(pattern->since)};
    put_loss(f, pattern->lost_s);
    put_sentence(f, [&] { return pattern_sentence(f, *pattern); });
    f.next = next_step(f);
    out_.findings.push_back(std::move(f));
  }

  void compare_note(bool some_slow) {
    compared_ = job_.ranks() < 2 ? RanksCompared::one_rank
                : some_slow      ? RanksCompared::some_slow
                : inferred_      ? RanksCompared::not_compared
                                 : RanksCompared::none_slow;
    if (compared_ == RanksCompared::not_compared) {
      out_.why += fmt::format(
          "{}the ranks were not compared, because all collectives were timed in only {} of the latest {} "
          "steps (xpurun "
          "capture times all)",
          out_.why.empty() ? "" : "; ", measured_steps_, window_.size());
    }
  }

  // The ranks that are slow at the end of the run. If they became slow within the window, the window begins
  // there from now on.
  std::optional<Blame> blame_now(int64_t& since) {
    auto blame = find_blame(compared(), hosts_, window_);
    const size_t least_after = std::max(kLeastStepsAfter, settings_.least_after);
    // They may have become slow too late for the mean of the window.
    const StepWindow recent{window_.last - std::min(least_after, window_.size()), window_.last};
    const auto suspects = blame ? blame : find_blame(compared(), hosts_, recent);
    if (!suspects) {
      return {};
    }
    const auto rise = rise_of_ranks(compared(), window_, suspects->ranks, least_after);
    // Between two looks, nothing tells more of the beginning than the steps of the job do.
    const bool since_change = rise && !out_.changes.empty() && blame && blame->ranks == suspects->ranks &&
                              window_.first == static_cast<size_t>(out_.changes.back().step) &&
                              known_steps(own_, {window_.first, *rise}) <= kFewKnown;
    const auto already = rise ? find_blame(compared(), hosts_, {window_.first, *rise}) : std::nullopt;
    const bool before = already && already->ranks == suspects->ranks;
    // Ranks that were late before and are later now may differ too much for the mean of the window.
    if (rise && !since_change && (!before || !blame)) {
      const StepWindow later{*rise, window_.last};
      if (auto now = find_blame(compared(), hosts_, later); now && now->ranks == suspects->ranks) {
        window_ = later;
        since = before ? -1 : static_cast<int64_t>(*rise);
        return now;
      }
    }
    return blame;
  }

  // Since when ranks are slow that did not become slow within the window: the change of the job that they
  // caused, or a step before the window. Negative: from the beginning.
  int64_t onset_of(const Blame& blame, const std::optional<Slowdown>& slow) const {
    const size_t least_after = std::max(kLeastStepsAfter, settings_.least_after);
    const StepWindow all{std::min(kWarmUpSteps, window_.first), window_.last};
    const auto rise = rise_of_ranks(compared(), all, blame.ranks, least_after);
    bool caused = false;
    if (slow) {
      const auto change = static_cast<size_t>(slow->change.step);
      const auto earlier = find_blame(compared(), hosts_, slow->before);
      caused = !earlier || earlier->ranks != blame.ranks || earlier->lost_s < kOwnFault * blame.lost_s;
      const bool unseen =
          rise && known_steps(own_, {std::min(change, *rise), std::max(change, *rise)}) <= kFewKnown;
      if (caused && (!rise || unseen || (*rise + least_after >= change && *rise <= change + least_after))) {
        return slow->change.step;
      }
    }
    const auto later = rise ? find_blame(compared(), hosts_, {*rise, window_.last}) : std::nullopt;
    if (later && later->ranks == blame.ranks) {
      return static_cast<int64_t>(*rise);
    }
    return caused ? slow->change.step : -1;
  }

  int64_t begin_of(int64_t step) const {
    return step < 0 ? 0 : step_begin_ns(job_, static_cast<size_t>(step));
  }

  // The one formula of all findings: what a step would win, as a share of the mean step of the window. The
  // same share of a usual step is the time.
  void put_loss(model::SpeedFinding& f, double lost_s) const {
    f.share = mean_step_s_ > 0 ? std::min(lost_s / mean_step_s_, 1.0) : 0;
    f.lost_s = f.share * out_.step_s;
  }

  template <typename F>
  void put_sentence(model::SpeedFinding& f, F&& sentence) const {
    f.sentence = sentence();
    const base::Speaking speaking(language_);
    f.spoken = sentence();
  }

  void put_what_if(const model::SpeedFinding& f) {
    if (f.cause == SlowCause::unknown) {
      return;
    }
    std::erase_if(out_.what_if, [&f](const auto& one) { return one.cause == f.cause; });
    out_.what_if.push_back({.cause = f.cause, .share = f.share});
    std::sort(out_.what_if.begin(), out_.what_if.end(),
              [](const auto& a, const auto& b) { return a.share > b.share; });
  }

  void add_slow_ranks(Blame blame, const std::optional<Slowdown>& slow, int64_t since) {
    if (since < 0) {
      since = onset_of(blame, slow);
    }
    if (slow && since == slow->change.step) {
      // A wait may overlap with computing on another stream. Ranks that became slow cost no more than the job
      // has lost since.
      blame.lost_s = std::min(blame.lost_s, slow->change.after_s - slow->change.before_s);
    }
    const std::vector<RankMeans> before = levelled_ ? rank_means(job_, own_, levelled_by_) : means_;
    const MeansOfWindow usual{levelled_by_, before};
    const Cause cause = cause_of(job_, {window_, means_}, blame,
                                 levelled_ && levelled_by_.last <= window_.first ? &usual : nullptr);
    const RankSteps& worst = job_.rank(blame.ranks.front());
    model::SpeedFinding f{.problem = SpeedProblem::slow_rank,
                          .cause = cause.kind,
                          .confidence = certainty(),
                          .ranks = set_of(job_, blame.ranks),
                          .place = worst.places[static_cast<size_t>(cause.stage)],
                          .since = since};
    f.since_wall_ns = begin_of(since);
    if (cause.on_loaded_machine) {  // which rank the other programs hit most may change
      f.severity = model::SpeedSeverity::note;
      f.confidence = Confidence::low;
    }
    put_loss(f, blame.lost_s);
    put_sentence(f, [&] {
      return slow_rank_sentence(f, {.cause = cause,
                                    .only_part = cause.excess_s < kMostOfIt * blame.lost_s,
                                    .host = worst.host,
                                    .gpu = blame.ranks.size() == 1 ? worst.gpu : "",
                                    .whole_host = blame.host,
                                    .others_wait_in = waiting_place(blame)});
    });
    f.next = next_step(f);
    put_what_if(f);
    out_.findings.push_back(std::move(f));
  }

  // The call in which most ranks that are not blamed wait.
  std::string waiting_place(const Blame& blame) const {
    for (size_t r = 0; r < job_.ranks(); ++r) {
      if (std::binary_search(blame.ranks.begin(), blame.ranks.end(), r)) {
        continue;
      }
      const RankSteps& rank = job_.rank(r);
      const auto calls = static_cast<size_t>(model::Stage::communication);
      const bool in_calls = means_[r].stages[model::Stage::communication] >= means_[r].wait_s / 2;
      return out_.waits_measured && !inferred_ && in_calls ? rank.names[calls]
             : rank.gpu.empty()                            ? base::tr("the backward pass")
                                                           : "";
    }
    return "";
  }

  void add_slowdown(const Slowdown& slow, const std::optional<Blame>& blame) {
    const model::StepChange& change = slow.change;
    const double delta = change.after_s - change.before_s;
    model::SpeedFinding f{.problem = SpeedProblem::slower,
                          .confidence = lower(Confidence::high, out_.confidence),
                          .since = change.step,
                          .lost_s = delta,
                          .share = delta / change.after_s};
    const bool by_ranks = blame && out_.findings.back().severity == model::SpeedSeverity::warning &&
                          out_.findings.back().since >= 0 && blame->lost_s >= kOwnFault * delta;
    Cause cause;
    if (by_ranks) {
      f.ranks = out_.findings.back().ranks;
      f.cause = out_.findings.back().cause;
      f.place = out_.findings.back().place;
    } else {
      const std::vector<RankMeans> before = rank_means(job_, own_, slow.before);
      cause = cause_of_change(job_, {slow.before, before}, {window_, means_});
      f.cause = cause.kind;
      f.place = job_.rank(0).places[static_cast<size_t>(cause.stage)];
    }
    put_sentence(f, [&] { return slower_sentence(f, change, cause, compared_); });
    f.next = next_step(f);
    if (!by_ranks && std::none_of(out_.what_if.begin(), out_.what_if.end(),
                                  [&f](const auto& one) { return one.cause == f.cause; })) {
      put_what_if(f);
    }
    out_.findings.push_back(std::move(f));
  }

  // Time that all ranks lose, or each rank in other steps.
  void add_causes() {
    for (const model::CauseShare& one : out_.what_if) {
      const bool input = one.cause == SlowCause::input;
      if ((!input && one.cause != SlowCause::gc) || one.share < (input ? kLeastInput : kLeastWaste)) {
        continue;
      }
      const auto stage = static_cast<size_t>(input ? model::Stage::data : model::Stage::garbage);
      const bool gpu = !on_cpus(job_);
      model::SpeedFinding f{.problem = SpeedProblem::cause,
                            // A GPU may have had work to do meanwhile.
                            .severity = gpu ? model::SpeedSeverity::note : model::SpeedSeverity::warning,
                            .cause = one.cause,
                            .confidence = gpu ? Confidence::low : lower(Confidence::high, out_.confidence),
                            .place = job_.rank(0).places[stage],
                            .lost_s = one.share * out_.step_s,
                            .share = one.share};
      put_sentence(f, [&] { return cause_sentence(f, compared_); });
      f.next = next_step(f);
      out_.findings.push_back(std::move(f));
    }
  }

  // A limit that throttles all ranks makes no rank stand out.
  void add_lost_cpu() {
    const auto cause = taken_from_all(means_, kLeastWaste);
    const auto& known = out_.findings;
    if (!cause || std::any_of(known.begin(), known.end(),
                              [](const auto& f) { return f.cause == SlowCause::cpu_contention; })) {
      return;
    }
    const bool gpu = !on_cpus(job_);
    model::SpeedFinding f{.problem = SpeedProblem::cause,
                          // A GPU may have had work to do meanwhile.
                          .severity = gpu ? model::SpeedSeverity::note : model::SpeedSeverity::warning,
                          .cause = SlowCause::cpu_contention,
                          .confidence = gpu ? Confidence::low : lower(Confidence::medium, out_.confidence)};
    put_loss(f, cause->excess_s);
    put_sentence(f, [&] { return lost_cpu_sentence(f, *cause); });
    f.next = next_step(f);
    put_what_if(f);
    out_.findings.push_back(std::move(f));
  }

  // Pauses are not a slowdown. A rank that keeps the others waiting in them is reported as a note.
  void add_pauses() {
    out_.stage_pauses = stage_pauses(job_, out_.step_s);
    for (model::StagePause& pause : out_.stage_pauses) {
      pause.sentence = pause_sentence(pause);
      const double cost = pause.slow_s > 0 ? pause.share * (1 - pause.others_s / pause.slow_s) : 0;
      if (pause.slow.empty() || cost < kLeastPause) {
        continue;
      }
      model::SpeedFinding f{
          .problem = SpeedProblem::cause,
          .severity = model::SpeedSeverity::note,
          .cause = pause.stage == model::Stage::checkpoint ? SlowCause::checkpoint : SlowCause::evaluation,
          .confidence = lower(Confidence::high, out_.confidence),
          .ranks = pause.slow,
          .place = pause.place,
          .lost_s = cost * out_.step_s,
          .share = cost};
      put_sentence(f, [&] { return slow_pause_sentence(pause); });
      f.next = next_step(f);
      out_.findings.push_back(std::move(f));
    }
  }

  void put_ranks() {
    const size_t least_after = std::max(kLeastStepsAfter, settings_.least_after);
    const StepWindow all{std::min(kWarmUpSteps, job_.steps()), job_.steps()};
    const auto risen = job_.synchronous() ? onsets(compared(), all, least_after, kLeastBlame)
                                          : std::vector<std::optional<Onset>>(job_.ranks());
    for (size_t r = 0; r < job_.ranks(); ++r) {
      out_.ranks.push_back(speed_of_rank(job_, r, means_[r], window_));
      if (risen[r]) {
        model::RankSpeed& out = out_.ranks.back();
        out.since = static_cast<int64_t>(risen[r]->step);
        out.since_wall_ns = begin_of(out.since);
        out.risen = risen[r]->risen;
      }
    }
  }

  JobSteps& job_;
  model::SpeedReport& out_;
  const std::vector<double>& seconds_;
  const std::vector<size_t>& usual_;  // JobSteps::usual_steps()
  OwnTimes own_;
  std::vector<size_t> stages_;        // stages_of()
  std::optional<OwnTimes> levelled_;  // own_ as if the stages of a pipeline were alike
  StepWindow levelled_by_;
  const ChangeSettings& settings_;
  base::Language language_;
  StepWindow window_;
  RanksCompared compared_ = RanksCompared::none_slow;
  double mean_step_s_ = 0;     // of the window
  size_t measured_steps_ = 0;  // of the window: steps with measured waits
  bool inferred_ = false;      // too few of them; own_ is inferred from the stages
  std::vector<RankMeans> means_;
  std::vector<std::string> hosts_;
};

}  // namespace

void judge(JobSteps& job, model::SpeedReport& out, const JudgedSteps& steps, const ChangeSettings& settings,
           base::Language language) {
  Judge(job, out, steps.seconds, steps.usual, settings, language).judge();
}

}  // namespace xpurun::report
