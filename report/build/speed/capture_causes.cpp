#include "report/build/speed/capture_causes.h"

#include "common/base/tr.h"
#include "report/profile/captured_functions.h"
#include "report/profile/gil_holders.h"
#include "report/profile/throttling.h"
#include "report/speed/primitives/statistics.h"
#include "report/speed/ranks/slow_rule.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string_view>
#include <vector>

namespace xpurun::report {

namespace {

using model::CaptureReport;
using model::SlowCause;
using model::SpeedFinding;
using model::SpeedProblem;
using model::SpeedReport;

// The captured part of the time that the finding is about; an alarm for another reason may have begun before.
bool shows(const CaptureReport& capture, const SpeedFinding& finding) {
  constexpr double kLeast = 0.3;  // a spell may be shorter than a capture
  const int64_t end = capture.wall_ns + static_cast<int64_t>(capture.seconds * 1e9);
  const int64_t from = finding.since < 0 ? capture.wall_ns : std::max(capture.wall_ns, finding.since_wall_ns);
  const int64_t until = finding.until < 0 ? end : std::min(end, finding.until_wall_ns);
  return from == capture.wall_ns && until == end
             ? true
             : static_cast<double>(until - from) * 1e-9 >= kLeast * capture.seconds;
}

// Before the finding's time only.
bool precedes(const CaptureReport& capture, const SpeedFinding& finding) {
  return finding.since >= 0 && capture.wall_ns < finding.since_wall_ns && !shows(capture, finding);
}

// The newest capture with clocks of the time before the change; nullptr if none.
const model::GpuCapture* clocks_before(const SpeedReport& report, const SpeedFinding& finding) {
  for (auto c = report.captures.rbegin(); c != report.captures.rend(); ++c) {
    if (precedes(*c, finding) && !c->gpu.clocks.empty()) {
      return &c->gpu;
    }
  }
  return nullptr;
}

constexpr std::string_view kInCapture = base::later("; in a capture, ");
constexpr std::string_view kMeasured = base::later("; ");
constexpr std::string_view kMeanwhile = base::later("; meanwhile, ");

// In both languages.
template <typename F>
void append(SpeedFinding& finding, base::Language language, std::string_view where, F&& words) {
  finding.sentence += base::tr(where) + words();
  const base::Speaking speaking(language);
  finding.spoken += base::tr(where) + words();
}

void put_cause(SpeedReport& report, SpeedFinding& finding, SlowCause cause) {
  if (finding.cause != SlowCause::unknown) {
    std::erase_if(report.what_if, [&](const auto& one) { return one.cause == finding.cause; });
  }
  if (std::none_of(report.what_if.begin(), report.what_if.end(),
                   [&](const auto& one) { return one.cause == cause; })) {
    report.what_if.push_back({.cause = cause, .share = finding.share});
    std::stable_sort(report.what_if.begin(), report.what_if.end(),
                     [](const auto& a, const auto& b) { return a.share > b.share; });
  }
  for (SpeedFinding& other : report.findings) {
    if (!finding.ranks.empty() && other.ranks == finding.ranks && other.cause == finding.cause &&
        &other != &finding) {
      other.cause = cause;  // the job is slower because these ranks are
      other.next = next_step(other);
    }
  }
  finding.cause = cause;
  finding.next = next_step(finding);
}

// Lower clocks explain why the same work takes longer: than on the other ranks, or than before.
void name_throttling(SpeedReport& report, SpeedFinding& finding, base::Language language,
                     const WatchedClocks& watched) {
  if (finding.cause != SlowCause::gpu_compute && finding.cause != SlowCause::unknown) {
    return;
  }
  const bool all = finding.problem == SpeedProblem::slower && finding.ranks.empty();
  if (!all && finding.problem != SpeedProblem::slow_rank) {
    return;
  }
  const model::GpuCapture* before = all ? clocks_before(report, finding) : nullptr;
  const double slowdown = finding.share < 1 ? finding.share / (1 - finding.share) : 0;
  for (auto c = report.captures.rbegin(); c != report.captures.rend(); ++c) {
    if (!shows(*c, finding)) {
      continue;
    }
    const auto words = [&] {
      return all ? throttling_of_all_words(c->gpu, before, slowdown)
                 : throttling_words(c->gpu, finding.ranks, slowdown);
    };
    if (!words().empty()) {
      put_cause(report, finding, SlowCause::throttling);
      append(finding, language, kInCapture, words);
      return;
    }
  }
  if (!watched) {
    return;
  }
  const int64_t since = finding.since < 0 ? report.first_wall_ns : finding.since_wall_ns;
  const model::GpuCapture now = watched(since, std::numeric_limits<int64_t>::max());
  const model::GpuCapture earlier = watched(report.first_wall_ns, since);
  const auto words = [&] {
    return all ? throttling_of_all_words(now, earlier.clocks.empty() ? nullptr : &earlier, slowdown)
               : throttling_words(now, finding.ranks, slowdown);
  };
  if (!words().empty()) {
    put_cause(report, finding, SlowCause::throttling);
    append(finding, language, kMeanwhile, words);
  }
}

// Another program computes on the GPUs of these ranks, and on those of no other rank.
void name_neighbour(SpeedReport& report, SpeedFinding& finding, base::Language language,
                    const WatchedClocks& watched) {
  const bool of_input = finding.cause == SlowCause::input || finding.cause == SlowCause::gc;
  if (finding.ranks.empty() || of_input || !watched) {
    return;
  }
  const int64_t since = finding.since < 0 ? report.first_wall_ns : finding.since_wall_ns;
  const int64_t until = finding.until < 0 ? std::numeric_limits<int64_t>::max() : finding.until_wall_ns;
  std::string name;
  size_t shared = 0;
  for (const model::GpuClocks& gpu : watched(since, until).clocks) {
    if (!gpu.neighbour.empty() && !finding.ranks.contains(gpu.rank)) {
      return;
    }
    if (!gpu.neighbour.empty()) {
      name = gpu.neighbour;
      ++shared;
    }
  }
  if (shared == finding.ranks.size()) {
    put_cause(report, finding, SlowCause::gpu_shared);
    finding.place.clear();  // no line of this program is the cause
    append(finding, language, kMeasured, [&] { return base::tr("{} computes on the same GPU", name); });
  }
}

// The void shares of the blamed ranks and of the others; nothing unless all of the blamed ranks stand out.
struct VoidShares {
  double blamed = 0;
  double others = 0;
};

std::optional<VoidShares> void_shares(const model::IdleTime& idle, const model::RankSet& blamed) {
  std::vector<double> shares;
  std::vector<double> others;
  for (const model::RankIdle& one : idle.ranks) {
    if (blamed.contains(one.rank) && one.outlier) {
      shares.push_back(one.void_share());
      others.push_back(one.others_void_share);
    }
  }
  if (shares.empty() || shares.size() != blamed.size()) {
    return {};
  }
  return VoidShares{.blamed = median(shares), .others = median(others)};
}

// A GPU without work for longer than the others' is issued work too late.
void name_void(SpeedReport& report, SpeedFinding& finding, base::Language language) {
  const bool by_host = finding.cause == SlowCause::unknown || finding.cause == SlowCause::host_issue ||
                       finding.cause == SlowCause::input;
  if (finding.problem != SpeedProblem::slow_rank || !by_host) {
    return;
  }
  const auto& records = report.operations.idle;
  for (auto idle = records.rbegin(); idle != records.rend(); ++idle) {
    if (finding.since >= 0 && idle->wall_ns < finding.since_wall_ns) {
      return;
    }
    if (const auto shares = void_shares(*idle, finding.ranks)) {
      if (finding.cause == SlowCause::unknown) {
        put_cause(report, finding, SlowCause::host_issue);
      }
      append(finding, language, kMeasured,
             [&] { return void_words(finding.ranks, shares->blamed, shares->others, idle->dir); });
      return;
    }
  }
}

// The main thread waits for the GIL in all of its functions.
bool name_holder(SpeedReport& report, SpeedFinding& finding, const CaptureReport& capture,
                 base::Language language) {
  const bool of_program =
      finding.cause == SlowCause::unknown || finding.cause == SlowCause::host_issue ||
      finding.cause == SlowCause::cpu_contention;  // a thread that waits for the GIL lacks CPUs now and then
  const model::GilHolder* holder = of_program ? blamed_holder(capture, finding.ranks) : nullptr;
  if (holder == nullptr) {
    return false;
  }
  if (finding.problem == SpeedProblem::slow_rank && finding.cause != SlowCause::host_issue) {
    put_cause(report, finding, SlowCause::host_issue);
  }
  finding.function = place_of(*holder);
  finding.where = {.function = holder->function, .file = holder->file, .line = holder->line};
  append(finding, language, kInCapture, [holder] { return holder_words(*holder); });
  return true;
}

// What the blamed ranks do more than the others, from the newest capture that shows it.
void name_function(SpeedReport& report, SpeedFinding& finding, base::Language language) {
  const bool spell = finding.until >= 0 && !finding.ranks.empty();
  const bool of_all = finding.problem == SpeedProblem::slower && finding.ranks.empty();
  // Of another program's doing, no line of this one is the cause.
  if ((finding.problem != SpeedProblem::slow_rank && !spell && !of_all) ||
      finding.cause == SlowCause::gpu_shared) {
    return;
  }
  for (auto c = report.captures.rbegin(); c != report.captures.rend(); ++c) {
    if (shows(*c, finding) && name_holder(report, finding, *c, language)) {
      return;
    }
    const bool compared = shows(*c, finding) && !of_all;
    const model::CapturedFunction* f = compared ? blamed_function(*c, finding.ranks) : nullptr;
    if (f != nullptr) {
      finding.function = place_of(*f);
      finding.where = {.function = f->function, .file = f->file, .line = f->line};
      append(finding, language, kInCapture, [f] { return ranks_excess(*f); });
      return;
    }
  }
}

// A function of the program that the rank alone spends much of its time in.
bool does_more(const SpeedReport& report, base::Rank rank) {
  return std::any_of(report.captures.begin(), report.captures.end(), [rank](const CaptureReport& c) {
    const model::CapturedFunction* f = blamed_function(c, {rank});
    return f != nullptr && !f->waits && f->ranks_own - f->own >= kSlowShare;
  });
}

}  // namespace

void add_awaited_ranks(SpeedReport& report, const std::vector<model::AwaitedRank>& late,
                       base::Language language) {
  if (report.steps > 0 || late.empty() || late.back().cleared_s >= 0 ||
      !does_more(report, late.back().rank)) {
    return;
  }
  const model::AwaitedRank& one = late.back();
  SpeedFinding finding{.problem = SpeedProblem::slow_rank,
                       .cause = SlowCause::host_issue,
                       .confidence = model::Confidence::medium,
                       .ranks = {one.rank},
                       .share = one.share};
  const auto words = [&one] { return late_words({one.rank}, one.share); };
  finding.sentence = words();
  const base::Speaking speaking(language);
  finding.spoken = words();
  report.findings.push_back(std::move(finding));
}

void name_from_captures(SpeedReport& report, base::Language language, const WatchedClocks& watched,
                        JobState state) {
  for (SpeedFinding& finding : report.findings) {
    name_neighbour(report, finding, language, watched);
    name_throttling(report, finding, language, watched);
    name_void(report, finding, language);
    name_function(report, finding, language);
    if (finding.problem == SpeedProblem::slow_rank && finding.cause == SlowCause::unknown &&
        finding.function.empty()) {
      append(finding, language, kMeasured, [] { return base::tr("the cause is not known"); });
    }
  }
  // The job is slower because of these ranks: what is known of them helps.
  for (SpeedFinding& finding : report.findings) {
    const auto of_ranks =
        std::find_if(report.findings.begin(), report.findings.end(), [&finding](const SpeedFinding& other) {
          return !finding.ranks.empty() && other.ranks == finding.ranks && !other.function.empty();
        });
    SpeedFinding known = finding;
    known.function = of_ranks == report.findings.end() ? known.function : of_ranks->function;
    finding.next = next_step(known, state);
  }
}

}  // namespace xpurun::report
