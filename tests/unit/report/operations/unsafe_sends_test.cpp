#include "report/operations/unsafe_sends.h"

#include <doctest/doctest.h>

#include <map>
#include <string>
#include <vector>

using namespace xpurun;
using namespace xpurun::report;

namespace {

// The blocking messages of one rank, in the order in which the program makes them.
struct Talker {
  RankRecord record;
  std::map<std::string, uint64_t> numbers;

  explicit Talker(base::Rank rank) {
    record.rank = rank;
    record.spans.emplace_back().names = {"", "MPI_Send", "MPI_Recv", "ring.c:7 (send)", "MPI_Ssend"};
  }
  void call(uint32_t name, base::Rank from, base::Rank to) {
    model::SpanFile& file = record.spans.front();
    const std::string group =
        model::pair_group("world", static_cast<uint64_t>(from), static_cast<uint64_t>(to), false);
    file.names.push_back(group);
    file.spans.push_back({.begin_ns = static_cast<int64_t>(file.spans.size()) * 1000,
                          .duration_ns = 10,
                          .stage = model::Stage::communication,
                          .name = name,
                          .place = 3,
                          .group = static_cast<uint32_t>(file.names.size() - 1),
                          .sequence = ++numbers[group],
                          .bytes = 64});
  }
  void send(base::Rank to, uint32_t name = 1) { call(name, record.rank, to); }
  void receive(base::Rank from) { call(2, from, record.rank); }
};

std::vector<model::UnsafeSendRow> found_in(const std::vector<Talker>& ranks) {
  UnsafeSends sends;
  for (const Talker& t : ranks) {
    sends.add(t.record);
  }
  return sends.finish();
}

std::vector<Talker> talkers(base::Rank count) {
  std::vector<Talker> out;
  for (base::Rank r = 0; r < count; ++r) {
    out.emplace_back(r);
  }
  return out;
}

}  // namespace

TEST_CASE("ranks that all send before they receive need buffers") {
  std::vector<Talker> ranks = talkers(4);
  for (int step = 0; step < 5; ++step) {
    for (base::Rank r = 0; r < 4; ++r) {
      ranks[static_cast<size_t>(r)].send((r + 1) % 4);
      ranks[static_cast<size_t>(r)].receive((r + 3) % 4);
    }
  }
  const auto found = found_in(ranks);
  REQUIRE(found.size() == 1);
  CHECK((found[0].ranks == "0-3" && found[0].places == "ring.c:7 (send)"));
  CHECK((found[0].times == 5 && found[0].most_bytes == 64));
}

TEST_CASE("a ring in which one rank receives first needs none, nor do question and answer") {
  std::vector<Talker> ring = talkers(3);
  std::vector<Talker> pair = talkers(2);
  for (int step = 0; step < 5; ++step) {
    ring[0].receive(2);
    ring[0].send(1);
    for (base::Rank r = 1; r < 3; ++r) {
      ring[static_cast<size_t>(r)].send((r + 1) % 3);
      ring[static_cast<size_t>(r)].receive(r - 1);
    }
    pair[0].send(1);
    pair[1].receive(0);
    pair[1].send(0);
    pair[0].receive(1);
  }
  CHECK(found_in(ring).empty());
  CHECK(found_in(pair).empty());
}

TEST_CASE("a synchronous send in the circle would have waited") {
  std::vector<Talker> ranks = talkers(2);
  ranks[0].send(1);
  ranks[0].receive(1);
  ranks[1].send(0, 4);
  ranks[1].receive(0);
  CHECK(found_in(ranks).empty());
}
