#include "launcher/output/live_status.h"

#include "common/base/strings.h"
#include "common/base/tr.h"
#include "common/model/frame_text.h"
#include "common/model/json_fields.h"
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
using nlohmann::json;
using nlohmann::ordered_json;

constexpr size_t kWideEnoughForPid = 60;
constexpr size_t kWideEnoughForSteps = 80;
constexpr size_t kWideEnoughForRates = 100;
constexpr size_t kWidthOfSteps = 17;
constexpr size_t kWidthOfHost = 18;
// Lines on nodes that are missing, where the ranks have to fit too.
constexpr size_t kMostGaps = 3;

constexpr double kTopBusyShare = 0.1;  // of one core
constexpr double kTopQuietS = 5;       // a shorter time without progress is that between two polls

// As a verdict would say.
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
  bool steps = false;
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
  if (columns.steps) {
    out += fmt::format("{} {}  ", pad_start(c.step, 7), pad_start(c.late, 7));
  }
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
          .step = tr("STEP"),
          .late = tr("LATE"),
          .flops = tr("TFLOP/S"),
          .collectives = tr("COLL/S"),
          .untraced = tr("UNTRACED"),
          .last_collective = tr("LAST COLLECTIVE"),
          .where = tr("WHERE")};
}

TopCells cells_of(const LiveRank& r, const LiveStatus& s) {
  return {.rank = fmt::format("{}", r.rank),
          .mark = s.culprits.contains(r.rank) ? '!' : ' ',
          .host = base::sanitize(r.host),
          .pid = r.pid == 0 ? "-" : std::to_string(r.pid),
          .state = tr(state_word(r, s)),
          .still = r.alive ? base::human_duration(r.still_s) : "-",
          .cpu = r.cpu_share < 0 ? "-" : fmt::format("{:.0f}%", r.cpu_share * 100),
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

ordered_json to_json(const LiveRank& r) {
  ordered_json j;
  j["rank"] = r.rank;
  if (!r.host.empty()) {
    j["host"] = r.host;
  }
  j["state"] = std::string(1, r.state);
  j["alive"] = r.alive;
  j["still_s"] = r.still_s;
  if (r.pid == 0) {
    // Of thousands of ranks.
    j["where"] = r.where;
    return j;
  }
  j.update({{"pid", r.pid},
            {"cpu_share", r.cpu_share},
            {"function", r.function},
            {"file", r.file},
            {"line", r.line},
            {"flops_per_s", r.flops_per_s},
            {"collectives_per_s", r.collectives_per_s},
            {"outstanding", r.outstanding},
            {"last_collective", r.last_collective},
            {"untraced_share", r.untraced_share},
            {"dropped", r.dropped}});
  if (r.step_s >= 0) {
    j["step_s"] = r.step_s;
  }
  if (r.late_s >= 0) {
    j["late_s"] = r.late_s;
  }
  return j;
}

}  // namespace

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
  j["run"] = s.run;
  j["host"] = s.host;
  j["command"] = s.command;
  j["elapsed_s"] = s.elapsed_s;
  j["hang_timeout_s"] = s.hang_timeout_s;
  j["next_check_s"] = s.next_check_s;
  j["world_size"] = s.world_size;
  j["timing"] = s.timing;
  j["trace"] = s.trace;
  j["problem"] = s.problem;
  if (!s.verdict.sentence.empty()) {
    j["verdict"] = model::to_json(s.verdict);
  }
  if (s.steps.done > 0) {
    j["steps"] = steps_line(s.steps);
    j["steps_done"] = s.steps.done;
    j["step_s"] = s.steps.step_s;
  }
  if (s.steps.slower_share > 0) {
    j["slower_share"] = s.steps.slower_share;
    j["slower_since"] = s.steps.slower_since;
  }
  if (!s.gaps.empty()) {
    j["gaps"] = s.gaps;
  }
  j["culprits"] = s.culprits.text();
  auto& ranks = j["ranks"] = ordered_json::array();
  for (const LiveRank& r : s.ranks) {
    ranks.push_back(to_json(r));
  }
  return j;
}

