// After a verdict, what all nodes have sent goes to every node: over the simulated network of whole jobs.
#include "launcher/nodes/agent/protocol/job_copy.h"

#include "launcher/nodes/node_limits.h"
#include "tests/unit/nodes/simulated_network.h"

#include <doctest/doctest.h>

#include <string>

using namespace xpurun;
using namespace xpurun::nodes;
using namespace xpurun::launcher;

namespace {

// A round of all nodes, up to the verdict of node 0. Returns the request.
std::string judge(Network& net, size_t count) {
  net.run(5);
  net.logic(1).from_supervisor(StateMessage{.phase = NodePhase::stalled});
  net.logic(1).from_supervisor(StalledMessage{.stall = 1, .ranks = {1}});
  net.run(4);
  std::string request;
  for (size_t i = 0; i < count; ++i) {
    const auto calls = net.heard<DumpMessage>(i);
    REQUIRE(calls.size() == 1);
    request = calls[0].request;
    net.dumped(i, request);
  }
  net.run(10);
  REQUIRE(net.heard<GatheredMessage>(0).size() == 1);
  model::Verdict verdict{.id = "hang.stuck", .kind = model::VerdictKind::hang};
  model::say(verdict, "rank 1 sleeps");
  net.logic(0).from_supervisor(VerdictMessage{.request = request, .verdict = verdict});
  return request;
}

std::string copy_of(const std::string& request) {
  return request + "+job";
}

}  // namespace

