// One archive of several nodes, chunk by chunk, over a network that loses messages.
#include "launcher/nodes/agent/protocol/gather.h"

#include "launcher/nodes/agent/protocol/upload.h"
#include "launcher/nodes/node_limits.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <set>

using namespace xpurun;
using namespace xpurun::nodes;
using base::s_to_ns;
using launcher::NodeStatus;

namespace {

constexpr uint64_t kChunk = 1000;

std::string content(size_t size, uint32_t seed) {
  std::mt19937 random(seed);
  std::string out(size, '\0');
  std::generate(out.begin(), out.end(), [&] { return static_cast<char>(random()); });
  return out;
}

DumpCall call() {
  return {.request = "r1"};
}

struct Bench {
  base::MonoNs now = s_to_ns(100);
  Gather gather{call(), 20, now};
  std::map<std::string, std::unique_ptr<Upload>> uploads;
  std::map<std::string, std::string> here;  // archives that have come
  size_t most_coming = 0;

  void add(const std::string& node, const std::string& bytes) {
    gather.expect({.node = node, .node_rank = static_cast<int>(uploads.size())}, true);
    uploads[node] =
        std::make_unique<Upload>(Offer{.request = "r1", .directory = "dumps/1-hang"}, bytes, kChunk, now);
  }

  // One exchange of messages; `lost` decides about each of them.
  template <typename Lost>
  void step(Lost lost) {
    for (auto& [node, upload] : uploads) {
      if (const auto offer = upload->due(now); offer && !lost()) {
        CHECK(gather.offered(node, *offer));
      }
    }
    std::set<std::string> coming;
    for (auto& [node, want] : gather.wants(now)) {
      coming.insert(node);
      CHECK(want.numbers.size() <= launcher::kChunksOnTheWay);
      if (lost()) {
        continue;
      }
      for (const Part& part : uploads[node]->wanted(want, now)) {
        if (!lost()) {
          CHECK(gather.received(node, part, now));
        }
      }
    }
    most_coming = std::max(most_coming, coming.size());
    while (auto archive = gather.take_complete()) {
      here[archive->node] = archive->bytes;
      gather.unpacked(archive->node, "nodes/" + archive->node, "");
    }
    now += s_to_ns(0.25);
  }
};

NodeStatus status_of(const Gather& gather, const std::string& node) {
  for (const auto& n : gather.result().nodes) {
    if (n.node == node) {
      return n.status;
    }
  }
  FAIL("no such node");
  return NodeStatus::complete;
}

}  // namespace

TEST_CASE("archives come whole however many messages are lost") {
  for (const unsigned loss : {0U, 30U}) {
    Bench b;
    std::map<std::string, std::string> sent;
    const size_t sizes[] = {1, kChunk - 1, kChunk, kChunk + 1, 25 * kChunk + 7};
    for (size_t i = 0; i < std::size(sizes); ++i) {
      const std::string node = "n" + std::to_string(i);
      sent[node] = content(sizes[i], static_cast<uint32_t>(i));
      b.add(node, sent[node]);
    }
    std::mt19937 random(1);
    int steps = 0;
    while (!b.gather.finished(b.now) && steps < 80) {
      b.step([&] { return random() % 100 < loss; });
      ++steps;
    }
    CHECK(b.here == sent);
    for (const auto& node : b.gather.result().nodes) {
      CHECK(node.status == NodeStatus::complete);
      CHECK(node.directory == "nodes/" + node.node);
      CHECK(node.dump == "dumps/1-hang");
    }
  }
}

TEST_CASE("a bounded number of archives is under way at a time") {
  Bench b;
  for (int i = 0; i < 300; ++i) {
    b.add("n" + std::to_string(i), content(20 * kChunk, 1));
  }
  for (int i = 0; i < 100 && !b.gather.finished(b.now); ++i) {
    b.step([] { return false; });
    b.now -= s_to_ns(0.24);
  }
  CHECK(b.most_coming == launcher::kMostDownloads);
  CHECK(b.here.size() == 300);
}

