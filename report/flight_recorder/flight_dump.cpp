#include "report/flight_recorder/flight_dump.h"

#include "common/base/ids.h"
#include "common/base/strings.h"
#include "report/flight_recorder/pickle.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

namespace xpurun::report {

namespace {

constexpr size_t kMostGroups = 100'000;
// Later times (after the year 2200) mean a damaged file.
constexpr int64_t kLatestNs = 7'258'118'400'000'000'000;
constexpr int64_t kLongestTimeoutMs = 1'000'000'000;

enum class Key {
  record_id,
  pg_id,
  process_group,
  pg_name,
  sequence,
  old_sequence,
  p2p_sequence,
  name,
  created,
  timeout,
  state,
  started,
  finished,
  is_p2p,
  retired,
  input_sizes,
  output_sizes,
  input_dtypes,
  frames,
};
const std::unordered_map<std::string_view, Key> kKeys = {
    {"record_id", Key::record_id},
    {"pg_id", Key::pg_id},
    {"process_group", Key::process_group},
    {"pg_name", Key::pg_name},
    {"collective_seq_id", Key::sequence},
    {"seq_id", Key::old_sequence},
    {"p2p_seq_id", Key::p2p_sequence},
    {"profiling_name", Key::name},
    {"time_created_ns", Key::created},
    {"timeout_ms", Key::timeout},
    {"state", Key::state},
    {"time_discovered_started_ns", Key::started},
    {"time_discovered_completed_ns", Key::finished},
    {"is_p2p", Key::is_p2p},
    {"retired", Key::retired},
    {"input_sizes", Key::input_sizes},
    {"output_sizes", Key::output_sizes},
    {"input_dtypes", Key::input_dtypes},
    {"frames", Key::frames},
};

FlightState state_named(std::string_view name) {
  return name == "completed" ? FlightState::completed
         : name == "started" ? FlightState::started
                             : FlightState::scheduled;
}

class Reader {
 public:
  explicit Reader(FlightDump& dump) : dump_(dump), tree_(dump.tree) {}

  base::Status read() {
    const PlainValue& root = tree_.root;
    const std::string_view version = text_of(tree_.member(root, "version"));
    const PlainValue* entries = tree_.member(root, "entries");
    if (version.empty()) {
      return base::fail("not a Flight Recorder dump: it has no version");
    }
    const size_t dot = std::min(version.find('.'), version.size());
    dump_.major = static_cast<int>(base::parse_int(version.substr(0, dot)).value_or(0));
    dump_.minor =
        static_cast<int>(base::parse_int(version.substr(std::min(dot + 1, version.size()))).value_or(0));
    if (dump_.major < 1 || dump_.major > 2) {
      return base::fail(fmt::format("Flight Recorder format {} is not known", base::sanitize(version)));
    }
    read_groups(tree_.member(root, "pg_config"));
    read_status(tree_.member(root, "pg_status"));
    // In the JSON form, a rank without calls has no entries.
    if (entries != nullptr) {
      for (const PlainValue& entry : tree_.items(*entries)) {
        read_entry(entry);
      }
    }
    return {};
  }

 private:
  void read_groups(const PlainValue* config) {
    const auto pairs = config == nullptr ? std::span<const PlainValue>() : tree_.items(*config);
    for (size_t i = 0; i + 1 < pairs.size() && dump_.groups.size() < kMostGroups; i += 2) {
      const PlainValue& group = pairs[i + 1];
      const std::string_view name = text_of(tree_.member(group, "name"));
      dump_.groups.push_back({.name = name.empty() ? text_of(&pairs[i]) : name,
                              .description = text_of(tree_.member(group, "desc")),
                              .ranks = ranks_in(tree_.member(group, "ranks"))});
    }
  }

  // "[0, 1]", or a list of numbers.
  std::vector<int32_t> ranks_in(const PlainValue* value) const {
    std::vector<int32_t> out;
    const auto add = [&out](std::optional<int64_t> rank) {
      const bool good = rank && *rank >= 0 && *rank < base::kHighestRank;
      out.push_back(good ? static_cast<int32_t>(*rank) : -1);
    };
    if (value == nullptr) {
      return out;
    }
    if (std::string_view text = text_of(value);
        text.size() > 2 && text.front() == '[' && text.back() == ']') {
      for (const std::string_view word : base::split(text.substr(1, text.size() - 2), ',')) {
        add(base::parse_int(base::trim(word)));
      }
    }
    for (const PlainValue& item : tree_.items(*value)) {
      add(integer_of(&item));
    }
    // Indistinguishable members are worse than unknown ones.
    return std::find(out.begin(), out.end(), -1) == out.end() ? out : std::vector<int32_t>();
  }

  void read_status(const PlainValue* status) {
    const auto pairs = status == nullptr ? std::span<const PlainValue>() : tree_.items(*status);
    for (size_t i = 0; i + 1 < pairs.size() && dump_.status.size() < kMostGroups; i += 2) {
      const auto at = [&](std::string_view key) {
        return integer_of(tree_.member(pairs[i + 1], key)).value_or(-1);
      };
      dump_.status.push_back({.pg_id = integer_of(&pairs[i]).value_or(-1),
                              .last_enqueued = at("last_enqueued_collective"),
                              .last_completed = at("last_completed_collective")});
    }
  }

