// Random histories of ranks, compared with a slow reference that looks at each rank's whole history.
#include "launcher/watch/hang_detector.h"
#include "tests/support/rounds.h"

#include <doctest/doctest.h>

#include <map>
#include <random>
#include <string>

using namespace xpurun;
using namespace xpurun::launcher;
using model::RankSet;

namespace {

constexpr base::MonoNs kHistorySecond = 1'000'000'000;
constexpr base::MonoNs kTick = kHistorySecond / 4;
// A stuck group may be unsaid for one timeout and this time.
constexpr base::MonoNs kSlack = 3 * kHistorySecond;

enum class Doing { working, idle, waiting, stuck, ended };

struct Actor {
  Doing doing = Doing::working;
  base::MonoNs since = 0;  // of the state
  base::MonoNs last_progress = 0;
  RankSet with = {};     // waiting: the ranks of the call; empty: not recorded
  bool in_lock = false;  // stuck: waits for one of its own threads
  unsigned condition = 0;
};

struct History {
  explicit History(unsigned seed)
      : random(seed), timeout_s(pick(2, 20)), detector(timeout_s, 0), actors(pick(2, 8)) {}

  std::mt19937 random;
  int timeout_s;
  HangDetector detector;
  std::vector<Actor> actors;
  base::MonoNs now = 0;
  std::map<int, RankSet> open;              // as the events say
  std::map<base::Rank, base::MonoNs> said;  // when an event last named the rank
  std::map<base::Rank, RankSet> said_with;  // the ranks that lived then
  base::MonoNs living_since = 0;            // no rank has ended or begun since

  int pick(int from, int to) { return std::uniform_int_distribution<int>(from, to)(random); }
  bool rarely(int one_in) { return pick(1, one_in) == 1; }
  base::MonoNs timeout() const { return timeout_s * kHistorySecond; }
  bool alive(const Actor& a) const { return a.doing != Doing::ended; }
  RankSet living() const {
    RankSet out;
    for (size_t i = 0; i < actors.size(); ++i) {
      if (alive(actors[i])) {
        out.insert(static_cast<base::Rank>(i));
      }
    }
    return out;
  }

  void turn(Actor& a, Doing doing) {
    living_since = doing == Doing::ended || a.doing == Doing::ended ? now : living_since;
    // A rank makes progress up to the moment at which it stops.
    a = {.doing = doing, .since = now, .last_progress = now, .in_lock = doing == Doing::stuck && rarely(2)};
    if (doing == Doing::waiting && rarely(2)) {
      for (size_t i = 0; i < actors.size(); ++i) {
        if (&actors[i] != &a && rarely(2)) {
          a.with.insert(static_cast<base::Rank>(i));
        }
      }
    }
  }

  void live() {
    for (Actor& a : actors) {
      const bool lasting = a.doing == Doing::stuck || a.doing == Doing::ended;
      if (rarely(lasting ? 2000 : 300)) {
        const Doing next[] = {Doing::working, Doing::working, Doing::idle,
                              Doing::waiting, Doing::stuck,   Doing::ended};
        turn(a, next[pick(0, 5)]);
      }
      // A working rank is seen at one place for less than the timeout.
      if (a.doing == Doing::working && (rarely(4) || now - a.last_progress >= timeout() - kHistorySecond)) {
        a.last_progress = now;
      }
      a.condition = rarely(100) ? static_cast<unsigned>(pick(0, 2)) : a.condition;
    }
  }

  std::vector<StillRank> input() const {
    std::vector<StillRank> out;
    for (size_t i = 0; i < actors.size(); ++i) {
      const Actor& a = actors[i];
      if (alive(a)) {
        out.push_back({.rank = static_cast<base::Rank>(i),
                       .last_progress = a.last_progress,
                       .waits_for = a.doing == Doing::waiting ? WaitTarget::peers
                                    : a.doing == Doing::idle  ? WaitTarget::outside
                                    : a.in_lock               ? WaitTarget::helpers
                                                              : WaitTarget::nobody,
                       .with = a.with,
                       .condition = a.condition});
      }
    }
    return out;
  }

  const Actor& of(base::Rank rank) const { return actors[static_cast<size_t>(rank)]; }

  void take(const std::vector<StallEvent>& events) {
    for (const StallEvent& e : events) {
      if (e.change == StallChange::cleared || e.change == StallChange::merged) {
        REQUIRE(open.erase(e.stall) == 1);
        continue;
      }
      REQUIRE((e.change == StallChange::raised) == (open.count(e.stall) == 0));
      REQUIRE(e.ranks.contains(e.longest));
      if (e.change == StallChange::raised) {
        check_company(e.ranks);
      }
      open[e.stall] = e.ranks;
      for (const base::Rank rank : e.ranks.ranks()) {
        // No healthy rank is said: only ranks without progress for the timeout, and ranks that wait and are
        // almost due.
        REQUIRE(alive(of(rank)));
        REQUIRE(of(rank).doing != Doing::working);
        const bool waits = of(rank).doing == Doing::waiting || of(rank).in_lock;
        REQUIRE(now - of(rank).last_progress >= timeout() - (waits ? early() : 0));
        said[rank] = now;
        said_with[rank] = living();
      }
    }
  }

