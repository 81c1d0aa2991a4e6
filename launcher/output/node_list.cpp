#include "launcher/output/node_list.h"

#include "common/base/strings.h"
#include "common/model/json_fields.h"
#include "launcher/output/text_block.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cmath>

namespace xpurun::launcher {

namespace {

using nlohmann::json;
using nlohmann::ordered_json;

// "+1.2 ms ±0.3": how far the node's clock is ahead.
std::string clock_text(const ListedNode& n) {
  if (n.uncertainty_ns < 0) {
    return "-";
  }
  const double exact = static_cast<double>(n.offset_ns) / 1e6;
  const double ms = std::fabs(exact) < 0.05 ? 0 : exact;  // no "-0.0"
  return std::fabs(ms) < 10'000 ? fmt::format("{:+.1f} ms", ms) : fmt::format("{:+.0f} s", ms / 1000);
}

std::string line_of(const ListedNode& n) {
  const std::string state = n.alive ? n.phase : n.phase == "ended" ? "ended" : "silent";
  return fmt::format("{:>4} {:<20} {:<9} {:>8} {:>9} {:>12}  {}{}", n.node_rank, base::sanitize(n.host),
                     base::sanitize(state), n.alive ? base::human_duration(n.still_s) : "-",
                     base::human_duration(n.seen_s), clock_text(n), base::sanitize(n.ranks),
                     n.elected ? "  judges" : "");
}

}  // namespace

nlohmann::ordered_json to_json(const NodeList& list) {
  ordered_json j;
  j["node"] = list.node;
  j["run"] = list.run;
  j["server"] = list.server;
  j["reason"] = list.reason;
  j["expected"] = list.expected;
  auto& nodes = j["nodes"] = ordered_json::array();
  for (const ListedNode& n : list.nodes) {
    nodes.push_back({{"node", n.node},
                     {"node_rank", n.node_rank},
                     {"host", n.host},
                     {"phase", n.phase},
                     {"alive", n.alive},
                     {"elected", n.elected},
                     {"still_s", n.still_s},
                     {"seen_s", n.seen_s},
                     {"offset_ns", n.offset_ns},
                     {"uncertainty_ns", n.uncertainty_ns},
                     {"ranks", n.ranks}});
  }
  return j;
}

base::Result<NodeList> node_list_from_json(std::string_view text) {
  try {
    const json j = model::parse_json(text);
    NodeList list{.node = j.value("node", ""),
                  .run = j.value("run", ""),
                  .server = j.value("server", ""),
                  .reason = j.value("reason", ""),
                  .expected = model::integer(j, "expected", 0)};
    for (const json& n : j.value("nodes", json::array())) {
      list.nodes.push_back({.node = n.value("node", ""),
                            .node_rank = model::integer(n, "node_rank", 0),
                            .host = n.value("host", ""),
                            .phase = n.value("phase", ""),
                            .alive = n.value("alive", true),
                            .elected = n.value("elected", false),
                            .still_s = n.value("still_s", 0.0),
                            .seen_s = n.value("seen_s", 0.0),
                            .offset_ns = model::integer(n, "offset_ns", int64_t{0}),
                            .uncertainty_ns = model::integer(n, "uncertainty_ns", int64_t{-1}),
                            .ranks = n.value("ranks", "")});
    }
    return list;
  } catch (const json::exception&) {
    return base::fail(base::Error{.what = "xpurun sent an invalid answer", .id = "E-CONTROL"});
  }
}

std::string node_table(const NodeList& list, size_t columns, const Ink& ink) {
  if (list.node.empty()) {
    return list.reason.empty() ? std::string("this job has one node\n")
                               : fmt::format("{}\n", base::sanitize(list.reason));
  }
  std::string out =
      ink.paint(Ink::Colour::strong, cut_end("NODE HOST                 STATE        STILL LAST HEARD"
                                             "       CLOCK  RANKS",
                                             columns)) +
      '\n';
  for (const ListedNode& n : list.nodes) {
    const std::string line = cut_end(line_of(n), columns);
    const bool wrong = !n.alive && n.phase != "ended";
    const bool late = n.phase == "stalled";
    out += (wrong  ? ink.paint(Ink::Colour::bad, line)
            : late ? ink.paint(Ink::Colour::doubtful, line)
                   : line) +
           '\n';
  }
  if (list.expected > static_cast<int>(list.nodes.size())) {
    out += fmt::format("{} of {} nodes have not been heard of\n",
                       list.expected - static_cast<int>(list.nodes.size()), list.expected);
  }
  out += list.server.empty()
             ? fmt::format("not connected: {}\n", base::sanitize(list.reason))
             : fmt::format("job {} at {}\n", base::sanitize(list.run), base::sanitize(list.server));
  return out;
}

}  // namespace xpurun::launcher
