#include "report/speed/judge.h"

#include "report/speed/job_table.h"
#include "report/speed/judged_job.h"
#include "report/speed/latest_blame.h"
#include "report/speed/levels.h"
#include "report/speed/other_findings.h"
#include "report/speed/pictures.h"
#include "report/speed/primitives/statistics.h"
#include "report/speed/ranks/causes.h"
#include "report/speed/ranks/launches.h"
#include "report/speed/ranks/rank_shift.h"
#include "report/speed/ranks/slow_rule.h"
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

constexpr double kOwnFault = 0.5;  // of a change that slow ranks explain
constexpr double kMostOfIt = 0.8;
constexpr size_t kFewSteps = 16;  // of a job on CPUs, which other programs may have disturbed in each

class Judge {
 public:
  explicit Judge(JudgedJob& job) : j_(job) {}

  void judge() {
    j_.window = current_window(j_.out, j_.job.steps());
    j_.stages = stages_of(j_.job);
    pass_over_pauses();
    j_.measured_steps = known_steps(j_.own, j_.window);
    if (j_.out.waits_measured && j_.measured_steps < std::min(kLeastKnown, j_.window.size())) {
      // What cannot be a wait, such as garbage collection, is known without the collectives.
      j_.own = OwnTimes(j_.job, false);
      pass_over_pauses();
      j_.inferred = true;
    }
    const StepWindow earlier = earlier_level();
    level_stages(earlier);
    int64_t since = -1;
    auto blame = j_.job.synchronous() ? blame_now(since) : std::nullopt;
    if (!blame) {
      blame = blame_by_arrivals(since);
    }
    if (!blame && j_.levelled && earlier.size() == 0) {
      blame = blame_for_its_host();
    }
    if (j_.inferred && !blame) {
      j_.own = OwnTimes(j_.job, true);
      pass_over_pauses();
      level_stages(earlier);
    }
    j_.out.step_s = usual_seconds(j_.seconds, j_.usual, j_.window);
    if (!j_.out.changes.empty() && static_cast<int64_t>(j_.window.first) >= j_.out.changes.back().step) {
      auto& latest =
          j_.out.changes.back();  // all steps since the change count, not only those that proved it
      latest.after_s = j_.out.step_s;
      latest.share = latest.after_s / latest.before_s - 1;
    }
    j_.mean_step_s = mean_seconds(j_.seconds, j_.own, j_.window);
    j_.means = rank_means(j_.job, j_.own, j_.window);
    if (blame && on_cpus(j_.job) && only_leave_collectives_late(j_.means, *blame)) {
      blame.reset();
    }
    shown_ = {j_.window, j_.means};
    if (!blame || lack_cpu_as_others(*blame)) {
      blame_before(blame, since);
    }
    check_sums();
    compare_note(blame.has_value());
    j_.out.what_if = what_if(j_.job, j_.own, j_.window, kLeastBlame / 4);
    const auto slow = slowdown_of(j_.out.changes, j_.job.steps(), j_.out.step_s, j_.settings.least_share);
    j_.out.stage_pauses = stage_pauses(j_.job, j_.out.step_s);
    if (const bool by_pattern = add_pattern(j_, blame, since); blame && !by_pattern) {
      add_slow_ranks(*blame, slow, since);
    }
    if (slow) {
      add_slowdown(*slow, blame);
    }
    if (!blame) {
      add_causes(j_);
      add_lost_cpu(j_);
    }
    add_spells(j_);
    add_pauses(j_);
    j_.out.launches = rank_launches(j_.job, j_.window);
    for (model::SpeedFinding& f : j_.out.findings) {
      f.since_wall_ns = j_.begin_of(f.since);
    }
    std::stable_sort(j_.out.findings.begin(), j_.out.findings.end(), [](const auto& a, const auto& b) {
      return std::tuple(b.severity, a.problem, b.share) < std::tuple(a.severity, b.problem, a.share);
    });
    put_ranks();
    j_.out.heat = heat_map(j_.job, j_.own);
  }

