#include "common/model/collectives.h"

#include "common/model/json_visitors.h"
#include "common/model/verdict_fields.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <map>

namespace xpurun::model {

template <typename V, Self<CollectiveCall> C>
void fields(V& visit, C& c) {
  visit("sequence", c.sequence);
  visit("op", c.op);
  visit("name", c.name, WhenEmpty::omit);
  visit("reduce", c.reduce, WhenEmpty::omit);
  visit("count", c.count);
  visit("dtype", c.dtype, WhenEmpty::omit);
  visit.optional("root", c.root);
  visit.optional("peer", c.peer);
  visit("tag", c.tag, WhenEmpty::omit);
  visit("exclusive", c.exclusive, WhenEmpty::omit);
  visit("stage", c.stage);
  visit("age_s", c.age_s);
  visit.optional("left_s", c.left_s);
  visit("where", c.where);
  visit("thread", c.thread, WhenEmpty::omit);
  visit("in_handler", c.in_handler, WhenEmpty::omit);
  visit("raised", c.raised, WhenEmpty::omit);
  visit("group_ranks", c.group_ranks, WhenEmpty::omit);
  visit("sent", c.sent, WhenEmpty::omit);
  visit("received", c.received, WhenEmpty::omit);
  visit.hex("history", c.history, WhenEmpty::omit);
}

template <typename V, Self<CallLane::Kind> K>
void fields(V& visit, K& k) {
  visit("communicator", k.communicator);
  visit("call", k.call);
}

// Numbers as one text, because a list takes a line for each.
template <typename T>
void numbers(JsonWriter& visit, const char* key, const std::vector<T>& values) {
  visit(key, fmt::format("{}", fmt::join(values, " ")));
}

template <typename T>
void numbers(JsonReader& visit, const char* key, std::vector<T>& values) {
  std::string text;
  visit(key, text);
  const char* at = text.data();
  const char* end = at + text.size();
  for (T value{}; at != end;) {
    const auto [next, error] = std::from_chars(at, end, value);
    if (error != std::errc()) {
      break;
    }
    values.push_back(value);
    at = next == end ? next : next + 1;
  }
}

template <typename V, Self<CallLane> L>
void fields(V& visit, L& l) {
  visit("source", l.source);
  visit("thread", l.thread, WhenEmpty::omit);
  visit("kinds", l.kinds);
  numbers(visit, "order", l.order);
  numbers(visit, "numbers", l.numbers);
}

// Longer member lists are written as a set, "0-7999", because every rank of a large job has such a list.
constexpr size_t kFewMembers = 64;
constexpr size_t kMostMembers = 1 << 20;

void members(JsonWriter& visit, const Communicator& c) {
  const bool as_set =
      c.members.size() > kFewMembers && c.members.front() >= 0 &&
      std::adjacent_find(c.members.begin(), c.members.end(), std::greater_equal<>()) == c.members.end();
  visit("members", as_set ? std::vector<base::Rank>() : c.members);
  if (as_set) {
    RankSet set;
    for (const base::Rank rank : c.members) {
      set.insert(rank);
    }
    visit("member_set", set.text());
  }
}

// The members that the rest of the file may still list; the file is read by this thread.
thread_local constinit size_t g_members_left = 0;

void members(JsonReader& visit, Communicator& c) {
  visit("members", c.members);
  std::string text;
  visit("member_set", text);
  const auto set = RankSet::parse(text);
  // A few bytes of input can stand for a million ranks, in each communicator of a file.
  if (c.members.empty() && set && set->size() <= g_members_left) {
    g_members_left -= set->size();
    c.members = set->ranks();
  }
}

template <typename V, Self<HeldLock> L>
void fields(V& visit, L& l) {
  visit.optional("target", l.target);
  visit("exclusive", l.exclusive);
}

template <typename V, Self<Communicator> C>
void fields(V& visit, C& c) {
  visit("source", c.source);
  visit("id", c.id);
  visit("name", c.name, WhenEmpty::omit);
  visit("rank", c.rank);
  visit("size", c.size);
  members(visit, c);
  visit("called", c.called);
  visit("launched", c.launched);
  visit("started", c.started);
  visit("done", c.done);
  visit("done_known", c.done_known);
  visit("comparable", c.comparable);
  visit("messages_known", c.messages_known);
  visit("calls", c.calls);
  visit("messages", c.messages, WhenEmpty::omit);
  visit("messages_done", c.messages_done, WhenEmpty::omit);
  visit("point_to_point", c.point_to_point, WhenEmpty::omit);
  visit("window", c.window, WhenEmpty::omit);
  visit("locks", c.locks, WhenEmpty::omit);
}

template <typename V, Self<Joining> J>
void fields(V& visit, J& j) {
  visit.rank("rank", j.rank);
  visit("size", j.size);
  visit("place", j.place);
}

template <typename V, Self<RankCollectives> R>
void fields(V& visit, R& r) {
  visit.rank("rank", r.rank);
  visit("pid", r.pid);
  visit("communicators", r.communicators);
  visit("lanes", r.lanes, WhenEmpty::omit);
  visit("joining", r.joining, WhenEmpty::omit);
  visit("steps", r.steps, WhenEmpty::omit);
}

template <typename V, Self<CollectiveFacts> F>
void fields(V& visit, F& f) {
  visit("ranks", f.ranks);
}

RankCollectives& CollectiveFacts::of(base::Rank rank, base::Pid pid) {
  const auto known =
      std::find_if(ranks.begin(), ranks.end(), [&](const RankCollectives& r) { return r.pid == pid; });
  return known != ranks.end() ? *known : ranks.emplace_back(RankCollectives{rank, pid, {}});
}

nlohmann::ordered_json to_json(const CollectiveFacts& facts) {
  return write_object(kCollectivesSchema, facts);
}

base::Result<CollectiveFacts> collective_facts_from_json(const nlohmann::json& j) {
  g_members_left = 4 * kMostMembers;
  return read_object<CollectiveFacts>(kCollectivesSchema, "collective facts", j);
}

base::Result<CollectiveFacts> load_collective_facts(const std::string& path) {
  return load_object(path, collective_facts_from_json);
}

namespace {

// Ranks on several nodes may have the same pid.
const Communicator* same_communicator(const CollectiveFacts& facts, const RankCollectives& of,
                                      const Communicator& wanted) {
  for (const RankCollectives& rank : facts.ranks) {
    if (rank.rank == of.rank && rank.pid == of.pid) {
      for (const Communicator& c : rank.communicators) {
        if (c.source == wanted.source && c.id == wanted.id) {
          return &c;
        }
      }
    }
  }
  return nullptr;
}

// The newest call of any rank, by the id of the communicator.
std::map<std::string, uint64_t> newest_calls(const CollectiveFacts& facts) {
  std::map<std::string, uint64_t> newest;
  for (const RankCollectives& rank : facts.ranks) {
    for (const Communicator& c : rank.communicators) {
      newest[c.id] = std::max(newest[c.id], c.called);
    }
  }
  return newest;
}

// Forgets everything of this rank from the end of call `newest` on.
void turn_back(Communicator& c, uint64_t newest) {
  std::erase_if(c.calls, [&](const CollectiveCall& call) { return call.sequence > newest; });
  for (CollectiveCall& call : c.calls) {
    if (call.sequence == newest && call.stage == CallStage::done) {
      call.stage = CallStage::called;
    }
  }
  c.called = std::min(c.called, newest);
  c.launched = std::min(c.launched, newest);
  c.started = std::min(c.started, newest);
  c.done = std::min(c.done, newest - std::min<uint64_t>(newest, 1));
  c.point_to_point.clear();
}

// How much later the second record was made, in seconds; 0 if unknown.
double time_between(const Communicator& first, const Communicator& second) {
  for (const CollectiveCall& call : first.calls) {
    const auto same = std::find_if(second.calls.begin(), second.calls.end(), [&](const CollectiveCall& c) {
      return c.sequence == call.sequence && c.age_s >= 0 && call.age_s >= 0;
    });
    if (same != second.calls.end()) {
      return same->age_s - call.age_s;
    }
  }
  return 0;
}

}  // namespace

void add_unseen_ranks(CollectiveFacts& facts, CollectiveFacts later) {
  const std::map<std::string, uint64_t> newest = newest_calls(facts);
  for (RankCollectives& rank : later.ranks) {
    const bool seen = std::any_of(facts.ranks.begin(), facts.ranks.end(),
                                  [&](const RankCollectives& known) { return known.rank == rank.rank; });
    std::erase_if(rank.communicators,
                  [&](const Communicator& c) { return !c.comparable || !newest.contains(c.id); });
    if (seen || rank.communicators.empty()) {
      continue;
    }
    for (Communicator& c : rank.communicators) {
      turn_back(c, newest.at(c.id));
    }
    facts.ranks.push_back(std::move(rank));
  }
}

std::vector<RequestsLeft> requests_left(const CollectiveFacts& facts) {
  std::vector<RequestsLeft> out;
  for (const RankCollectives& r : facts.ranks) {
    RequestsLeft left{.rank = r.rank, .count = 0, .first = {}};
    for (const Communicator& c : r.communicators) {
      const auto global = [&c](int rank) {
        const bool known = rank >= 0 && static_cast<size_t>(rank) < c.members.size();
        return known ? c.members[static_cast<size_t>(rank)] : rank;
      };
      for (const auto* calls : {&c.point_to_point, &c.calls}) {
        for (const CollectiveCall& call : *calls) {
          if (c.source == CallSource::mpi && call.stage == CallStage::launched && left.count++ == 0) {
            left.first = call;
            left.first.peer = global(call.peer);
            left.first.root = global(call.root);
          }
        }
      }
    }
    if (left.count > 0) {
      out.push_back(std::move(left));
    }
  }
  return out;
}

namespace {

// The places of calls become known later than the calls.
void add_places(std::vector<CollectiveCall>& calls, const std::vector<CollectiveCall>& later) {
  for (CollectiveCall& call : calls) {
    const auto same = std::find_if(later.begin(), later.end(), [&](const CollectiveCall& c) {
      return c.sequence == call.sequence && c.op == call.op && c.peer == call.peer && c.tag == call.tag &&
             c.stage == call.stage;
    });
    call.where = call.where.empty() && same != later.end() ? same->where : call.where;
  }
}

}  // namespace

void add_later_calls(CollectiveFacts& facts, const CollectiveFacts& later) {
  std::map<std::string, uint64_t> newest = newest_calls(facts);
  for (RankCollectives& rank : facts.ranks) {
    for (Communicator& c : rank.communicators) {
      const Communicator* end = same_communicator(later, rank, c);
      if (end == nullptr || !c.comparable || !end->comparable) {
        continue;
      }
      add_places(c.calls, end->calls);
      add_places(c.point_to_point, end->point_to_point);
      const double between_s = time_between(c, *end);
      for (const CollectiveCall& call : end->calls) {
        if (call.sequence == c.called + 1 && call.sequence <= newest[c.id]) {
          CollectiveCall& added = c.calls.emplace_back(call);
          added.age_s = call.age_s < 0 ? call.age_s : std::max(call.age_s - between_s, 0.0);
          added.left_s = call.left_s < between_s ? -1 : call.left_s - between_s;
          c.called = call.sequence;
          c.launched = std::max(c.launched, std::min(end->launched, c.called));
        }
      }
    }
  }
}

}  // namespace xpurun::model
