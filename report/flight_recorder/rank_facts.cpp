#include "report/flight_recorder/rank_facts.h"

#include "common/base/strings.h"
#include "common/model/rank_set.h"
#include "report/diagnosis/waits/code_place.h"
#include "report/flight_recorder/collective_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

namespace xpurun::report {

using model::CallOperation;
using model::CallStage;
using model::CollectiveCall;
using model::Communicator;

namespace {

constexpr size_t kMostFinished = 16;  // finished calls kept per communicator
constexpr size_t kMostCalls = 1024;   // calls kept per communicator
constexpr size_t kMostFrames = 200;
constexpr double kLongestAgeS = 1e8;
constexpr std::string_view kCoalesced = "coalesced";

// The number of elements of all tensors; saturates at 64 bits.
uint64_t elements(const PlainTree& tree, const PlainValue& shapes) {
  constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();
  uint64_t sum = 0;
  for (const PlainValue& shape : tree.items(shapes)) {
    uint64_t product = 1;
    for (const PlainValue& dim : tree.items(shape)) {
      const auto size = static_cast<uint64_t>(std::max<int64_t>(integer_of(&dim).value_or(0), 0));
      product = size != 0 && product > kMost / size ? kMost : product * size;
    }
    sum = sum > kMost - product ? kMost : sum + product;
  }
  return sum;
}

model::CodeLocation location(const PlainTree& tree, const PlainValue& list) {
  std::vector<model::Frame> frames;
  for (const PlainValue& item : tree.items(list)) {
    if (frames.size() == kMostFrames) {
      break;
    }
    model::Frame frame;
    frame.func = base::sanitize(text_of(tree.member(item, "name")));
    frame.file = base::sanitize(text_of(tree.member(item, "filename")));
    const int64_t line = integer_of(tree.member(item, "line")).value_or(0);
    frame.line = line > 0 && line <= std::numeric_limits<int>::max() ? static_cast<int>(line) : 0;
    // C++ frames appear with TORCH_NCCL_TRACE_CPP_STACK.
    frame.kind = frame.file.ends_with(".py") || frame.file.starts_with('<') ? model::FrameKind::python
                                                                            : model::FrameKind::native;
    frames.push_back(std::move(frame));
  }
  model::CodeLocation where = place_of(frames);
  // Inside torch the line calls a decorator; the operation names the real callee.
  where.callee.clear();
  return where;
}

// "send 0->1", "recv 0<-1": the first number is the rank itself.
struct Transfer {
  bool send = false;
  int rank = -1;
  int peer = -1;
};
std::optional<Transfer> transfer_of(std::string_view op) {
  const bool send = op.starts_with("send ");
  if (!send && !op.starts_with("recv ")) {
    return std::nullopt;
  }
  const std::string_view pair = op.substr(5);
  const size_t arrow = pair.find(send ? "->" : "<-");
  if (arrow == std::string_view::npos) {
    return std::nullopt;
  }
  const auto mine = base::parse_int(pair.substr(0, arrow));
  const auto other = base::parse_int(pair.substr(arrow + 2));
  const auto good = [](std::optional<int64_t> n) { return n && *n >= 0 && *n < (1 << 24); };
  if (!good(mine) || !good(other)) {
    return std::nullopt;
  }
  return Transfer{.send = send, .rank = static_cast<int>(*mine), .peer = static_cast<int>(*other)};
}

bool is_p2p(const FlightEntry& e) {
  return e.p2p || e.op.starts_with("send ") || e.op.starts_with("recv ");
}

// All operations of one process group.
struct CallGroup {
  std::vector<FlightEntry> collectives;  // one per sequence number, ordered by it
  std::vector<FlightEntry> transfers;    // in the order of the calls
  int64_t pg_id = -1;
};

class Converter {
 public:
  Converter(const FlightDump& dump, base::Rank rank, int64_t taken_ns)
      : dump_(dump), rank_(rank), taken_ns_(taken_ns > 0 ? taken_ns : dump.newest_ns) {
    wrapped_ = !dump.entries.empty() && dump.entries.front().record_id > 0;
  }

  RankFacts run() {
    sort_entries();
    for (const FlightGroup& g : dump_.groups) {
      if (&g != unnamed_config() || groups_.empty()) {
        groups_.try_emplace(g.name);
      }
    }
    for (const auto& [name, group] : groups_) {
      add_communicator(name, group);
    }
    out_.collectives.rank = rank_;
    out_.taken_ns = taken_ns_;
    return std::move(out_);
  }

 private:
  // Operations of one coalesced group share their sequence numbers. The last entry, "coalesced", has the
  // group's state; the earlier entries have sizes but no state.
  void sort_entries() {
    for (const FlightEntry& e : dump_.entries) {
      CallGroup& group = groups_[e.group];
      group.pg_id = e.pg_id >= 0 ? e.pg_id : group.pg_id;
      if (e.op == kCoalesced) {
        settle(group, e);
      } else if (is_p2p(e)) {
        group.transfers.push_back(e);
      } else if (!group.collectives.empty() && group.collectives.back().sequence == e.sequence) {
        // For a second operation of the same coalesced group, the first stands for both.
      } else {
        group.collectives.push_back(e);
      }
    }
    for (auto& [name, group] : groups_) {
      number(group);
    }
  }