 private:
  // The level before the job became slow, if it did.
  StepWindow earlier_level() const {
    const auto slow = slowdown_of(j_.out.changes, j_.job.steps(),
                                  usual_seconds(j_.seconds, j_.usual, j_.window), j_.settings.least_share);
    return slow ? slow->before : StepWindow{};
  }

  // Stages of a pipeline are compared with their own past. A GPU's waits for messages overlap with its
  // computing, so without a past, only ranks at the same place of their pipelines are compared.
  void level_stages(StepWindow earlier) {
    j_.levelled.reset();
    if (j_.stages.empty() || j_.inferred) {
      return;
    }
    OwnTimes level = j_.own;
    std::vector<size_t> each(j_.job.ranks());
    std::iota(each.begin(), each.end(), size_t{0});
    if (earlier.size() > 0 && level.level(each, earlier)) {
      j_.levelled_by = earlier;
    } else if (!on_cpus(j_.job) && level.level(j_.stages, j_.window)) {
      j_.levelled_by = j_.window;
    } else {
      return;
    }
    j_.levelled = std::move(level);
  }
  // Stages may have more to compute than others, but no reason to let their GPU wait for the host.
  std::optional<Blame> blame_for_its_host() {
    auto blame = j_.job.synchronous() ? find_blame(j_.own, j_.hosts, j_.window) : std::nullopt;
    if (!blame) {
      return {};
    }
    const std::vector<RankMeans> means = rank_means(j_.job, j_.own, j_.window);
    const SlowCause cause = cause_of(j_.job, {j_.window, means}, *blame, nullptr).kind;
    if (cause != SlowCause::input && cause != SlowCause::gc && cause != SlowCause::cpu_contention &&
        cause != SlowCause::host_issue) {
      return {};
    }
    j_.levelled.reset();
    return blame;
  }
  void pass_over_pauses() {
    for (const size_t step : lonely_pauses(j_.seconds, j_.out.changes)) {
      j_.own.pass_over(step);
    }
  }

  // Numbers that contradict each other are not certain.
  void check_sums() {
    if (!j_.out.waits_measured || j_.inferred || !j_.job.synchronous()) {
      return;
    }
    const auto apart = std::find_if(j_.means.begin(), j_.means.end(), sums_apart);
    if (apart == j_.means.end()) {
      return;
    }
    j_.out.confidence = lower(j_.out.confidence, Confidence::medium);
    j_.out.why += fmt::format(
        "{}on rank {}, own time and waits of the steps whose collectives were all timed are {:.1f} ms, and a "
        "step "
        "takes {:.1f} ms",
        j_.out.why.empty() ? "" : "; ", j_.job.rank(static_cast<size_t>(apart - j_.means.begin())).rank,
        (apart->own_s + apart->wait_s) * 1e3, apart->working_s * 1e3);
  }

  void compare_note(bool some_slow) {
    j_.ranks_compared = j_.job.ranks() < 2 ? RanksCompared::one_rank
                        : some_slow        ? RanksCompared::some_slow
                        : j_.inferred      ? RanksCompared::not_compared
                                           : RanksCompared::none_slow;
    if (j_.ranks_compared == RanksCompared::not_compared) {
      j_.out.why += fmt::format(
          "{}the ranks were not compared, because all collectives were timed in only {} of the latest {} "
          "steps (xpurun capture times all)",
          j_.out.why.empty() ? "" : "; ", j_.measured_steps, j_.window.size());
    }
  }

  // The ranks that are slow at the end of the run. If they became slow within the window, the window begins
  // there from now on.
  std::optional<Blame> blame_now(int64_t& since) {
    auto latest = latest_blame(j_.by(), j_.window);
    if (!latest || (latest->risen_only && !(on_cpus(j_.job) && j_.is_seen(latest->blame, latest->window)))) {
      return {};
    }
    j_.window = latest->window;
    since = latest->since;
    return std::move(latest->blame);
  }

