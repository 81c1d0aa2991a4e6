// The whole decision, from stacks, states, deaths, exceptions, recorded calls and the kernel's log: other
// numbers of the ranks, and another order of the facts, change nothing but the numbers; more victims, idle
// ranks and later victims change no culprit.
#include "report/diagnosis/diagnose.h"
#include "tests/unit/diagnosis/calls.h"
#include "tests/unit/diagnosis/job.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <vector>

using namespace xpurun;
using namespace xpurun::report;
using namespace xpurun::report::testing;
using model::RankSet;
using model::Verdict;

namespace {

constexpr int kRanks = 5;
using Numbers = std::vector<base::Rank>;  // the new number of each rank

struct Story {
  std::string name;
  Facts facts;
};

void raises(Job& job, base::Rank rank, double at_s, std::string message) {
  model::PythonException x{.pid = Job::pid_of(rank), .rank = rank, .thread = "MainThread", .at_s = at_s};
  x.chain.push_back({.type = "ValueError",
                     .message = std::move(message),
                     .frames = {{.file = "/home/u/train.py", .line = 20 + rank, .function = "main"}}});
  job.facts.run.exceptions.push_back(std::move(x));
}

// Rank 2 fails, the launcher ends the others.
Job failed(int status) {
  Job job(kRanks);
  job.died(2, status, 12.4);
  for (const base::Rank r : {0, 1, 3, 4}) {
    job.died(r, kTerm, 13, "ended by the launcher");
  }
  job.agent_died(exited(1), 13.5).ended(exited(1));
  return job;
}

std::vector<Story> whole_stories() {
  const Group all{.members = {0, 1, 2, 3, 4}};
  std::vector<Story> out;
  const auto add = [&](std::string name, const Job& job) { out.push_back({std::move(name), job.facts}); };
  const auto waiting = [] {
    Job job(kRanks);
    job.all(in_all_reduce());
    return job;
  };
  add("stuck", waiting().rank(3, in_sleep()).hang_dump());
  add("two stuck at different places", waiting().rank(1, in_sleep()).rank(3, in_lock()).hang_dump());
  add("minority by stacks", waiting().rank(3, in_barrier()).hang_dump());
  add("tie by stacks",
      Job(waiting()).rank(3, in_barrier()).rank(1, in_barrier()).rank(0, in_ddp_backward()).hang_dump());
  add("all wait", waiting().hang_dump());
  add("dead", waiting().hang_dump().died(4, kKill, 30));
  add("left early", waiting().hang_dump().died(4, exited(0), 30));
  add("stopped", waiting().kernel_state(1, 'T').hang_dump());
  add("uninterruptible", waiting().kernel_state(1, 'D').hang_dump());
  add("busy", waiting().rank(3, in_compute(), 0).cpu(3, 1).hang_dump());
  add("busy for long", waiting().rank(3, in_compute(), 0).cpu(3, 1).hang_dump_escalated());
  add("stuck worker", waiting().rank(2, in_dataloader()).worker(2, in_sleep()).hang_dump());
  add("unreadable", waiting().unreadable(0, "timeout").no_position(0).hang_dump());
  add("long call", Job(kRanks).all(in_sleep()).hang_dump());
  add("ended as a hang", waiting().rank(3, in_sleep()).ended_as_hang());
  add("killed", failed(kKill));
  add("exit", failed(exited(3)));
  {
    Job job = failed(exited(1));
    raises(job, 2, 12.1, "bad batch");
    raises(job, 0, 12.2, "Connection closed by peer [127.0.0.1]:4711");
    add("exception", job);
  }
  {
    Job job = waiting();
    job.notice(3, kSegv, 20).crash_dump().died(3, kSegv, 21).ended(exited(1));
    add("crash", job);
  }
  {
    Job job(kRanks);
    job.died(1, exited(0), 5);
    for (const base::Rank r : {0, 2, 3, 4}) {
      job.died(r, exited(1), 9 + r * 0.3);
    }
    add("early end", job.agent_died(exited(1), 12).ended(exited(1)));
  }
  const auto recorded = [&](std::string name, Job job, const Calls& calls) {
    job.facts.collectives = calls.facts;
    add(std::move(name), job);
  };
  recorded("another operation", waiting().hang_dump(),
           Calls().past(all, 3).enter({0, 1, 2, 4}, all, all_reduce()).enters(3, all, broadcast()));
  recorded("another size", waiting().hang_dump(),
           Calls().past(all, 3).enter({0, 1, 2, 4}, all, all_reduce()).enters(3, all, all_reduce(9)));
  recorded("not entered, and stuck", waiting().rank(2, in_sleep()).hang_dump(),
           Calls().past(all, 3).enter({0, 1, 3, 4}, all, all_reduce()));
  recorded("ended by another's size",
           waiting().notice(0, kAbrt, 20).crash_dump().died(0, kAbrt, 21).ended(exited(1)),
           Calls().past(all, 3).enter({0, 1, 2, 4}, all, all_reduce()).enters(3, all, all_reduce(9)));
  recorded("a send to the wrong rank", waiting().hang_dump(),
           Calls()
               .past(all, 3)
               .message(0, all, send(2, 1))
               .message(1, all, recv(0, 1))
               .enter({2, 3, 4}, all, operation("barrier", 10)));
  recorded("a missing send", waiting().hang_dump(),
           Calls().past(all, 3).message(0, all, recv(1, 5)).enter({1, 2, 3, 4}, all, all_reduce()));
  {
    Job job = waiting();
    job.hang_dump();
    job.facts.kernel = {.events = {{.kind = model::KernelEventKind::xid,
                                    .at_s = 49,
                                    .pid = Job::pid_of(2),
                                    .xid = 79,
                                    .pci = "0000:3b:00"}},
                        .host_pids = true};
    add("GPU error", job);
  }
  return out;
}

// The processes keep their pids.
Facts with_numbers(Facts facts, const Numbers& to, std::mt19937& random) {
  const auto change = [&](base::Rank& rank) { rank = rank >= 0 ? to[static_cast<size_t>(rank)] : rank; };
  for (auto& p : facts.run.processes) {
    change(p.rank);
  }
  for (auto& n : facts.run.crashes) {
    change(n.rank);
  }
  for (auto& x : facts.run.exceptions) {
    change(x.rank);
  }
  for (auto& s : facts.stacks) {
    change(s.rank);
  }
  if (facts.dump) {
    change(facts.dump->trigger_rank);
    for (auto& p : facts.dump->processes) {
      change(p.rank);
    }
    for (auto& r : facts.dump->ranks) {
      change(r.rank);
    }
    std::shuffle(facts.dump->processes.begin(), facts.dump->processes.end(), random);
    std::shuffle(facts.dump->ranks.begin(), facts.dump->ranks.end(), random);
  }
  for (auto& r : facts.collectives.ranks) {
    change(r.rank);
    for (auto& c : r.communicators) {
      for (base::Rank& member : c.members) {
        change(member);
      }
    }
  }
  std::shuffle(facts.stacks.begin(), facts.stacks.end(), random);
  std::shuffle(facts.run.exceptions.begin(), facts.run.exceptions.end(), random);
  std::shuffle(facts.collectives.ranks.begin(), facts.collectives.ranks.end(), random);
  std::shuffle(facts.run.processes.begin() + 1, facts.run.processes.end(), random);
  return facts;
}

constexpr base::Rank kNew = kRanks;

template <typename Of>
void copy_of(std::vector<Of>& all, base::Rank from) {
  const auto at = std::find_if(all.begin(), all.end(), [&](const Of& one) { return one.rank == from; });
  if (at != all.end()) {
    Of copy = *at;
    copy.rank = kNew;
    copy.pid = Job::pid_of(kNew);
    all.push_back(std::move(copy));
  }
}

// Another rank that does what this one does, outside of all groups.
Facts with_copy(Facts facts, base::Rank from) {
  copy_of(facts.run.processes, from);
  copy_of(facts.stacks, from);
  if (facts.dump) {
    copy_of(facts.dump->processes, from);
    copy_of(facts.dump->ranks, from);
  }
  ++facts.run.world_size;
  return facts;
}

// The same, as a member of the groups.
Facts with_another_victim(const Facts& facts, base::Rank victim) {
  Facts out = with_copy(facts, victim);
  copy_of(out.collectives.ranks, victim);
  for (auto& r : out.collectives.ranks) {
    for (auto& c : r.communicators) {
      c.members.push_back(kNew);
      c.rank = r.rank == kNew ? c.size : c.rank;
      ++c.size;
    }
  }
  return out;
}

// Another rank that serves requests from outside of the job.
Facts with_idle(const Facts& facts, base::Rank victim) {
  Facts out = with_copy(facts, victim);
  for (auto& s : out.stacks) {
    if (s.rank == kNew) {
      s.threads.front().frames = {native("epoll_wait", "libc.so.6"),
                                  py("EpollSelector.select", "/usr/lib/python3.11/selectors.py", 468),
                                  py("serve", "/home/u/serve.py", 12)};
    }
  }
  if (out.dump) {
    out.dump->ranks.back().outside = model::OutsideWait::requests;
  }
  return out;
}

// The ranks that wait for the culprits came to their calls later, each at another time.
Facts with_late(Facts facts, const RankSet& victims, std::mt19937& random) {
  std::uniform_real_distribution<double> part(0.6, 1);
  for (auto& r : facts.dump->ranks) {
    r.still_s *= victims.contains(r.rank) ? part(random) : 1;
  }
  return facts;
}

using WaitKey = std::tuple<std::string, std::string, std::string, int>;

std::multiset<WaitKey> waits_of(const Verdict& v, const Numbers& to) {
  std::multiset<WaitKey> out;
  for (const model::Waiting& w : v.waiting) {
    out.insert({renumbered(w.ranks, to).text(), w.what, w.where.file, w.where.line});
  }
  return out;
}

std::multiset<WaitKey> calls_of(const Verdict& v, const Numbers& to) {
  std::multiset<WaitKey> out;
  for (const model::CalledBy& c : v.collective.calls) {
    out.insert({renumbered(c.ranks, to).text(), c.op, c.where.file, static_cast<int>(c.count)});
  }
  return out;
}

}  // namespace

