#include "report/render/speed/slowdowns.h"

#include "common/base/clock.h"
#include "common/base/strings.h"
#include "common/base/tr.h"
#include "report/speed/wording.h"

#include <kainjow/mustache.hpp>

#include <algorithm>
#include <cmath>

namespace xpurun::report {

using base::tr;
using kainjow::mustache::data;

namespace {

constexpr size_t kMostSlowdownRows = 40;
// A file may hold any number; the sums below must not overflow.
constexpr int64_t kLatestBegin = INT64_C(8000000000000000000);
constexpr double kLatestS = 1e9;

// "14:03:07 UTC" if the start of the run is known, else the time since then.
std::string clock_time(double at_s, const model::RunManifest& run) {
  const bool known = run.started_wall_ns > 0 && run.started_wall_ns < kLatestBegin && std::isfinite(at_s);
  return known ? time_of_day(run.started_wall_ns + base::s_to_ns(std::clamp(at_s, 0.0, kLatestS)))
               : tr("{} in", base::human_duration(at_s));
}

std::string end_of(const model::Slowdown& slowdown, const model::RunManifest& run) {
  return slowdown.cleared_s < 0 ? tr("not seen")
                                : tr("step {}, reported at {}", grouped(slowdown.cleared_step),
                                     clock_time(slowdown.cleared_s, run));
}

}  // namespace

std::string slowdown_sentence(const model::Slowdown& slowdown) {
  const model::StepChange change{.step = slowdown.step,
                                 .wall_ns = slowdown.wall_ns,
                                 .before_s = slowdown.before_s,
                                 .after_s = slowdown.after_s,
                                 .share = slowdown.share};
  return slower_sentence({}, change, {}, RanksCompared::not_compared) +
         (slowdown.cleared_s < 0 ? ""
                                 : tr("; as fast as before since step {}", grouped(slowdown.cleared_step)));
}

double slow_since_s(const model::Slowdown& slowdown, const model::RunManifest& run) {
  return slowdown.wall_ns >= run.started_wall_ns && run.started_wall_ns > 0
             ? base::ns_to_s(slowdown.wall_ns - run.started_wall_ns)
             : slowdown.at_s;
}

void put_slowdowns(PageData& page, const model::RunManifest& run) {
  data rows{data::type::list};
  const size_t shown = std::min(run.slowdowns.size(), kMostSlowdownRows);
  for (size_t i = 0; i < shown; ++i) {
    const model::Slowdown& slowdown = run.slowdowns[i];
    data d;
    d.set("since", clock_time(slow_since_s(slowdown, run), run));
    d.set("step", grouped(slowdown.step));
    d.set("share", percent(slowdown.share));
    d.set("before", short_seconds(slowdown.before_s));
    d.set("after", short_seconds(slowdown.after_s));
    d.set("reported", clock_time(slowdown.at_s, run));
    d.set("cleared", end_of(slowdown, run));
    rows.push_back(d);
  }
  put_list(page, "slowdowns", rows);
  put_text(page, "slowdowns_cut",
           shown < run.slowdowns.size() ? tr("{} more are in run.json.", run.slowdowns.size() - shown) : "");
}

}  // namespace xpurun::report