  // Waits that were only inferred hide a rank on a busy machine. That the others wait for the rank where they
  // meet is measured; what the rank does meanwhile has to be seen as well.
  std::optional<Blame> blame_by_arrivals(int64_t& since) {
    if (!j_.out.waits_measured || j_.inferred || !on_cpus(j_.job) || !j_.stages.empty() ||
        !j_.job.synchronous()) {
      return {};
    }
    const StepWindow window = j_.window;
    OwnTimes kept = std::exchange(j_.own, OwnTimes::by_arrivals(j_.job));
    pass_over_pauses();
    auto blame = blame_now(since);
    if (blame && j_.is_seen(*blame, j_.window)) {
      return blame;
    }
    j_.own = std::move(kept);
    j_.window = window;
    since = -1;
    return {};
  }

  bool lack_cpu_as_others(const Blame& blame) const {
    return cause_of(j_.job, {j_.window, j_.means}, blame, nullptr).on_loaded_machine;
  }

  // The other programs that make the job slower hide who was slow before them.
  void blame_before(std::optional<Blame>& blame, int64_t& since) {
    auto was = j_.job.synchronous() && !j_.inferred && j_.stages.empty()
                   ? blame_before_change(j_.by(), j_.job.steps())
                   : std::nullopt;
    if (was) {
      blame = std::move(was->blame);
      since = was->since;
      shown_ = {was->window, rank_means(j_.job, j_.own, was->window)};
    }
  }

  bool shown_before_change() const { return shown_.window.last < j_.window.last; }

  void add_slow_ranks(Blame blame, const std::optional<Slowdown>& slow, int64_t since) {
    if (since < 0 && !shown_before_change()) {
      since = onset_of(j_.by(), j_.window, blame, slow);
    }
    if (slow && since == slow->change.step) {
      // A wait may overlap with computing on another stream. Ranks that became slow cost no more than the job
      // has lost since.
      blame.lost_s = std::min(blame.lost_s, slow->change.after_s - slow->change.before_s);
    }
    const std::vector<RankMeans> before = j_.levelled ? rank_means(j_.job, j_.own, j_.levelled_by) : j_.means;
    const MeansOfWindow usual{j_.levelled_by, before};
    const Cause cause = cause_of(j_.job, {shown_.window, shown_.means}, blame,
                                 j_.levelled && j_.levelled_by.last <= j_.window.first ? &usual : nullptr);
    const RankSteps& worst = j_.job.rank(blame.ranks.front());
    model::SpeedFinding f{.problem = SpeedProblem::slow_rank,
                          .cause = cause.kind,
                          .confidence = j_.certainty(),
                          .ranks = j_.set_of(blame.ranks),
                          .place = worst.places[static_cast<size_t>(cause.stage)],
                          .since = since};
    f.since_wall_ns = j_.begin_of(since);
    const bool few = on_cpus(j_.job) && j_.job.steps() < kFewSteps;
    if (cause.on_loaded_machine || few) {  // which rank the other programs hit most may change
      f.severity = model::SpeedSeverity::note;
      f.confidence = Confidence::low;
    }
    if (shown_before_change()) {
      j_.put_loss(f, blame.lost_s, mean_seconds(j_.seconds, j_.own, shown_.window),
                  usual_seconds(j_.seconds, j_.usual, shown_.window));
    } else {
      j_.put_loss(f, blame.lost_s);
    }
    j_.put_sentence(f, [&] {
      return slow_rank_sentence(
          f, {.cause = cause,
              .shown_until = shown_before_change() ? static_cast<int64_t>(shown_.window.last) : -1,
              .only_part = cause.excess_s < kMostOfIt * blame.lost_s,
              .host = worst.host,
              .gpu = blame.ranks.size() == 1 ? worst.gpu : "",
              .whole_host = blame.host,
              .others_wait_in = j_.waiting_place(blame)});
    });
    f.next = next_step(f);
    if (!shown_before_change()) {
      j_.put_what_if(f);
    }
    j_.add(std::move(f));
  }