  static void settle(CallGroup& group, const FlightEntry& coalesced) {
    const auto settle_one = [&](FlightEntry& e) {
      if (e.state == FlightState::scheduled) {
        e.state = coalesced.state;
        e.retired = coalesced.retired;
      }
    };
    for (auto it = group.transfers.rbegin(); it != group.transfers.rend(); ++it) {
      if (it->sequence != coalesced.sequence || it->p2p_sequence != coalesced.p2p_sequence) {
        break;
      }
      settle_one(*it);
    }
    if (!group.collectives.empty() && group.collectives.back().sequence == coalesced.sequence) {
      settle_one(group.collectives.back());
    }
  }

  // Format 1 counts collectives and transfers together, so ranks may disagree on the number.
  void number(CallGroup& group) {
    if (dump_.major >= 2 || group.transfers.empty()) {
      return;
    }
    int64_t next = 1;
    for (FlightEntry& e : group.collectives) {
      e.sequence = next++;
    }
  }

  // torch may leave out the name of the only group, which the entries have.
  const FlightGroup* unnamed_config() const {
    const bool one = dump_.groups.size() == 1 && dump_.groups.front().name.empty();
    return one ? &dump_.groups.front() : nullptr;
  }

  void add_communicator(std::string_view name, const CallGroup& group) {
    const FlightGroup* named = dump_.group(name);
    const FlightGroup* config = named != nullptr ? named : unnamed_config();
    const FlightStatus* status = dump_.status_of(group.pg_id);
    Communicator c{.source = model::CallSource::torch};
    if (config != nullptr) {
      c.members.assign(config->ranks.begin(), config->ranks.end());
      c.size = static_cast<int>(config->ranks.size());
      const auto me = std::find(c.members.begin(), c.members.end(), rank_);
      c.rank = me == c.members.end() ? -1 : static_cast<int>(me - c.members.begin());
    }
    if (!c.members.empty() && c.rank < 0) {
      return;
    }
    const bool described =
        config != nullptr && !config->description.empty() && config->description != "undefined";
    c.name = base::sanitize(described ? config->description : name);
    // Groups of different ranks may have the same name.
    model::RankSet members;
    for (const base::Rank r : c.members) {
      members.insert(r);
    }
    c.id = fmt::format("{}/{}", base::sanitize(name), members.text());
    count(c, group, status);
    add_calls(c, group, status);
    add_transfers(c, group);
    out_.collectives.communicators.push_back(std::move(c));
  }

  void count(Communicator& c, const CallGroup& group, const FlightStatus* status) const {
    const auto last = [](int64_t n) { return static_cast<uint64_t>(std::max<int64_t>(n, 0)); };
    const uint64_t by_status = status == nullptr ? 0 : last(status->last_enqueued);
    const uint64_t done_by_status = status == nullptr ? 0 : last(status->last_completed);
    c.called = group.collectives.empty() ? by_status : last(group.collectives.back().sequence);
    c.launched = status == nullptr ? c.called : std::min(c.called, by_status);
    const auto before = [&](auto unfinished) {
      const auto it = std::find_if(group.collectives.begin(), group.collectives.end(), unfinished);
      return it == group.collectives.end() ? c.called : last(it->sequence - 1);
    };
    c.done = group.collectives.empty()
                 ? std::min(c.called, done_by_status)
                 : before([](const FlightEntry& e) { return e.state != FlightState::completed; });
    c.started =
        !dump_.starts_seen || group.collectives.empty()
            ? c.done
            : std::max(c.done,
                       before([](const FlightEntry& e) { return e.state == FlightState::scheduled; }));
    c.launched = std::max(c.launched, c.started);
    c.done_known = true;
    // Without entries and without the watchdog's numbers, a full buffer says nothing about this group. Format
    // 1 numbers that do not start at the beginning are not comparable between ranks.
    const bool nothing_left = group.collectives.empty() && status == nullptr && wrapped_;
    const bool renumbered = dump_.major < 2 && !group.transfers.empty();
    c.comparable = !nothing_left && !(renumbered && wrapped_);
  }

  void add_calls(Communicator& c, const CallGroup& group, const FlightStatus* status) const {
    const auto& all = group.collectives;
    size_t first = 0;
    while (first < all.size() && all[first].state == FlightState::completed) {
      ++first;
    }
    first -= std::min(first, kMostFinished);
    first = std::max(first, all.size() - std::min(all.size(), kMostCalls));
    for (size_t i = first; i < all.size(); ++i) {
      CollectiveCall call = describe(all[i], op_word(all[i].op));
      const bool enqueued = status == nullptr || all[i].sequence <= status->last_enqueued;
      call.sequence = static_cast<uint64_t>(all[i].sequence);
      call.stage = call.stage == CallStage::launched && !enqueued ? CallStage::called : call.stage;
      c.calls.push_back(std::move(call));
    }
  }

