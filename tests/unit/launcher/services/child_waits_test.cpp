#include "launcher/processes/child_waits.h"

#include <doctest/doctest.h>

#include <map>

using namespace xpurun;
using namespace xpurun::launcher;

namespace {

using Frames = std::vector<stackdump::CodeName>;

const Frames kJoins = {{"Popen.poll", "/lib/python3.11/multiprocessing/popen_fork.py"},
                       {"BaseProcess.join", "/lib/python3.11/multiprocessing/process.py"}};
const Frames kSpawns = {{"ProcessContext.join", "/site/torch/multiprocessing/spawn.py"}};
const Frames kTrains = {{"step", "/home/u/train.py"}};

using Pids = std::set<base::Pid>;

// Processes by what their main threads do; one that is absent has no Python.
struct ChildWaitsScene {
  struct Process {
    Frames frames;
    bool readable = true;
    int opened = 0;
  };
  std::map<base::Pid, Process> processes;
  std::map<base::Pid, int> tries;
  ChildWaits waits{5, [this](base::Pid pid) -> ChildWaits::Reader {
                     ++tries[pid];
                     const auto it = processes.find(pid);
                     if (it == processes.end()) {
                       return {};
                     }
                     ++it->second.opened;
                     return [&p = it->second] { return p.readable ? std::optional(p.frames) : std::nullopt; };
                   }};

  Pids look(double at_s, const std::vector<base::Pid>& pids = {7}) {
    return waits.look(pids, base::s_to_ns(100 + at_s));
  }
};

}  // namespace

TEST_CASE("a join counts after a while, a launcher's join at once") {
  ChildWaitsScene s;
  s.processes[7].frames = kJoins;
  s.processes[8].frames = kSpawns;
  s.processes[9].frames = kTrains;
  CHECK(s.look(0, {7, 8, 9}) == Pids{8});
  CHECK(s.look(4.9, {7, 8, 9}) == Pids{8});
  CHECK(s.look(5, {7, 8, 9}) == Pids{7, 8});
}

TEST_CASE("a join that ends starts the patience anew") {
  ChildWaitsScene s;
  s.processes[7].frames = kJoins;
  CHECK(s.look(0).empty());
  s.processes[7].frames = kTrains;
  CHECK(s.look(4).empty());
  s.processes[7].frames = kJoins;
  CHECK(s.look(6).empty());
  CHECK(s.look(10).empty());
  CHECK(s.look(11) == Pids{7});
}

TEST_CASE("a process counts for half a minute after its last wait") {
  ChildWaitsScene s;
  s.processes[7].frames = kSpawns;
  CHECK(s.look(0) == Pids{7});
  s.processes[7].frames = kTrains;
  CHECK(s.look(29) == Pids{7});
  CHECK(s.look(30).empty());
  // What has stopped counting has to wait again.
  s.processes[7].frames = kJoins;
  CHECK(s.look(31).empty());
}

TEST_CASE("a process that cannot be opened is tried again after a second") {
  ChildWaitsScene s;
  for (int tenth = 0; tenth <= 20; ++tenth) {
    CHECK(s.look(0.1 * tenth).empty());
  }
  CHECK(s.tries[7] == 3);
  s.processes[7].frames = kSpawns;
  CHECK(s.look(3) == Pids{7});
  CHECK(s.look(3.1) == Pids{7});
  CHECK(s.tries[7] == 4);
}

TEST_CASE("a process that starts another program is opened again, at most once a second") {
  ChildWaitsScene s;
  s.processes[7].frames = kSpawns;
  CHECK(s.look(0) == Pids{7});
  s.processes[7].readable = false;
  CHECK(s.look(0.1) == Pids{7});  // it counts a while longer
  CHECK(s.look(0.2) == Pids{7});
  CHECK(s.processes[7].opened == 1);
  s.look(1);
  CHECK(s.processes[7].opened == 2);
  s.processes[7].readable = true;
  s.processes[7].frames = kTrains;
  s.look(2);
  CHECK(s.processes[7].opened == 3);
  CHECK(s.look(31).empty());
}

TEST_CASE("a process that is not asked about is forgotten") {
  ChildWaitsScene s;
  s.processes[7].frames = kJoins;
  s.look(0);
  CHECK(s.look(5) == Pids{7});
  CHECK(s.look(5.1, {}).empty());
  CHECK(s.look(5.2).empty());
  CHECK(s.processes[7].opened == 2);
}

TEST_CASE("a process without Python does not wait") {
  // By the product's own opener: pid 5000001 is above all pids of the kernel.
  ChildWaits waits(0);
  CHECK(waits.look({5'000'001}, base::s_to_ns(1)).empty());
}
