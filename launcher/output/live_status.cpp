#include "launcher/output/live_status.h"

#include "common/base/strings.h"
#include "common/model/frame_text.h"
#include "common/model/json_fields.h"
#include "launcher/output/text_block.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <set>

namespace xpurun::launcher {

namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr size_t kWideEnoughForPid = 60;
constexpr size_t kWideEnoughForRates = 100;
// Lines on nodes that are missing, where the ranks have to fit too.
constexpr size_t kMostGaps = 3;

constexpr double kTopBusyShare = 0.1;  // of one core
constexpr double kTopQuietS = 5;       // a shorter time without progress is that between two polls

// As a verdict would say.
std::string_view state_word(const LiveRank& r, const LiveStatus& s) {
  if (!r.alive || r.state == 'Z') {
    return "ended";
  }
  if (r.state == 'T' || r.state == 't') {
    return "stopped";
  }
  const bool busy = r.cpu_share >= kTopBusyShare;
  if (s.culprits.contains(r.rank)) {
    return busy ? "busy" : "stuck";
  }
  const double quiet_s = s.hang_timeout_s > 0 ? std::min(kTopQuietS, s.hang_timeout_s / 2) : kTopQuietS;
  if (r.still_s < quiet_s) {
    return "moving";
  }
  return r.state == 'D' ? "blocked" : !s.culprits.empty() ? "waiting" : busy ? "busy" : "still";
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

std::string host_column(const LiveRank& r) {
  return fmt::format(" {:<16} ", cut_end(base::sanitize(r.host), 16));
}

bool uses_gpu(const LiveRank& r) {
  return r.flops_per_s > 0 || r.collectives_per_s > 0 || !r.last_collective.empty();
}

std::string rates_of(const LiveRank& r) {
  const std::string untraced = r.untraced_share < 0 ? "-" : fmt::format("{:.0f}%", r.untraced_share * 100);
  return fmt::format("{:>7.1f} {:>7.0f}  {:>8}  {:<20}  ", r.flops_per_s / 1e12, r.collectives_per_s,
                     untraced, cut_end(base::sanitize(r.last_collective), 20));
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
  if (!s.steps.empty()) {
    j["steps"] = s.steps;
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
    s.steps = j.value("steps", "");
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

std::string live_table(const LiveStatus& s, size_t columns, size_t rows, const Ink& ink, TableOrder order) {
  const bool wide = columns >= kWideEnoughForPid;
  std::string out =
      cut_end(fmt::format("{} on {}, {}, {} rank{}, hang timeout {}", base::sanitize(s.run),
                          base::sanitize(s.host), base::human_duration(s.elapsed_s), s.ranks.size(),
                          s.ranks.size() == 1 ? "" : "s",
                          s.hang_timeout_s > 0 ? base::human_duration(s.hang_timeout_s) : "off"),
              columns) +
      '\n';
  size_t used = 2;
  if (!s.problem.empty()) {
    out += ink.paint(Ink::Colour::bad, cut_end(base::sanitize(s.problem), columns)) + '\n';
    ++used;
  }
  if (!s.steps.empty()) {
    out += cut_end(base::sanitize(s.steps), columns) + '\n';
    ++used;
  }
  for (size_t i = 0; i < s.gaps.size() && (rows == 0 || i < kMostGaps); ++i) {
    out += ink.paint(Ink::Colour::doubtful, cut_end(base::sanitize(s.gaps[i]), columns)) + '\n';
    ++used;
  }
  const bool hosts =
      wide && std::any_of(s.ranks.begin(), s.ranks.end(), [](const LiveRank& r) { return !r.host.empty(); });
  const bool rates = columns >= kWideEnoughForRates && std::any_of(s.ranks.begin(), s.ranks.end(), uses_gpu);
  const std::string head =
      !wide ? "RANK STATE       STILL  WHERE"
            : fmt::format("RANK  {}   PID  STATE       STILL    CPU  {}WHERE",
                          hosts ? "HOST              " : "",
                          rates ? "TFLOP/S  COLL/S  UNTRACED  LAST COLLECTIVE       " : "");
  out += ink.paint(Ink::Colour::strong, cut_end(head, columns)) + '\n';
  std::vector<LiveRank> ranks = s.ranks;
  const bool all_fit = rows == 0 || ranks.size() + used <= rows;
  const size_t shown = all_fit ? ranks.size() : rows > used + 1 ? rows - used - 1 : 0;
  std::sort(ranks.begin(), ranks.end(), [&](const LiveRank& a, const LiveRank& b) {
    return comes_first(a, b, order == TableOrder::fitting && !all_fit ? TableOrder::still : order);
  });
  for (size_t i = 0; i < shown; ++i) {
    const LiveRank& r = ranks[i];
    // Visible without colours, too.
    const char mark = s.culprits.contains(r.rank) ? '!' : ' ';
    const std::string still = r.alive ? base::human_duration(r.still_s) : "-";
    const std::string line =
        wide ? fmt::format("{:>4}{}{}{:>7}  {:<8} {:>8} {:>6}  {}{}", r.rank, mark,
                           hosts ? host_column(r) : "", r.pid == 0 ? "-" : std::to_string(r.pid),
                           state_word(r, s), still,
                           r.cpu_share < 0 ? "-" : fmt::format("{:.0f}%", r.cpu_share * 100),
                           rates ? rates_of(r) : "", place_of(r))
             : fmt::format("{:>4}{}{:<8} {:>8}  {}", r.rank, mark, state_word(r, s), still, place_of(r));
    const bool late = r.alive && s.hang_timeout_s > 0 && r.still_s >= s.hang_timeout_s / 2;
    const std::string cut = cut_end(line, columns);
    out += s.culprits.contains(r.rank) ? ink.paint(Ink::Colour::bad, cut)
           : late                      ? ink.paint(Ink::Colour::doubtful, cut)
                                       : cut;
    out += '\n';
  }
  if (shown < ranks.size()) {
    out += fmt::format("... and {} more\n", ranks.size() - shown);
  }
  return out;
}

}  // namespace xpurun::launcher