TEST_CASE("of large archives fewer come at a time") {
  const base::MonoNs now = s_to_ns(100);
  Gather gather(call(), 20, now);
  for (int i = 0; i < 40; ++i) {
    const std::string node = "n" + std::to_string(i);
    gather.expect({.node = node}, true);
    REQUIRE(gather.offered(node, Offer{.request = "r1", .size = 4 << 20, .chunk = launcher::kChunkBytes}));
  }
  const auto wants = gather.wants(now);
  CHECK(wants.size() == 16);
  for (const auto& [node, want] : wants) {
    CHECK(want.numbers.size() == launcher::kChunksOnTheWay);
  }
}

TEST_CASE("a transfer that was interrupted goes on with the chunks that are missing") {
  Bench b;
  b.add("n0", content(20 * kChunk, 1));
  b.step([] { return false; });
  // The connection is gone for some seconds.
  for (int i = 0; i < 20; ++i) {
    b.step([] { return true; });
  }
  CHECK(b.gather.result().nodes[0].reason == "8 of 20 chunks came");
  size_t asked = 0;
  while (!b.gather.finished(b.now)) {
    for (const auto& [node, want] : b.gather.wants(b.now)) {
      asked += want.numbers.size();
      for (const Part& part : b.uploads[node]->wanted(want, b.now)) {
        b.gather.received(node, part, b.now);
      }
    }
    while (auto archive = b.gather.take_complete()) {
      b.here[archive->node] = archive->bytes;
      b.gather.unpacked(archive->node, "nodes/n0", "");
    }
    b.now += s_to_ns(0.25);
    REQUIRE(b.now < s_to_ns(125));
  }
  CHECK(asked == 12);
  CHECK(b.here["n0"] == content(20 * kChunk, 1));
}

TEST_CASE("parts that were not asked for, or are of a wrong size, change nothing") {
  Bench b;
  const std::string bytes = content(2 * kChunk, 1);
  b.add("n0", bytes);
  CHECK_FALSE(b.gather.offered("stranger", Offer{.request = "r1", .size = 1, .chunk = 1}));
  CHECK_FALSE(b.gather.offered("n0", Offer{.request = "r0", .size = 1, .chunk = 1}));
  CHECK(b.gather.offered("n0", *b.uploads["n0"]->due(b.now)));
  b.gather.wants(b.now);
  CHECK_FALSE(b.gather.received("stranger", {.request = "r1", .bytes = "x"}, b.now));
  CHECK_FALSE(b.gather.received("n0", {.request = "r0", .bytes = bytes.substr(0, kChunk)}, b.now));
  CHECK_FALSE(b.gather.received("n0", {.request = "r1", .number = 2, .bytes = "x"}, b.now));
  CHECK_FALSE(b.gather.received("n0", {.request = "r1", .number = UINT64_MAX, .bytes = "x"}, b.now));
  CHECK_FALSE(b.gather.received("n0", {.request = "r1", .number = 0, .bytes = "x"}, b.now));
  CHECK_FALSE(b.gather.take_complete());
  CHECK(b.uploads["n0"]->wanted({.request = "r1", .numbers = {2, UINT64_MAX}}, b.now).empty());
  CHECK(b.uploads["n0"]->wanted({.request = "r0", .numbers = {0}}, b.now).empty());
}

TEST_CASE("an archive whose hash is wrong is asked for once more, then given up") {
  Bench b;
  b.add("n0", content(kChunk, 1));
  REQUIRE(b.gather.offered("n0", *b.uploads["n0"]->due(b.now)));
  for (int i = 0; i < 2; ++i) {
    CHECK(b.gather.wants(b.now).size() == 1);
    CHECK(b.gather.received("n0", {.request = "r1", .bytes = content(kChunk, 2)}, b.now));
    CHECK_FALSE(b.gather.take_complete());
  }
  CHECK(b.gather.finished(b.now));
  CHECK(status_of(b.gather, "n0") == NodeStatus::partial);
}