  void read_entry(const PlainValue& dict) {
    FlightEntry e;
    std::optional<int64_t> sequence;
    std::optional<int64_t> old_sequence;
    int64_t finished_ns = 0;
    const auto pairs = dict.kind == PlainKind::dict ? tree_.items(dict) : std::span<const PlainValue>();
    for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
      const auto key = pairs[i].kind == PlainKind::text ? kKeys.find(pairs[i].text) : kKeys.end();
      if (key == kKeys.end()) {
        continue;
      }
      const PlainValue& value = pairs[i + 1];
      const auto integer = [&] { return integer_of(&value).value_or(0); };
      switch (key->second) {
        case Key::record_id:
          e.record_id = integer();
          break;
        case Key::pg_id:
          e.pg_id = integer_of(&value).value_or(-1);
          break;
        case Key::process_group: {
          const auto items = tree_.items(value);
          e.group = items.empty() ? text_of(&value) : text_of(&items[0]);
          break;
        }
        case Key::pg_name:
          e.group = e.group.empty() ? text_of(&value) : e.group;
          break;
        case Key::sequence:
          sequence = integer_of(&value);
          break;
        case Key::old_sequence:
          old_sequence = integer_of(&value);
          break;
        case Key::p2p_sequence:
          e.p2p_sequence = integer();
          break;
        case Key::name:
          split_name(text_of(&value), e);
          break;
        case Key::created:
          e.created_ns = integer();
          break;
        case Key::timeout:
          e.timeout_ms = integer();
          break;
        case Key::state:
          e.state = state_named(text_of(&value));
          break;
        case Key::started:
          dump_.starts_seen |= integer() > 0;
          break;
        case Key::finished:
          finished_ns = integer();
          break;
        case Key::is_p2p:
          e.p2p = integer() != 0;
          break;
        case Key::retired:
          e.retired = integer() != 0;
          break;
        case Key::input_sizes:
          e.input_sizes = value;
          break;
        case Key::output_sizes:
          e.output_sizes = value;
          break;
        case Key::input_dtypes:
          e.input_dtypes = value;
          break;
        case Key::frames:
          e.frames = value;
          break;
      }
    }
    // gloo (torch 2.8, 2.9) never advances the state, and retires what is done. It has no watchdog.
    if (e.backend == "gloo" && e.retired) {
      e.state = FlightState::completed;
    }
    e.sequence = std::max<int64_t>(sequence.value_or(old_sequence.value_or(0)), 0);
    if (!e.op.empty()) {
      dump_.entries.push_back(e);
      note_time(e, finished_ns);
    }
  }

  void note_time(const FlightEntry& e, int64_t finished_ns) {
    int64_t known_ns = std::max(e.created_ns, finished_ns);
    // The watchdog gives up a call when its time limit has passed.
    if (e.retired && e.state != FlightState::completed && e.timeout_ms > 0 &&
        e.timeout_ms < kLongestTimeoutMs && e.created_ns > 0 && e.created_ns < kLatestNs) {
      known_ns = std::max(known_ns, e.created_ns + e.timeout_ms * 1'000'000);
    }
    if (known_ns < kLatestNs) {
      dump_.newest_ns = std::max(dump_.newest_ns, known_ns);
    }
  }

  static void split_name(std::string_view name, FlightEntry& e) {
    const size_t colon = name.find(':');
    e.backend = colon == std::string_view::npos ? std::string_view() : name.substr(0, colon);
    e.op = colon == std::string_view::npos ? name : name.substr(colon + 1);
  }

  FlightDump& dump_;
  const PlainTree& tree_;
};

}  // namespace

const FlightGroup* FlightDump::group(std::string_view name) const {
  const auto it =
      std::find_if(groups.begin(), groups.end(), [&](const FlightGroup& g) { return g.name == name; });
  return it == groups.end() ? nullptr : &*it;
}

const FlightStatus* FlightDump::status_of(int64_t pg_id) const {
  const auto it =
      std::find_if(status.begin(), status.end(), [&](const FlightStatus& s) { return s.pg_id == pg_id; });
  return it == status.end() || pg_id < 0 ? nullptr : &*it;
}

bool looks_like_flight_dump(std::string_view head) {
  // A pickle begins with PROTO and its version, the other form with a JSON object.
  return (head.size() >= 2 && head[0] == '\x80' && head[1] >= 2 && head[1] <= 5) || head.starts_with('{');
}

base::Result<FlightDump> read_flight_dump(std::string content) {
  FlightDump dump;
  dump.source = std::make_unique<std::string>(std::move(content));
  if (dump.source->empty()) {
    return base::fail("the file is empty");
  }
  XPURUN_TRY_ASSIGN(dump.tree,
                    dump.source->front() == '{' ? read_plain_json(*dump.source) : read_pickle(*dump.source));
  XPURUN_TRY(Reader(dump).read());
  return dump;
}

}  // namespace xpurun::report