base::Result<LiveStatus> live_status_from_json(std::string_view text) {
  try {
    const json j = model::parse_json(text);
    LiveStatus s;
    s.run = j.value("run", "");
    s.host = j.value("host", "");
    s.command = j.value("command", std::vector<std::string>());
    s.elapsed_s = j.value("elapsed_s", 0.0);
    s.hang_timeout_s = j.value("hang_timeout_s", 0.0);
    s.next_check_s = j.value("next_check_s", 0.0);
    s.world_size = model::integer(j, "world_size", 0);
    s.timing = j.value("timing", "");
    s.trace = j.value("trace", "");
    s.problem = j.value("problem", "");
    if (const auto verdict = model::verdict_from_json(j.value("verdict", json::object()))) {
      s.verdict = *verdict;
    }
    s.steps = {.done = model::integer(j, "steps_done", int64_t{0}),
               .step_s = j.value("step_s", 0.0),
               .slower_share = j.value("slower_share", 0.0),
               .slower_since = model::integer(j, "slower_since", int64_t{0})};
    s.gaps = j.value("gaps", std::vector<std::string>());
    s.culprits = model::RankSet::parse(j.value("culprits", "")).value_or(model::RankSet());
    for (const json& r : j.value("ranks", json::array())) {
      const std::string state = r.value("state", "?");
      const base::Pid pid = model::integer(r, "pid", 0);
      s.ranks.push_back({.rank = model::integer(r, "rank", base::kNoRank),
                         .host = r.value("host", ""),
                         .pid = pid,
                         .state = state.empty() ? '?' : state.front(),
                         .alive = r.value("alive", true),
                         .still_s = r.value("still_s", 0.0),
                         .step_s = r.value("step_s", -1.0),
                         .late_s = r.value("late_s", -1.0),
                         .cpu_share = r.value("cpu_share", pid == 0 ? -1.0 : 0.0),
                         .function = r.value("function", ""),
                         .file = r.value("file", ""),
                         .line = model::integer(r, "line", 0),
                         .where = r.value("where", ""),
                         .flops_per_s = r.value("flops_per_s", 0.0),
                         .collectives_per_s = r.value("collectives_per_s", 0.0),
                         .outstanding = model::integer(r, "outstanding", uint64_t{0}),
                         .last_collective = r.value("last_collective", ""),
                         .untraced_share = r.value("untraced_share", -1.0),
                         .dropped = model::integer(r, "dropped", uint64_t{0})});
    }
    return s;
  } catch (const json::exception&) {
    return base::fail(base::Error{.what = "xpurun sent an invalid answer", .id = "E-CONTROL"});
  }
}

std::string steps_line(const LiveSteps& steps) {
  if (steps.done <= 0) {
    return "";
  }
  const std::string pace =
      tr("{} steps, {} each", report::grouped(steps.done), report::short_seconds(steps.step_s));
  return steps.slower_share <= 0
             ? pace
             : tr("{}; {} slower since step {}", pace, report::percent(steps.slower_share),
                  report::grouped(steps.slower_since));
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
  const bool steps = columns >= kWideEnoughForSteps + (host ? kWidthOfHost : 0) &&
                     any_rank([](const LiveRank& r) { return r.step_s >= 0; });
  const TopColumns shown_columns{
      .pid_and_cpu = wide,
      .host = host,
      .steps = steps,
      .rates = columns >= kWideEnoughForRates + (steps ? kWidthOfSteps : 0) && any_rank(uses_gpu)};
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
    out += s.culprits.contains(r.rank) ? ink.paint(Ink::Colour::bad, cut)
           : late                      ? ink.paint(Ink::Colour::doubtful, cut)
                                       : cut;
    out += '\n';
  }
  if (shown < ranks.size()) {
    out += tr("... and {} more", ranks.size() - shown) + '\n';
  }
  return out;
}

}  // namespace xpurun::launcher
