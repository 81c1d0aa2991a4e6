// MismatchWatch: what it says of calls that change while it looks.
#include "launcher/os/event_loop.h"
#include "launcher/supervise/handlers/mismatch_watch.h"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

using namespace xpurun;

namespace {

// Two ranks, of which one made a call of another type some time before the calls `from` to `from` + 7.
model::CollectiveFacts lost_before(uint64_t from, bool differs) {
  model::CollectiveFacts facts;
  for (const base::Rank r : {0, 1}) {
    model::Communicator c{.source = model::CallSource::nccl,
                          .id = "c0",
                          .rank = r,
                          .size = 2,
                          .members = {0, 1},
                          .called = from + 7};
    model::CallLane lane{.source = model::CallSource::nccl};
    lane.kinds.push_back(
        {.communicator = "c0", .call = {.op = "all_reduce", .count = 64, .dtype = "bfloat16"}});
    for (uint64_t n = from; n < from + 8; ++n) {
      model::CollectiveCall call = lane.kinds.front().call;
      call.sequence = n;
      call.history = n * 2 + (r == 1 && differs ? 1 : 0);
      c.calls.push_back(call);
      lane.order.push_back(0);
      lane.numbers.push_back(n);
    }
    facts.ranks.push_back({.rank = r, .communicators = {c}, .lanes = {lane}});
  }
  return facts;
}

}  // namespace

TEST_CASE("a mismatch that has left the record is said, although the record goes on") {
  launcher::EventLoop loop = std::move(*launcher::EventLoop::create());
  uint64_t from = 100;
  bool differs = true;
  std::vector<std::string> said;
  launcher::MismatchWatch watch(loop, base::Language::english,
                                {.calls = [&] { return lost_before(from += 50, differs); },
                                 .keep = [](const model::CollectiveFacts&) {},
                                 .report = [](const std::string&, const model::RankSet&) {},
                                 .say = [&](const std::string& words) { said.push_back(words); }});
  watch.look();
  CHECK(said.empty());
  // A look without it, such as one that met a record while it was written, begins anew.
  differs = false;
  watch.look();
  differs = true;
  watch.look();
  CHECK(said.empty());
  watch.look();
  REQUIRE(said.size() == 1);
  CHECK(said.front().find("the job goes on with wrong data") != std::string::npos);
  watch.look();
  watch.look();
  CHECK(said.size() == 1);
}

TEST_CASE("a mismatch of another communicator is said too, the same one from another source is not") {
  launcher::EventLoop loop = std::move(*launcher::EventLoop::create());
  model::CollectiveFacts calls;
  for (const base::Rank r : {0, 1}) {
    model::RankCollectives& rank = calls.ranks.emplace_back(model::RankCollectives{.rank = r});
    for (const std::string id : {"dp", "tp", "n1"}) {
      const auto source = id == "n1" ? model::CallSource::nccl : model::CallSource::torch;
      rank.communicators.push_back(
          {.source = source, .id = id, .name = id, .rank = r, .size = 2, .members = {0, 1}, .called = 5});
      model::CallLane& lane = rank.lanes.emplace_back(model::CallLane{.source = source});
      lane.kinds.push_back({.communicator = id,
                            .call = {.op = "all_reduce", .count = 8, .dtype = r == 0 ? "int32" : "float32"}});
      lane.order = {0, 0};
      lane.numbers = {1, 2};
    }
  }
  std::vector<std::string> said;
  launcher::MismatchWatch watch(loop, base::Language::english,
                                {.calls = [&] { return calls; },
                                 .keep = [](const model::CollectiveFacts&) {},
                                 .report = [](const std::string&, const model::RankSet&) {},
                                 .say = [&](const std::string& words) { said.push_back(words); }});
  for (int look = 0; look < 8; ++look) {
    watch.look();
  }
  watch.finish();
  REQUIRE(said.size() == 2);
  CHECK((said[0].find("\"dp\"") != std::string::npos && said[1].find("\"tp\"") != std::string::npos));
}