TEST_CASE("job copy: what is handed out is bounded, for one node and for all together") {
  struct Row {
    uint64_t bytes;
    size_t others;
    bool handed;
  };
  for (const Row& row :
       {Row{0, 0, false}, Row{1000, 0, false}, Row{1000, 1, true}, Row{1000, 3, true},
        Row{kMostJobFilesBytes, 1, true}, Row{kMostJobFilesBytes + 1, 1, false},
        Row{kMostJobFilesBytes, 4, true}, Row{kMostJobFilesBytes, 5, false}, Row{14'000 * 64, 63, true},
        Row{14'000 * 1000, 999, false}, Row{UINT64_MAX, 1, false}}) {
    CAPTURE(row.bytes);
    CAPTURE(row.others);
    CHECK(may_hand_out(row.bytes, row.others) == row.handed);
  }
  // Before all are packed together, by the sum of their sizes.
  CHECK(may_become_small(14'000 * 130, 129));
  CHECK_FALSE(may_become_small(14'000 * 1000, 999));
  CHECK_FALSE(may_become_small(UINT64_MAX, 1));
  CHECK_FALSE(may_become_small(0, 0));
}

TEST_CASE("job copy: every node has the files of all others, also over a bad network") {
  for (const unsigned loss : {0U, 20U}) {
    CAPTURE(loss);
    Network net(4);
    for (int i = 0; i < 200'000; ++i) {
      net.job_file += std::to_string(i * 2654435761U % 1'000'003);  // several chunks, packed
    }
    const std::string request = judge(net, 4);
    net.lose(loss);
    net.run(25);
    for (size_t i = 1; i < 4; ++i) {
      const auto verdicts = net.heard<VerdictMessage>(i);
      REQUIRE(verdicts.size() == 1);
      CHECK(verdicts[0].shared);
      const auto files = net.heard<JobFilesMessage>(i);
      REQUIRE(files.size() == 1);
      CHECK(files[0].request == request);
      CHECK(files[0].reason.empty());
      REQUIRE(files[0].nodes.size() == 4);
      CHECK(files[0].nodes[0].directory == "nodes/n0");
      CHECK(files[0].nodes[i].directory.empty());
      CHECK(net.at(i).unpacked.count("nodes/n" + std::to_string(i) + "/run.json") == 0);
      CHECK(net.at(i).unpacked["nodes/n0/run.json"] == net.job_file + "n0");
    }
    const auto over = net.heard<JobFilesMessage>(0);
    REQUIRE(over.size() == 1);
    CHECK(over[0].request == request);
    CHECK(over[0].nodes.empty());
    CHECK(over[0].reason.empty());
  }
}

TEST_CASE("job copy: archives that are too large stay where they are, and nobody waits") {
  Network net(3);
  SUBCASE("known before they are packed") {
    net.archives["/run/n2"] = std::string(4 * kMostJobFilesBytes, 'x');
    const std::string request = judge(net, 3);
    net.run(2);
    CHECK_FALSE(net.heard<VerdictMessage>(1).at(0).shared);
    CHECK(net.heard<JobFilesMessage>(1).empty());
    CHECK(net.heard<JobFilesMessage>(0).at(0).request == request);
  }
  SUBCASE("known after that") {
    net.job_archive = std::string(kMostJobFilesBytes + 1, 'x');
    const std::string request = judge(net, 3);
    net.run(2);
    CHECK(net.heard<VerdictMessage>(1).at(0).shared);
    const auto files = net.heard<JobFilesMessage>(1);
    REQUIRE(files.size() == 1);
    CHECK(files[0].nodes.empty());
    CHECK(files[0].reason == "the data of all nodes is too large to be handed out");
    CHECK(net.heard<JobFilesMessage>(0).at(0).reason.empty());
  }
}

TEST_CASE("job copy: a damaged archive is refused, and that is said once") {
  Network net(2);
  net.job_archive = "not zstd";
  judge(net, 2);
  net.run(40);
  const auto files = net.heard<JobFilesMessage>(1);
  REQUIRE(files.size() == 1);
  CHECK(files[0].nodes.empty());
  CHECK_FALSE(files[0].reason.empty());
}

TEST_CASE("job copy: offers of others than the judge, and too large ones, are dropped") {
  Network net(3);
  const std::string request = judge(net, 3);
  const auto offer = [&](size_t from, uint64_t size) {
    Network::Node& node = net.at(from);
    net.logic(1).from_server(
        encode({.from = node.name,
                .instance = node.instance,
                .body = Offer{.request = copy_of(request), .size = size, .chunk = 1000, .hash = 1}}),
        net.now(), kWall);
  };
  net.run(0.02);  // the verdict is there, the archive is not
  REQUIRE(net.heard<VerdictMessage>(1).size() == 1);
  const uint64_t before = net.logic(1).dropped();
  offer(2, 7);
  CHECK(net.logic(1).dropped() == before + 1);
  offer(0, kMostJobFilesBytes + 1);
  CHECK(net.logic(1).dropped() == before + 2);
  net.run(5);
  CHECK(net.heard<JobFilesMessage>(1).at(0).nodes.size() == 3);
}

TEST_CASE("job copy: a node that has taken it gets no chunk any more") {
  Network net(3);
  const std::string request = judge(net, 3);
  net.run(0.02);
  net.at(2).running = false;  // it lives for ten seconds more, so the archive is kept
  net.run(2);
  CHECK(net.heard<JobFilesMessage>(1).size() == 1);
  const uint64_t before = net.logic(0).dropped();
  const auto want = [&](size_t from) {
    net.logic(0).from_server(encode({.from = net.at(from).name,
                                     .instance = net.at(from).instance,
                                     .body = Want{.request = copy_of(request), .numbers = {0}}}),
                             net.now(), kWall);
  };
  want(1);
  CHECK(net.logic(0).dropped() == before + 1);
  want(2);
  CHECK(net.logic(0).dropped() == before + 1);
}

TEST_CASE("job copy: if the judge dies, or a node does not fetch, the others go on after the time limit") {
  Network net(3);
  SUBCASE("the judge") {
    judge(net, 3);
    net.run(0.02);
    net.at(0).running = false;
    net.run(kHandOutS + 1);
    const auto files = net.heard<JobFilesMessage>(1);
    REQUIRE(files.size() == 1);
    CHECK(files[0].reason == "the data of all nodes has not come within 30 s");
  }
  SUBCASE("a node") {
    net.run(5);
    judge(net, 3);
    net.link(2, false);
    net.run(kDeadAfterS + 2);
    CHECK(net.heard<JobFilesMessage>(0).size() == 1);
    CHECK(net.heard<JobFilesMessage>(1).at(0).nodes.size() == 3);
  }
}