  base::MonoNs early() const { return std::min(kNearNs, timeout() / 2); }

  bool in_a_stall(base::Rank rank) const {
    return std::any_of(open.begin(), open.end(),
                       [&](const auto& stall) { return stall.second.contains(rank); });
  }

  // Of two ranks that deadlock at nearly the same time, none is left out.
  void check_company(const RankSet& raised) const {
    for (const base::Rank rank : raised.ranks()) {
      for (size_t i = 0; i < actors.size(); ++i) {
        const Actor& other = actors[i];
        const auto near = std::abs(other.last_progress - of(rank).last_progress) <= kNearNs;
        if (of(rank).in_lock && other.in_lock && near && now - of(rank).last_progress >= timeout() &&
            now - other.last_progress >= timeout() - early()) {
          const auto n = static_cast<base::Rank>(i);
          REQUIRE((raised.contains(n) || in_a_stall(n)));
        }
      }
    }
  }

  bool someone_may_wait_for_any() const {
    return std::any_of(actors.begin(), actors.end(), [&](const Actor& a) {
      return a.doing == Doing::waiting && a.with.empty() && now - a.last_progress >= timeout() - kSlack;
    });
  }

  bool someone_waits_for(base::Rank rank) const {
    return std::any_of(actors.begin(), actors.end(),
                       [&](const Actor& a) { return a.doing == Doing::waiting && a.with.contains(rank); });
  }

  // The slow reference.
  void check() {
    for (size_t i = 0; i < actors.size(); ++i) {
      const Actor& a = actors[i];
      const auto rank = static_cast<base::Rank>(i);
      // A rank that only joins other waiting ranks changes little: their stall may be judged later.
      const base::MonoNs limit = timeout() + kSlack + (a.doing == Doing::waiting ? timeout() : 0);
      if (!alive(a) || a.doing == Doing::working || now - a.last_progress < limit) {
        continue;
      }
      // Every rank that is still was said, in the stall that it is in now.
      const auto when = said.find(rank);
      REQUIRE(when != said.end());
      REQUIRE(when->second >= a.last_progress + timeout() - (a.doing == Doing::waiting ? early() : 0));
      const auto in =
          std::count_if(open.begin(), open.end(), [&](const auto& s) { return s.second.contains(rank); });
      // A rank that moves from one stall to another one may be in none for a moment.
      missing[rank] = in >= 1 ? 0 : missing[rank] == 0 ? now : missing[rank];
      REQUIRE((missing[rank] == 0 || now - missing[rank] <= kSlack));
      if (a.doing == Doing::stuck && now - living_since > timeout() + kSlack) {
        // The ends and starts of other ranks have been taken into account.
        REQUIRE(said_with.at(rank) == living());
      }
      // An idle rank that nobody waits for blinds nobody.
      if (a.doing == Doing::idle && !someone_may_wait_for_any() && !someone_waits_for(rank) &&
          a.with.empty()) {
        for (const auto& [n, ranks] : open) {
          for (size_t j = 0; j < actors.size() && ranks.contains(rank); ++j) {
            const Actor& other = actors[j];
            const bool settled = now - other.last_progress > 2 * timeout() + kSlack;
            if (other.doing == Doing::stuck && settled && ranks.contains(static_cast<base::Rank>(j))) {
              // They may have been together while another rank waited for anybody.
              REQUIRE(now - last_unknown <= 2 * timeout() + kSlack);
            }
          }
        }
      }
    }
  }

  std::map<base::Rank, base::MonoNs> missing;  // since when the rank is in no stall; 0: it is in one
  base::MonoNs last_unknown = 0;  // a rank waited for an unknown rank, or ranks of a call for the idle one

  void run(int ticks) {
    for (int i = 0; i < ticks; ++i, now += kTick) {
      live();
      take(detector.update(now, input()));
      bool waits = someone_may_wait_for_any();
      for (const Actor& a : actors) {
        waits = waits || a.doing == Doing::waiting;
      }
      last_unknown = waits ? now : last_unknown;
      check();
    }
  }
};

}  // namespace

TEST_CASE(
    "in random histories no stuck rank goes unsaid for a timeout and 3 s, and no working rank is said") {
  for (unsigned seed = 0; seed < tests::rounds(100); ++seed) {
    CAPTURE(seed);
    History(seed).run(3000);
  }
}