TEST_CASE("nobody is waited for who is dead, and nobody longer than the time limit") {
  base::MonoNs now = s_to_ns(100);
  Gather gather(call(), 20, now);
  gather.expect_own({.node = "me"});
  gather.expect({.node = "alive", .node_rank = 1}, true);
  gather.expect({.node = "dead", .node_rank = 2, .reason = "no message for 30 s"}, false);
  gather.expect({.node_rank = 3, .reason = "the node has never joined"}, false);
  CHECK(gather.lacks_offers());
  CHECK_FALSE(gather.finished(now));
  gather.own_dumped({.request = "r1", .directory = "dumps/1-hang"});
  CHECK_FALSE(gather.finished(now));
  gather.set_alive("alive", false);
  CHECK(gather.finished(now));
  gather.set_alive("alive", true);
  CHECK_FALSE(gather.finished(now + s_to_ns(19.9)));
  CHECK(gather.finished(now + s_to_ns(20)));
  const auto nodes = gather.result().nodes;
  REQUIRE(nodes.size() == 4);
  CHECK(nodes[0].status == NodeStatus::complete);
  CHECK(nodes[0].dump == "dumps/1-hang");
  CHECK(nodes[1].status == NodeStatus::silent);
  CHECK(nodes[1].reason == "no answer for 20 s");
  CHECK(nodes[2].status == NodeStatus::cut_off);
  CHECK(nodes[2].reason == "no message for 30 s");
  CHECK(nodes[3].status == NodeStatus::cut_off);
  CHECK(nodes[3].node.empty());
}

TEST_CASE("a node that has ended is not waited for, and its archive of an earlier request counts") {
  const base::MonoNs now = s_to_ns(100);
  Gather gather(call(), 20, now);
  gather.expect_own({.node = "me"});
  gather.expect_ended({.node = "n1",
                       .node_rank = 1,
                       .reason = "ended before with exit status 137",
                       .directory = "nodes/n1",
                       .dump = "dumps/1-death"});
  CHECK_FALSE(gather.lacks_offers());
  gather.own_dumped({.request = "r1", .directory = "dumps/2-hang"});
  CHECK(gather.finished(now));
  const auto nodes = gather.result().nodes;
  REQUIRE(nodes.size() == 2);
  CHECK(nodes[1].status == NodeStatus::partial);
  CHECK(nodes[1].reason == "ended before with exit status 137");
  CHECK(nodes[1].directory == "nodes/n1");
  CHECK(nodes[1].dump == "dumps/1-death");
}

TEST_CASE("a large archive waits for room, smaller ones pass it") {
  const base::MonoNs now = s_to_ns(100);
  Gather gather(call(), 20, now);
  const auto offer = [&](const std::string& node, uint64_t size) {
    gather.expect({.node = node}, true);
    REQUIRE(gather.offered(node, Offer{.request = "r1", .size = size, .chunk = launcher::kChunkBytes}));
  };
  offer("n1", 100 << 20);
  offer("n2", 200 << 20);
  offer("n3", 100 << 20);
  std::set<std::string> coming;
  for (const auto& [node, want] : gather.wants(now)) {
    coming.insert(node);
  }
  CHECK(coming == std::set<std::string>{"n1", "n3"});
  gather.unpacked("n1", "", "no space left on device");
  CHECK(gather.wants(now).empty());
  gather.unpacked("n3", "", "no space left on device");
  REQUIRE(gather.wants(now).size() == 1);
  CHECK_FALSE(gather.finished(now));
}

TEST_CASE("a node whose dump failed, or whose archive cannot be written, is partial") {
  Bench b;
  b.gather.expect({.node = "n0"}, true);
  Upload failed(Offer{.request = "r1", .status = DumpOutcome::failed, .reason = "no ptrace"}, "x", kChunk,
                b.now);
  REQUIRE(b.gather.offered("n0", *failed.due(b.now)));
  b.gather.wants(b.now);
  REQUIRE(b.gather.received("n0", failed.wanted({.request = "r1", .numbers = {0}}, b.now).at(0), b.now));
  REQUIRE(b.gather.take_complete());
  CHECK_FALSE(b.gather.finished(b.now));
  CHECK(b.gather.done_with("n0"));
  b.gather.unpacked("n0", "nodes/n0", "");
  CHECK(b.gather.finished(b.now));
  CHECK(status_of(b.gather, "n0") == NodeStatus::partial);
  CHECK(b.gather.result().nodes[0].reason == "no ptrace");
  b.gather.unpacked("n0", "", "no space left on device");
  CHECK(b.gather.result().nodes[0].reason == "no space left on device");
}