  void add_slowdown(const Slowdown& slow, const std::optional<Blame>& blame) {
    model::StepChange change = slow.change;
    const double delta = change.after_s - change.before_s;
    model::SpeedFinding f{.problem = SpeedProblem::slower,
                          .confidence = lower(Confidence::high, j_.out.confidence),
                          .since = change.step,
                          .lost_s = delta,
                          .share = delta / change.after_s};
    // What they cost before the change is no part of it.
    const bool by_ranks = blame && !shown_before_change() &&
                          j_.out.findings.back().severity == model::SpeedSeverity::warning &&
                          j_.out.findings.back().since >= 0 && blame->lost_s >= kOwnFault * delta;
    Cause cause;
    if (by_ranks &&
        std::abs(change.step - j_.out.findings.back().since) > static_cast<int64_t>(j_.least_after())) {
      // Another change of the job, such as one of the machine's load, is no work of these ranks.
      f.since = j_.out.findings.back().since;
      change = slowdown_at(static_cast<size_t>(f.since), slow, j_.seconds, j_.usual).change;
      change.wall_ns = j_.begin_of(f.since);
      f.lost_s = change.after_s - change.before_s;
      f.share = f.lost_s / change.after_s;
      if (change.share < j_.settings.least_share) {
        return;
      }
    }
    if (by_ranks) {
      f.ranks = j_.out.findings.back().ranks;
      f.cause = j_.out.findings.back().cause;
      f.place = j_.out.findings.back().place;
    } else {
      const std::vector<RankMeans> before = rank_means(j_.job, j_.own, slow.before);
      cause = cause_of_change(j_.job, {slow.before, before}, {j_.window, j_.means});
      f.cause = cause.kind;
      f.place = j_.job.rank(0).places[static_cast<size_t>(cause.stage)];
      // Other programs come and go. Where the ranks lack CPUs for longer than what was added, these may be
      // it.
      const bool of_machine = cause.kind == SlowCause::unknown && cause.no_cpu_s >= delta;
      f.confidence = of_machine ? Confidence::low : f.confidence;
    }
    j_.put_sentence(f, [&] { return slower_sentence(f, change, cause, j_.ranks_compared); });
    f.next = next_step(f);
    if (!by_ranks && std::none_of(j_.out.what_if.begin(), j_.out.what_if.end(),
                                  [&f](const auto& one) { return one.cause == f.cause; })) {
      j_.put_what_if(f);
    }
    j_.add(std::move(f));
  }

  void put_ranks() {
    const StepWindow all{std::min(kWarmUpSteps, j_.job.steps()), j_.job.steps()};
    const auto risen = j_.job.synchronous() ? onsets(j_.compared(), all, j_.least_after(), kLeastBlame)
                                            : std::vector<std::optional<Onset>>(j_.job.ranks());
    for (size_t r = 0; r < j_.job.ranks(); ++r) {
      j_.out.ranks.push_back(speed_of_rank(j_.job, r, j_.means[r], j_.window));
      if (risen[r]) {
        model::RankSpeed& out = j_.out.ranks.back();
        out.since = static_cast<int64_t>(risen[r]->step);
        out.since_wall_ns = j_.begin_of(out.since);
        out.risen = risen[r]->risen;
      }
    }
  }

  struct Shown {
    StepWindow window;
    std::vector<RankMeans> means;
  };

  JudgedJob& j_;
  Shown shown_;  // the steps that show who is slow
};

}  // namespace

void judge(JobSteps& job, model::SpeedReport& out, const JudgedSteps& steps, const ChangeSettings& settings,
           base::Language language) {
  JudgedJob known(job, out, steps.seconds, steps.usual, settings, language);
  Judge(known).judge();
}

}  // namespace xpurun::report