TEST_CASE("renumbering the ranks changes nothing but the numbers in the whole verdict") {
  std::mt19937 random(11);
  Numbers same(kRanks);
  for (base::Rank r = 0; r < kRanks; ++r) {
    same[static_cast<size_t>(r)] = r;
  }
  std::set<std::string> ids;
  for (const Story& story : whole_stories()) {
    CAPTURE(story.name);
    const Verdict told = diagnose(story.facts);
    ids.insert(told.id);
    for (int round = 0; round < 24; ++round) {
      Numbers to = same;
      std::shuffle(to.begin(), to.end(), random);
      const Verdict again = diagnose(with_numbers(story.facts, to, random));
      CHECK(again.id == told.id);
      CHECK(again.kind == told.kind);
      CHECK(again.level == told.level);
      CHECK(again.confidence == told.confidence);
      CHECK(again.state == told.state);
      CHECK(again.ranks == renumbered(told.ranks, to));
      CHECK(again.signal == told.signal);
      CHECK(again.exit_code == told.exit_code);
      CHECK(again.seconds == doctest::Approx(told.seconds));
      CHECK(waits_of(again, same) == waits_of(told, to));
      CHECK(calls_of(again, same) == calls_of(told, to));
      CHECK(again.collective.id == told.collective.id);
      CHECK(again.collective.op == told.collective.op);
      CHECK(again.collective.sequence == told.collective.sequence);
      CHECK(again.evidence.size() == told.evidence.size());
      CHECK(again.exception.message == told.exception.message);
      if (told.ranks.size() == 1) {
        CHECK(again.pid == told.pid);
        CHECK(again.where.file == told.where.file);
        CHECK(again.where.line == told.where.line);
      }
    }
  }
  // The stories reach many rules.
  CHECK(ids.size() >= 16);
}

TEST_CASE("more victims, idle ranks and later victims change no culprit") {
  std::mt19937 random(12);
  std::set<std::string> ids;
  for (const Story& story : whole_stories()) {
    CAPTURE(story.name);
    const Verdict told = diagnose(story.facts);
    if (told.kind != model::VerdictKind::hang || told.ranks.empty() || told.waiting.empty()) {
      continue;
    }
    const auto most = std::max_element(
        told.waiting.begin(), told.waiting.end(),
        [](const model::Waiting& a, const model::Waiting& b) { return a.ranks.size() < b.ranks.size(); });
    const base::Rank victim = most->ranks.lowest();
    std::vector<Facts> changed = {with_another_victim(story.facts, victim), with_idle(story.facts, victim)};
    for (int round = 0; round < 8; ++round) {
      changed.push_back(with_late(story.facts, most->ranks, random));
    }
    for (size_t i = 0; i < changed.size(); ++i) {
      CAPTURE(i);
      const Verdict again = diagnose(changed[i]);
      CHECK(again.id == told.id);
      CHECK(again.level == told.level);
      CHECK(again.ranks == told.ranks);
      CHECK(again.where.line == told.where.line);
    }
    ids.insert(told.id);
  }
  CHECK(ids.size() >= 8);
}
