#include "launcher/nodes/agent/protocol/wire.h"

#include "common/model/json/json_text.h"
#include "common/model/verdict_fields.h"
#include "launcher/nodes/agent/protocol/packed.h"
#include "launcher/nodes/node_fields.h"
#include "launcher/nodes/node_limits.h"

#include <algorithm>
#include <cctype>

namespace xpurun::nodes {

using model::JsonReader;
using model::JsonWriter;
using model::WhenEmpty;

template <typename V, model::Self<Claim> C>
void fields(V& visit, C& c) {
  visit("stall", c.stall);
  visit("why", c.why);
  visit("ranks", c.ranks);
}

// Absent without a claim.
inline void claim_fields(JsonWriter& visit, const Claim& c) {
  visit.optional("claim", c, c.present());
}
inline void claim_fields(JsonReader& visit, Claim& c) {
  bool present = false;
  visit.optional("claim", c, present);
}

template <typename V, model::Self<NodeState> S>
void fields(V& visit, S& s) {
  visit("node_rank", s.node_rank);
  visit("host", s.host);
  visit("mark", s.mark);
  visit("expected", s.expected);
  visit("eligible", s.eligible);
  claim_fields(visit, s.claim);
  visit("state", s.state);
}

template <typename V, model::Self<DumpCall> D>
void fields(V& visit, D& d) {
  visit("request", d.request);
  visit("why", d.why);
  visit("claimant", d.claimant);
  visit("ranks", d.ranks);
  visit("at_wall_ns", d.at_wall_ns);
}

template <typename V, model::Self<Offer> O>
void fields(V& visit, O& o) {
  visit("request", o.request);
  visit("status", o.status);
  visit("reason", o.reason, WhenEmpty::omit);
  visit("directory", o.directory);
  visit("size", o.size);
  visit("chunk", o.chunk);
  visit("hash", o.hash);
}

template <typename V, model::Self<Want> W>
void fields(V& visit, W& w) {
  visit("request", w.request);
  visit("numbers", w.numbers);
}

template <typename V, model::Self<Part> P>
void fields(V& visit, P& p) {
  visit("request", p.request);
  visit("number", p.number);
}

template <typename V, model::Self<Taken> T>
void fields(V& visit, T& t) {
  visit("request", t.request);
}

template <typename V, model::Self<Ping> P>
void fields(V& visit, P& p) {
  visit("sent_ns", p.sent_ns);
}

template <typename V, model::Self<Pong> P>
void fields(V& visit, P& p) {
  visit("sent_ns", p.sent_ns);
  visit("wall_ns", p.wall_ns);
}

template <typename V, model::Self<Ask> A>
void fields(V& visit, A& a) {
  visit("id", a.id);
  visit("verb", a.verb);
  visit("arguments", a.arguments);
}

template <typename V, model::Self<Answer> A>
void fields(V& visit, A& a) {
  visit("id", a.id);
  visit("status", a.status);
  visit("body", a.body);
}

template <typename V, model::Self<JobAct> A>
void fields(V& visit, A& a) {
  visit("id", a.id);
  visit("act", a.act);
}

namespace {

using namespace launcher;
using nlohmann::json;
using nlohmann::ordered_json;

constexpr size_t kWorthPacking = 1000;

bool short_name(const std::string& text) {
  return text.size() <= kLongestName;
}
bool short_text(const std::string& text) {
  return text.size() <= kLongestText;
}

bool sane_ranks(const std::vector<base::Rank>& ranks, size_t most = kMostRanksOfNode) {
  return ranks.size() <= most &&
         std::all_of(ranks.begin(), ranks.end(), [](base::Rank r) { return r >= 0 && r < kMostRanksOfJob; });
}

bool sane(const RankOnNode& r) {
  return r.rank >= 0 && r.rank < kMostRanksOfJob && short_text(r.where) &&
         r.sequence.size() <= kMostCommunicatorsOfRank &&
         std::all_of(r.sequence.begin(), r.sequence.end(), [](const auto& s) { return short_name(s.first); });
}

bool sane(const JobMark& m) {
  return short_text(m.run_id) && short_text(m.scheduler) && short_text(m.address) && short_text(m.port);
}

bool sane(const NodeState& s) {
  return s.node_rank >= 0 && s.node_rank < kMostNodes && short_name(s.host) && sane(s.mark) &&
         sane_ranks(s.expected) && s.claim.stall >= 0 && s.state.exit_status >= -1 &&
         s.state.exit_status < 256 && sane_ranks(s.claim.ranks) && s.state.ranks.size() <= kMostRanksOfNode &&
         std::all_of(s.state.ranks.begin(), s.state.ranks.end(), [](const RankOnNode& r) { return sane(r); });
}
bool sane(const DumpCall& d) {
  return short_name(d.request) && !d.request.empty() && short_name(d.claimant) && sane_ranks(d.ranks);
}
bool sane(const Offer& o) {
  return short_name(o.request) && short_text(o.reason) && o.directory.size() <= kLongestPath &&
         o.size <= kMostArchiveBytes && o.chunk > 0 && o.chunk <= kLongestMessage &&
         (o.size == 0 || o.chunks() <= kMostArchiveBytes / 1024);
}
bool sane(const Want& w) {
  return short_name(w.request) && w.numbers.size() <= kChunksOnTheWay;
}
bool sane(const Part& p) {
  return short_name(p.request);
}
bool sane(const Taken& t) {
  return short_name(t.request);
}
bool sane(const Ping& /*p*/) {
  return true;
}
bool sane(const Pong& /*p*/) {
  return true;
}
bool sane(const Ask& a) {
  return short_name(a.verb) && a.arguments.size() <= kLongestBody;
}
bool sane(const Answer& a) {
  return a.status >= 0 && a.status < 1000 && a.body.size() <= kLongestBody;
}
bool sane(const JobAct& a) {
  return short_text(a.act.reason) && a.act.exit_status >= -1 && a.act.exit_status < 256;
}
bool sane(const model::RankSet& ranks) {
  return ranks.empty() ||
         (ranks.lowest() >= 0 && model::RankSet::range(0, kMostRanksOfJob - 1).contains(ranks));
}
// Bounded, because every node prints the sentence, and its words may come from the job's program.
bool sane(const model::Verdict& v) {
  const auto line = [](const std::string& text) { return text.size() <= kLongestLineOfVerdict; };
  return line(v.headline) && line(v.title) && line(v.since) && line(v.sentence) &&
         v.evidence.size() <= kMostLinesOfVerdict &&
         std::all_of(v.evidence.begin(), v.evidence.end(), line) && v.details.size() <= kMostLinesOfVerdict &&
         std::all_of(v.details.begin(), v.details.end(), line) && line(v.next.text) && line(v.next.command) &&
         sane(v.ranks) && v.hosts.size() <= kMostRanksOfJob / size_t{8} &&
         std::all_of(v.hosts.begin(), v.hosts.end(), [](const auto& h) { return sane(h.ranks); }) &&
         std::all_of(v.waiting.begin(), v.waiting.end(), [](const auto& w) { return sane(w.ranks); });
}
bool sane(const VerdictMessage& m) {
  return short_name(m.request) && short_name(m.node) && m.directory.size() <= kLongestPath && sane(m.verdict);
}

template <typename T>
void read_as(std::string_view type, const json& j, std::optional<Body>& out) {
  if (type == T::kType) {
    T body;
    JsonReader reader(j);
    fields(reader, body);
    if (sane(body)) {
      out = std::move(body);
    }
  }
}

template <typename... T>
std::optional<Body> body_of(std::string_view type, const json& j, const std::variant<T...>* /*tag*/) {
  std::optional<Body> out;
  (read_as<T>(type, j, out), ...);
  return out;
}

}  // namespace

std::string encode(const Message& message) {
  ordered_json j;
  std::visit([&j](const auto& body) { j["type"] = body.kType; }, message.body);
  j["from"] = message.from;
  j["instance"] = message.instance;
  ordered_json content = ordered_json::object();
  std::visit(
      [&content](const auto& body) {
        JsonWriter writer(content);
        fields(writer, body);
      },
      message.body);
  j["content"] = std::move(content);
  const std::string text = model::json_text(j) + "\n";
  if (const auto* part = std::get_if<Part>(&message.body)) {
    return "J" + text + part->bytes;
  }
  return text.size() < kWorthPacking ? "J" + text : "Z" + pack(text);
}

base::Result<Message> decode(std::string_view bytes) {
  if (bytes.empty() || bytes.size() > kLongestMessage) {
    return base::fail("empty or too long");
  }
  std::string unpacked;
  std::string_view text = bytes.substr(1);
  if (bytes[0] == 'Z') {
    XPURUN_TRY_ASSIGN(unpacked, unpack(text, kLongestMessage));
    text = unpacked;
  } else if (bytes[0] != 'J') {
    return base::fail("of an unknown kind");
  }
  const size_t end = text.find('\n');
  if (end == std::string_view::npos) {
    return base::fail("cut short");
  }
  const json j = model::parse_json(text.substr(0, end));
  try {
    Message out;
    if (!j.is_object() || !j.contains("content")) {
      return base::fail("not a JSON object with a content");
    }
    out.from = j.value("from", "");
    out.instance = model::integer<uint64_t>(j, "instance", 0);
    if (!valid_node_name(out.from) || out.instance == 0) {
      return base::fail("from nobody");
    }
    auto body = body_of(j.value("type", ""), j["content"], static_cast<const Body*>(nullptr));
    if (!body) {
      return base::fail("of an unknown type or beyond a limit");
    }
    out.body = std::move(*body);
    if (auto* part = std::get_if<Part>(&out.body)) {
      part->bytes = text.substr(end + 1);
    }
    return out;
  } catch (const json::exception& e) {
    return base::fail(fmt::format("malformed: {}", e.what()));
  }
}

bool valid_node_name(std::string_view name) {
  constexpr std::string_view kOthers = "_.:@+-";
  return !name.empty() && name.size() <= kLongestName && name[0] != '.' &&
         std::all_of(name.begin(), name.end(), [&](unsigned char c) {
           return (c < 0x80 && std::isalnum(c) != 0) ||
                  kOthers.find(static_cast<char>(c)) != std::string_view::npos;
         });
}

std::string subject_word(std::string_view text) {
  std::string out;
  for (const unsigned char c : text) {
    const bool plain = (c < 0x80 && std::isalnum(c) != 0) || c == '_' || c == '-';
    out += plain ? std::string(1, static_cast<char>(c)) : fmt::format("%{:02X}", c);
  }
  return out.empty() ? "%" : out;
}

}  // namespace xpurun::nodes