  void add_transfers(Communicator& c, const CallGroup& group) {
    std::map<std::pair<bool, int>, PairProgress> pairs;
    std::map<std::pair<bool, int>, uint64_t> waiting;
    for (const FlightEntry& e : group.transfers) {
      const auto transfer = transfer_of(e.op);
      if (!transfer) {
        continue;
      }
      c.rank = c.rank < 0 ? transfer->rank : c.rank;
      const std::pair key(transfer->send, transfer->peer);
      PairProgress& pair = pairs
                               .try_emplace(key, PairProgress{.communicator = c.id,
                                                              .send = transfer->send,
                                                              .rank = transfer->rank,
                                                              .peer = transfer->peer,
                                                              .from_the_start = !wrapped_})
                               .first->second;
      if (e.state == FlightState::completed) {
        // If a call is done, all calls before it are done: the list must not begin with an older call.
        pair.finished += 1 + std::exchange(waiting[key], 0);
        std::erase_if(c.point_to_point, [&](const CollectiveCall& call) {
          return call.peer == transfer->peer && (call.operation() == CallOperation::send) == transfer->send;
        });
        continue;
      }
      if (c.point_to_point.size() < kMostCalls) {
        CollectiveCall call =
            describe(e, std::string(name_of(transfer->send ? CallOperation::send : CallOperation::recv)));
        call.peer = transfer->peer;
        call.sequence = pair.finished + ++waiting[key];
        c.point_to_point.push_back(std::move(call));
      }
    }
    for (auto& [key, pair] : pairs) {
      out_.pairs.push_back(std::move(pair));
    }
  }

  CollectiveCall describe(const FlightEntry& e, std::string op) const {
    CollectiveCall call{.op = std::move(op)};
    // The tensor of a barrier is torch's own, not the program's.
    if (call.operation() != CallOperation::barrier) {
      call.count =
          elements(dump_.tree, count_of(call.op) == CountOf::output ? e.output_sizes : e.input_sizes);
      const auto dtypes = dump_.tree.items(e.input_dtypes);
      call.dtype = dtypes.empty() ? std::string() : dtype_word(text_of(&dtypes[0]));
    }
    call.stage = e.state == FlightState::completed ? CallStage::done
                 : e.state == FlightState::started ? CallStage::started
                                                   : CallStage::launched;
    // In floating point, because a damaged file may hold any number.
    const double age_s = (static_cast<double>(taken_ns_) - static_cast<double>(e.created_ns)) / 1e9;
    call.age_s = e.created_ns > 0 && age_s >= 0 && age_s < kLongestAgeS ? age_s : -1;
    call.where = location(dump_.tree, e.frames);
    return call;
  }

  const FlightDump& dump_;
  base::Rank rank_;
  int64_t taken_ns_;
  bool wrapped_ = false;  // the oldest entries have left the buffer
  std::map<std::string_view, CallGroup> groups_;
  RankFacts out_;
};

}  // namespace

RankFacts rank_facts(const FlightDump& dump, base::Rank rank, int64_t taken_ns) {
  return Converter(dump, rank, taken_ns).run();
}

void align_ages(std::vector<RankFacts>& ranks) {
  int64_t newest_ns = 0;
  for (const RankFacts& r : ranks) {
    newest_ns = std::max(newest_ns, r.taken_ns);
  }
  for (RankFacts& r : ranks) {
    const double more_s = static_cast<double>(newest_ns - r.taken_ns) / 1e9;
    for (Communicator& c : r.collectives.communicators) {
      for (auto* calls : {&c.calls, &c.point_to_point}) {
        for (CollectiveCall& call : *calls) {
          call.age_s = call.age_s >= 0 && call.age_s + more_s < kLongestAgeS ? call.age_s + more_s : -1;
        }
      }
    }
    r.taken_ns = newest_ns;
  }
}

void align_point_to_point(std::vector<RankFacts>& ranks) {
  // Both sides of one direction: sender and receiver.
  struct Sides {
    const PairProgress* send = nullptr;
    const PairProgress* receive = nullptr;
  };
  std::map<std::tuple<std::string, int, int>, Sides> all;
  for (const RankFacts& r : ranks) {
    for (const PairProgress& p : r.pairs) {
      Sides& sides = all[{p.communicator, p.send ? p.rank : p.peer, p.send ? p.peer : p.rank}];
      (p.send ? sides.send : sides.receive) = &p;
    }
  }
  for (RankFacts& r : ranks) {
    for (const PairProgress& p : r.pairs) {
      const Sides& sides = all[{p.communicator, p.send ? p.rank : p.peer, p.send ? p.peer : p.rank}];
      if (sides.send == nullptr || sides.receive == nullptr ||
          (sides.send->from_the_start && sides.receive->from_the_start)) {
        continue;
      }
      const uint64_t more = std::max(sides.send->finished, sides.receive->finished) - p.finished;
      for (Communicator& c : r.collectives.communicators) {
        for (CollectiveCall& call : c.point_to_point) {
          if (c.id == p.communicator && call.peer == p.peer &&
              (call.operation() == CallOperation::send) == p.send) {
            call.sequence += more;
          }
        }
      }
    }
  }
}

}  // namespace xpurun::report
