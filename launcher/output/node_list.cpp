#include "launcher/output/node_list.h"

#include "common/base/strings.h"
#include "common/model/json_visitors.h"
#include "launcher/output/text_block.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cmath>

namespace xpurun::launcher {

namespace {

using model::NodePhase;

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
  const std::string state = n.alive || n.phase == NodePhase::ended ? std::string(name_of(n.phase)) : "silent";
  return fmt::format("{:>4} {:<20} {:<9} {:>8} {:>9} {:>12}  {}{}", n.node_rank, base::sanitize(n.host),
                     state, n.alive ? base::human_duration(n.still_s) : "-", base::human_duration(n.seen_s),
                     clock_text(n), base::sanitize(n.ranks), n.elected ? "  judges" : "");
}

}  // namespace

template <typename V, model::Self<ListedNode> N>
void fields(V& visit, N& n) {
  visit("node", n.node);
  visit("node_rank", n.node_rank);
  visit("host", n.host);
  visit("phase", n.phase);
  visit("alive", n.alive);
  visit("elected", n.elected);
  visit("still_s", n.still_s);
  visit("seen_s", n.seen_s);
  visit("offset_ns", n.offset_ns);
  visit("uncertainty_ns", n.uncertainty_ns);
  visit("ranks", n.ranks);
}

template <typename V, model::Self<NodeList> L>
void fields(V& visit, L& list) {
  visit("node", list.node);
  visit("run", list.run);
  visit("server", list.server);
  visit("reason", list.reason);
  visit("expected", list.expected);
  visit("nodes", list.nodes);
}

nlohmann::ordered_json to_json(const NodeList& list) {
  nlohmann::ordered_json j;
  model::JsonWriter writer(j);
  fields(writer, list);
  return j;
}

base::Result<NodeList> node_list_from_json(std::string_view text) {
  try {
    const nlohmann::json j = model::parse_json(text);
    NodeList list;
    model::JsonReader reader(j);
    fields(reader, list);
    return list;
  } catch (const nlohmann::json::exception&) {
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
    const bool wrong = !n.alive && n.phase != NodePhase::ended;
    const bool late = n.phase == NodePhase::stalled;
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
