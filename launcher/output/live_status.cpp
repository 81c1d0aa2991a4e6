#include "launcher/output/live_status.h"

#include "common/base/strings.h"
#include "common/base/tr.h"
#include "common/model/frame_text.h"
#include "common/model/json_visitors.h"
#include "common/model/verdict_fields.h"
#include "launcher/output/text_block.h"
#include "report/diagnosis/diagnose.h"
#include "report/speed/wording.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <set>
#include <utility>

namespace xpurun::launcher {

namespace {

using base::later;
using base::tr;
using model::Self;
using model::WhenEmpty;
using nlohmann::json;
using nlohmann::ordered_json;

constexpr size_t kWideEnoughForPid = 60;
constexpr size_t kWideEnoughForSteps = 80;
constexpr size_t kWideEnoughForRates = 100;
constexpr size_t kWidthOfSteps = 17;
constexpr size_t kWidthOfHost = 18;
constexpr size_t kWidthOfMemory = 10;
// Lines about missing nodes, if the ranks must fit too.
constexpr size_t kMostGaps = 3;

constexpr double kTopBusyShare = 0.1;  // of one core
constexpr double kTopQuietS = 5;       // a shorter time without progress is that between two polls

// The word that a verdict would use.
std::string_view state_word(const LiveRank& r, const LiveStatus& s) {
  if (!r.alive || r.state == 'Z') {
    return later("ended");
  }
  if (r.state == 'T' || r.state == 't') {
    return later("stopped");
  }
  const bool busy = r.cpu_share >= kTopBusyShare;
  if (s.culprits.contains(r.rank)) {
    return busy ? later("busy") : later("stuck");
  }
  const double quiet_s = s.hang_timeout_s > 0 ? std::min(kTopQuietS, s.hang_timeout_s / 2) : kTopQuietS;
  if (r.still_s < quiet_s) {
    return later("moving");
  }
  return r.state == 'D'        ? later("blocked")
         : !s.culprits.empty() ? later("waiting")
         : busy                ? later("busy")
                               : later("still");
}

bool comes_first(const LiveRank& a, const LiveRank& b, TableOrder order) {
  switch (order) {
    case TableOrder::still:
      return std::pair(b.still_s, a.rank) < std::pair(a.still_s, b.rank);
    case TableOrder::cpu:
      return std::pair(b.cpu_share, a.rank) < std::pair(a.cpu_share, b.rank);
    case TableOrder::fitting:
    case TableOrder::rank:
      break;
  }
  return std::pair(a.rank, a.pid) < std::pair(b.rank, b.pid);
}

std::string place_of(const LiveRank& r) {
  if (!r.where.empty()) {
    return base::sanitize(r.where);
  }
  const std::string text = model::line_label(r.function, r.file, r.line);
  return text.empty() ? "-" : base::sanitize(text);
}

bool uses_gpu(const LiveRank& r) {
  return r.flops_per_s > 0 || r.collectives_per_s > 0 || !r.last_collective.empty();
}

// The columns of one line, or of the heading.
struct TopCells {
  std::string rank;
  char mark = ' ';  // of a culprit, visible without colours
  std::string host;
  std::string pid;
  std::string state;
  std::string still;
  std::string cpu;
  std::string memory;
  std::string gpu;
  std::string step;
  std::string late;
  std::string flops;
  std::string collectives;
  std::string untraced;
  std::string last_collective;
  std::string where;
};

// "train.py:12 step" in a few columns: the function goes first, then the beginning of the file's name.
std::string fitted_place(const std::string& place, size_t columns) {
  constexpr size_t kShortestFunction = 5;  // with a blank and dots
  if (base::display_width(place) <= columns) {
    return place;
  }
  const std::string line = place.substr(0, place.find(' '));
  const size_t used = base::display_width(line);
  if (used <= columns) {
    return used + kShortestFunction <= columns ? cut_end(place, columns) : line;
  }
  constexpr std::string_view kDots = "...";
  const bool plain = used == line.size();  // a character a byte
  return plain && columns > kDots.size() ? std::string(kDots) + line.substr(used - (columns - kDots.size()))
                                         : cut_end(place, columns);
}

struct TopColumns {
  bool pid_and_cpu = false;
  bool host = false;
  bool memory = false;
  bool gpu = false;
  bool steps = false;
  bool late = false;
  bool rates = false;
};

std::string top_line(const TopCells& c, const TopColumns& columns) {
  std::string out = pad_start(c.rank, 4) + c.mark;
  if (!columns.pid_and_cpu) {
    return out + fmt::format("{} {}  {}", pad_end(c.state, 8), pad_start(c.still, 8), c.where);
  }
  if (columns.host) {
    out += fmt::format(" {} ", pad_end(cut_end(c.host, 16), 16));
  }
  out += fmt::format("{}  {} {} {}  ", pad_start(c.pid, 7), pad_end(c.state, 8), pad_start(c.still, 8),
                     pad_start(c.cpu, 6));
  out += columns.memory ? pad_start(c.memory, 8) + "  " : "";
  out += columns.gpu ? pad_start(c.gpu, 8) + "  " : "";
  out += columns.steps ? pad_start(c.step, 7) + (columns.late ? " " : "  ") : "";
  out += columns.late ? pad_start(c.late, 7) + "  " : "";
  if (columns.rates) {
    out += fmt::format("{} {}  {}  {}  ", pad_start(c.flops, 7), pad_start(c.collectives, 7),
                       pad_start(c.untraced, 8), pad_end(cut_end(c.last_collective, 20), 20));
  }
  return out + c.where;
}

TopCells headings() {
  return {.rank = tr("RANK"),
          .host = tr("HOST"),
          .pid = tr("PID"),
          .state = tr("STATE"),
          .still = tr("STILL"),
          .cpu = tr("CPU"),
          .memory = tr("MEMORY"),
          .gpu = tr("GPU MEM"),
          .step = tr("STEP"),
          .late = tr("LATE"),
          .flops = tr("TFLOP/S"),
          .collectives = tr("COLL/S"),
          .untraced = tr("UNTRACED"),
          .last_collective = tr("LAST COLLECTIVE"),
          .where = tr("WHERE")};
}

// To blame for a stall or for slow steps.
bool is_marked(const LiveRank& r, const LiveStatus& s) {
  return s.culprits.contains(r.rank) || s.steps.slow_ranks.contains(r.rank);
}

TopCells cells_of(const LiveRank& r, const LiveStatus& s) {
  return {.rank = fmt::format("{}", r.rank),
          .mark = is_marked(r, s) ? '!' : ' ',
          .host = base::sanitize(r.host),
          .pid = r.pid == 0 ? "-" : std::to_string(r.pid),
          .state = tr(state_word(r, s)),
          .still = r.alive ? base::human_duration(r.still_s) : "-",
          .cpu = r.cpu_share < 0 ? "-" : fmt::format("{:.0f}%", r.cpu_share * 100),
          .memory = r.rss_bytes <= 0 ? "-" : base::human_size(static_cast<uint64_t>(r.rss_bytes)),
          .gpu = r.gpu_bytes <= 0 ? "-" : base::human_size(static_cast<uint64_t>(r.gpu_bytes)),
          .step = r.step_s < 0 ? "-" : report::short_seconds(r.step_s),
          .late = r.late_s < 0 ? "-" : report::short_seconds(r.late_s),
          .flops = fmt::format("{:.1f}", r.flops_per_s / 1e12),
          .collectives = fmt::format("{:.0f}", r.collectives_per_s),
          .untraced = r.untraced_share < 0 ? "-" : fmt::format("{:.0f}%", r.untraced_share * 100),
          .last_collective = base::sanitize(r.last_collective),
          .where = place_of(r)};
}

std::string title(const LiveStatus& s) {
  const std::string ranks = s.ranks.size() == 1 ? tr("{} rank", 1) : tr("{} ranks", s.ranks.size());
  return tr("{} on {}, {}, {}, hang timeout {}", base::sanitize(s.run), base::sanitize(s.host),
            base::human_duration(s.elapsed_s), ranks,
            s.hang_timeout_s > 0 ? base::human_duration(s.hang_timeout_s) : tr("off"));
}

}  // namespace

template <typename V, Self<LiveRank> R>
void fields(V& visit, R& r) {
  visit("rank", r.rank);
  visit("host", r.host, WhenEmpty::omit);
  visit("state", r.state);
  visit("alive", r.alive);
  visit("still_s", r.still_s);
  visit("where", r.where, WhenEmpty::omit);
  visit("pid", r.pid, WhenEmpty::omit);
  if (r.pid == 0) {
    return;  // there may be thousands
  }
  visit("cpu_share", r.cpu_share);
  visit("rss_bytes", r.rss_bytes, WhenEmpty::omit);
  visit("gpu_bytes", r.gpu_bytes, WhenEmpty::omit);
  visit("function", r.function);
  visit("file", r.file);
  visit("line", r.line);
  visit("flops_per_s", r.flops_per_s);
  visit("collectives_per_s", r.collectives_per_s);
  visit("outstanding", r.outstanding);
  visit("last_collective", r.last_collective);
  visit("untraced_share", r.untraced_share);
  visit("dropped", r.dropped);
  visit.optional("step_s", r.step_s);
  visit.optional("late_s", r.late_s);
}

template <typename V, Self<LiveStatus> S>
void fields(V& visit, S& s) {
  visit("run", s.run);
  visit("host", s.host);
  visit("command", s.command);
  visit("elapsed_s", s.elapsed_s);
  visit("hang_timeout_s", s.hang_timeout_s);
  visit("stall_s", s.stall_s);
  visit("next_check_s", s.next_check_s);
  visit("world_size", s.world_size);
  visit("timing", s.timing);
  visit("trace", s.trace);
  visit("problem", s.problem);
  bool judged = !s.verdict.sentence.empty();
  visit.optional("verdict", s.verdict, judged);
  if (s.steps.done > 0) {
    visit.derived("steps", steps_line(s.steps));
  }
  visit("steps_done", s.steps.done, WhenEmpty::omit);
  visit("step_s", s.steps.step_s, WhenEmpty::omit);
  visit("slower_share", s.steps.slower_share, WhenEmpty::omit);
  visit("slower_since", s.steps.slower_since, WhenEmpty::omit);
  visit("slower_wall_ns", s.steps.slower_wall_ns, WhenEmpty::omit);
  visit("slow_ranks", s.steps.slow_ranks, WhenEmpty::omit);
  visit("gaps", s.gaps, WhenEmpty::omit);
  visit.ranks_text("culprits", s.culprits);
  visit("ranks", s.ranks);
}

void add_other_ranks(const LiveStatus& other, LiveStatus& own) {
  std::set<base::Rank> known;
  for (LiveRank& r : own.ranks) {
    r.host = r.host.empty() ? own.host : r.host;
    known.insert(r.rank);
  }
  for (const LiveRank& r : other.ranks) {
    if (!known.contains(r.rank)) {
      own.ranks.push_back({.rank = r.rank,
                           .host = r.host.empty() ? other.host : r.host,
                           .state = r.state,
                           .alive = r.alive,
                           .still_s = r.still_s,
                           .cpu_share = -1,
                           .where = place_of(r)});
    }
  }
  own.gaps.insert(own.gaps.end(), other.gaps.begin(), other.gaps.end());
}

ordered_json to_json(const LiveStatus& s) {
  ordered_json j;
  model::JsonWriter writer(j);
  fields(writer, s);
  return j;
}

base::Result<LiveStatus> live_status_from_json(std::string_view text) {
  try {
    const json j = model::parse_json(text);
    LiveStatus s;
    model::JsonReader reader(j);
    fields(reader, s);
    return s;
  } catch (const json::exception&) {
    return base::fail(base::Error{.what = "xpurun sent an invalid answer", .id = "E-CONTROL"});
  }
}

std::string steps_line(const LiveSteps& steps, StepsWidth width) {
  if (steps.done <= 0) {
    return "";
  }
  constexpr double kFactor = 0.5;  // above it, a factor tells more than a percentage
  const bool narrow = width == StepsWidth::narrow;
  std::string out =
      narrow ? report::short_seconds(steps.step_s)
             : tr("step {} · {}", report::grouped(steps.done), report::short_seconds(steps.step_s));
  if (steps.slower_share > 0) {
    const std::string by = steps.slower_share >= kFactor ? fmt::format("{:.1f}×", 1 + steps.slower_share)
                                                         : report::percent(steps.slower_share);
    constexpr size_t kClock = 11;  // "2026-11-21T02:15:00Z"
    const std::string since = steps.slower_wall_ns > 0
                                  ? base::utc_iso8601(steps.slower_wall_ns).substr(kClock, 5)
                                  : tr("step {}", report::grouped(steps.slower_since));
    out += narrow ? tr(" · {} slower", by) : tr(" · {} slower since {}", by, since);
  }
  const model::RankSet& slow = steps.slow_ranks;
  return slow.empty()
             ? out
             : fmt::format("{}{}{}", out, steps.slower_share > 0 ? tr(", ") : " · ",
                           slow.size() == 1 ? tr("rank {}", slow.brief()) : tr("ranks {}", slow.brief()));
}

std::string live_table(const LiveStatus& s, size_t columns, size_t rows, const Ink& ink, TableOrder order) {
  std::string out = cut_end(title(s), columns) + '\n';
  size_t used = 2;
  const auto add = [&](std::string_view line, Ink::Colour colour) {
    out += ink.paint(colour, cut_end(base::sanitize(line), columns)) + '\n';
    ++used;
  };
  if (!s.problem.empty()) {
    add(s.verdict.sentence.empty() ? s.problem : report::sentence_of(s.verdict), Ink::Colour::bad);
  }
  if (const std::string steps = steps_line(s.steps); !steps.empty()) {
    out += cut_end(steps, columns) + '\n';
    ++used;
  }
  for (size_t i = 0; i < s.gaps.size() && (rows == 0 || i < kMostGaps); ++i) {
    add(s.gaps[i], Ink::Colour::doubtful);
  }
  const bool wide = columns >= kWideEnoughForPid;
  const auto any_rank = [&s](auto&& has) { return std::any_of(s.ranks.begin(), s.ranks.end(), has); };
  const bool host = wide && any_rank([](const LiveRank& r) { return !r.host.empty(); });
  const bool roomy = columns >= kWideEnoughForSteps + (host ? kWidthOfHost : 0);
  const bool steps = roomy && any_rank([](const LiveRank& r) { return r.step_s >= 0; });
  const bool lateness = steps && any_rank([](const LiveRank& r) { return r.late_s >= 0; });
  const bool memory = roomy && any_rank([](const LiveRank& r) { return r.rss_bytes > 0; });
  const bool gpu = memory && columns >= kWideEnoughForSteps + kWidthOfMemory &&
                   any_rank([](const LiveRank& r) { return r.gpu_bytes > 0; });
  const TopColumns shown_columns{
      .pid_and_cpu = wide,
      .host = host,
      .memory = memory,
      .gpu = gpu,
      .steps = steps,
      .late = lateness,
      .rates = columns >= kWideEnoughForRates + (steps ? kWidthOfSteps : 0) +
                              ((memory ? 1 : 0) + (gpu ? 1 : 0)) * kWidthOfMemory &&
               any_rank(uses_gpu)};
  out += ink.paint(Ink::Colour::strong, cut_end(top_line(headings(), shown_columns), columns)) + '\n';
  std::vector<LiveRank> ranks = s.ranks;
  const bool all_fit = rows == 0 || ranks.size() + used <= rows;
  const size_t shown = all_fit ? ranks.size() : rows > used + 1 ? rows - used - 1 : 0;
  std::sort(ranks.begin(), ranks.end(), [&](const LiveRank& a, const LiveRank& b) {
    return comes_first(a, b, order == TableOrder::fitting && !all_fit ? TableOrder::still : order);
  });
  for (size_t i = 0; i < shown; ++i) {
    const LiveRank& r = ranks[i];
    const bool late = r.alive && s.hang_timeout_s > 0 && r.still_s >= s.hang_timeout_s / 2;
    TopCells cells = cells_of(r, s);
    const std::string place = std::exchange(cells.where, {});
    const size_t before = base::display_width(top_line(cells, shown_columns));
    cells.where = fitted_place(place, columns > before ? columns - before : 0);
    const std::string cut = cut_end(top_line(cells, shown_columns), columns);
    out += is_marked(r, s) ? ink.paint(Ink::Colour::bad, cut)
           : late          ? ink.paint(Ink::Colour::doubtful, cut)
                           : cut;
    out += '\n';
  }
  if (shown < ranks.size()) {
    out += tr("... and {} more", ranks.size() - shown) + '\n';
  }
  return out;
}

}  // namespace xpurun::launcher
