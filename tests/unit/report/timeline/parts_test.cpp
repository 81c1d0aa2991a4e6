#include "report/events/event_activity.h"
#include "report/events/groups.h"
#include "report/events/job_clocks.h"
#include "report/timeline/output/lanes.h"
#include "tests/unit/report/timeline/samples.h"

#include <cmath>
#include <fstream>

using namespace xpurun;
using namespace xpurun::report;

namespace {

Activity activity_of(const std::string& bytes) {
  Activity out;
  const auto file = model::parse_event_file(bytes);
  REQUIRE(file);
  out.rank = file->header.rank;
  out.host = file->header.host;
  add_events(out, *file);
  put_in_order(out);
  link_launches(out);
  return out;
}

std::string argument(const Call& call, std::string_view name) {
  for (const Argument& a : call.arguments) {
    if (a.name == name) {
      return std::holds_alternative<int64_t>(a.value) ? fmt::format("{}", std::get<int64_t>(a.value))
                                                      : std::get<std::string>(a.value);
    }
  }
  return "absent";
}

// Ends of collectives on hosts whose clocks are wrong by `errors`, each end up to 5 us away from the others.
// Rank r is on host r. `communicators`: the hosts of each.
JobClocks aligned(const std::vector<int64_t>& errors, const std::vector<std::vector<int>>& communicators) {
  JobClocks out;
  for (size_t host = 0; host < errors.size(); ++host) {
    Activity a;
    a.host = fmt::format("h{}", host);
    a.calls.push_back({.name = "AllReduce", .category = Category::collective, .ends_together = true});
    for (size_t c = 0; c < communicators.size(); ++c) {
      for (const int member : communicators[c]) {
        for (uint64_t q = 0; static_cast<size_t>(member) == host && q < 101; ++q) {
          const auto jitter = static_cast<int64_t>((q * 7 + host * 3) % 11) * 1'000 - 5'000;
          // One in ten is late by far more: a rank that was stopped.
          const int64_t outlier = q % 10 == host % 10 ? 2'000'000 : 0;
          a.slices.push_back(
              {.begin_ns = kWall + static_cast<int64_t>(q) * 10'000'000 + errors[host] + jitter + outlier,
               .meeting = meeting_of(c + 1, 2, q)});
        }
      }
    }
    out.add(a);
  }
  out.solve();
  return out;
}

}  // namespace

TEST_CASE("events become slices with what they did") {
  const Activity a = activity_of(sample_events({.rank = 1, .begin_ns = 1'000}));
  REQUIRE(a.slices.size() == 8);
  const Slice& matmul = a.slices[1];
  const Call& call = a.calls[matmul.call];
  CHECK(call.name == "matmul 4096x1024x512 bf16");
  CHECK(argument(call, "transposes") == "TN");
  CHECK(matmul.begin_ns == kWall + 21'000);
  CHECK(tflops_of(call, matmul) == doctest::Approx(200));
  CHECK(bus_gb_per_s(call, matmul) == 0);
  CHECK(matmul.launch != 0);
  CHECK(a.slices[0].launch == matmul.launch);
  CHECK(a.tracks[a.slices[0].track].number == 77);
  const Slice& reduce = a.slices[3];
  CHECK(a.calls[reduce.call].name == "AllReduce 2.0 MiB bf16");
  CHECK(argument(a.calls[reduce.call], "algorithm") == "ring");
  CHECK(argument(a.calls[reduce.call], "channels") == "16");
  CHECK(argument(a.calls[reduce.call], "communicator_name").find('\x1b') == std::string::npos);
  CHECK(reduce.sequence == 1);
  CHECK(bus_gb_per_s(a.calls[reduce.call], reduce) == doctest::Approx(2097152.0 / 90000));
}

TEST_CASE("the same collective has one number on all ranks") {
  const Activity a = activity_of(sample_events({.rank = 0}));
  const Activity b = activity_of(sample_events({.rank = 1}));
  CHECK(a.slices[3].meeting != 0);
  CHECK(a.slices[3].meeting == b.slices[3].meeting);
  CHECK(a.slices[3].meeting != a.slices[7].meeting);
  CHECK(a.slices[1].meeting == 0);
}

TEST_CASE("wall time follows the pairs of clock readings") {
  const std::vector<model::EventFile::Clocks> pairs{{1'000, 50'000}, {2'000, 51'500}};
  WallClock clock(pairs);
  CHECK(clock.wall_ns(1'100) == 50'100);
  CHECK(clock.wall_ns(2'100) == 51'600);
  CHECK(clock.wall_ns(500) == 49'500);
  CHECK(clock.wall_ns(1'999) == 50'999);
  // Many pairs, and times that jump.
  std::vector<model::EventFile::Clocks> many;
  for (int64_t i = 0; i < 1000; ++i) {
    many.push_back({i * 1'000, 1'000'000 + i * 1'000 + i});
  }
  WallClock jumping(many);
  for (const int64_t at : {0, 999'000, 1'000, 500'500, 500'000, 499'999, 2'000'000, 5}) {
    CAPTURE(at);
    CHECK(jumping.wall_ns(static_cast<uint64_t>(at)) == 1'000'000 + at + std::min<int64_t>(at / 1'000, 999));
  }
}

TEST_CASE("times that can only come from damage are left out") {
  model::EventEncoder encoder;
  encoder.define(0, key_of(wire::Api::cublasGemmEx), 1);
  encoder.add({.begin_ns = uint64_t{1} << 63, .duration_ns = UINT64_MAX, .op = 0});
  encoder.add({.begin_ns = 5, .duration_ns = UINT64_MAX, .op = 0});
  const Activity a =
      activity_of(model::EventEncoder::header({.rank = 0, .wall_ns = kWall}) + encoder.take_block());
  REQUIRE(a.slices.size() == 1);
  CHECK_FALSE(a.complete);
  CHECK(a.slices[0].end_ns() > a.slices[0].begin_ns);
}

TEST_CASE("slices of a stream that overlap get another row, unless the clocks are to blame") {
  Lanes lanes(LaneKind::sequential);
  CHECK(lanes.put(0, 100'000).lane == 0);
  const Lanes::Place close = lanes.put(99'000, 150'000);
  CHECK(close.lane == 0);
  CHECK(close.trimmed);
  CHECK(close.ended == std::vector<int64_t>{99'000});
  CHECK(lanes.put(120'000, 130'000).lane == 1);
  const Lanes::Place after = lanes.put(160'000, 170'000);
  CHECK(after.lane == 0);
  CHECK_FALSE(after.trimmed);
  CHECK(after.ended == std::vector<int64_t>{150'000});
  CHECK(lanes.take_open(1) == std::vector<int64_t>{130'000});
}

TEST_CASE("the rows of a track are bounded") {
  for (const LaneKind kind : {LaneKind::sequential, LaneKind::nested}) {
    Lanes lanes(kind);
    size_t ended = 0;
    for (int64_t i = 0; i < 2'000; ++i) {
      // Each begins before the end of all others and ends after all of them.
      ended += lanes.put(i * 10'000, 1'000'000'000 + i * 10'000).ended.size();
    }
    CHECK(lanes.size() == kMostLanes);
    for (uint32_t lane = 0; lane < lanes.size(); ++lane) {
      ended += lanes.take_open(lane).size();
    }
    CHECK(ended == 2'000);
  }
}

TEST_CASE("a slice is compared with a bounded number of neighbours") {
  Activity a;
  a.track(TrackKind::compute, 1);
  a.calls.resize(1);
  for (int64_t i = 0; i < 20'000; ++i) {
    a.slices.push_back({.begin_ns = 7, .duration_ns = 1 + i / 2});  // every slice twice
  }
  put_in_order(a);
  CHECK(a.slices.size() == 10'000);
}

TEST_CASE("a launch is found although delays jump") {
  Activity a;
  const uint32_t host = a.track(TrackKind::host, 7);
  const uint32_t stream = a.track(TrackKind::compute, 1);
  a.calls = {{.category = Category::host, .function = "f"}, {.category = Category::matmul, .function = "f"}};
  constexpr int64_t kUs = 1'000;
  for (int64_t i = 0; i < 1'000; ++i) {
    a.slices.push_back({.begin_ns = i * 100 * kUs, .duration_ns = 10 * kUs, .call = 0, .track = host});
  }
  // Called at the calls 999, 0, 998, 1, ...
  for (int64_t i = 0; i < 1'000; ++i) {
    const int64_t call = i % 2 == 0 ? 999 - i / 2 : i / 2;
    const int64_t begin = (200'000 + i * 10) * kUs;
    a.slices.push_back({.begin_ns = begin,
                        .duration_ns = 5 * kUs,
                        .call = 1,
                        .track = stream,
                        .delay_us = static_cast<uint32_t>(begin / kUs - call * 100)});
  }
  put_in_order(a);
  link_launches(a);
  for (int64_t i = 0; i < 1'000; ++i) {
    const int64_t call = i % 2 == 0 ? 999 - i / 2 : i / 2;
    CAPTURE(i);
    CHECK(a.slices[static_cast<size_t>(1'000 + i)].launch != 0);
    CHECK(a.slices[static_cast<size_t>(1'000 + i)].launch == a.slices[static_cast<size_t>(call)].launch);
  }
}

TEST_CASE("slices of a thread nest on one row") {
  Lanes lanes(LaneKind::nested);
  CHECK(lanes.put(0, 100).lane == 0);
  CHECK(lanes.put(10, 20).lane == 0);
  const Lanes::Place second = lanes.put(30, 100);
  CHECK(second.lane == 0);
  CHECK(second.ended == std::vector<int64_t>{20});
  CHECK(lanes.put(50, 200).lane == 1);  // crosses the end of the outer one
  CHECK(lanes.take_open(0) == std::vector<int64_t>{100, 100});
}

TEST_CASE("Megatron's order: the first type varies fastest") {
  const auto order = GroupOrder::parse("tp4-cp2-dp4-pp2");
  REQUIRE(order);
  CHECK(order->world() == 64);
  CHECK(order->label(0) == "tp0 cp0 dp0 pp0");
  CHECK(order->label(5) == "tp1 cp1 dp0 pp0");
  CHECK(order->label(63) == "tp3 cp1 dp3 pp1");
  CHECK(order->label(64).empty());
  CHECK(order->is_in_a_first_group(3));
  CHECK(order->is_in_a_first_group(32));
  CHECK_FALSE(order->is_in_a_first_group(33));
  for (const char* wrong :
       {"", "tp", "4", "tp0", "tp4-tp2", "tp4--dp2", "tp4,dp2", "tp2000-dp2000", "Tp2", "tp-2"}) {
    CAPTURE(wrong);
    CHECK_FALSE(GroupOrder::parse(wrong));
  }
}

TEST_CASE("groups from a file that lists their ranks") {
  const auto order = GroupOrder::parse_domains(
      R"({"dp": [[0,4],[1,5],[2,6],[3,7]], "tp": [[0,1,2,3],[4,5,6,7]], "pp": [[0],[1]]})");
  REQUIRE(order);
  CHECK(order->world() == 8);
  CHECK(order->label(6) == "tp2 dp1");
  for (const char* wrong :
       {"", "[]", "{}", R"({"tp": 4})", R"({"tp": [[0,1,3]]})", R"({"tp": [[0,1]], "dp": [[0,1]]})",
        R"({"tp": [[0,1],[2,3]], "dp": [[0,2],[1,9]]})", R"({"tp": [[0,2],[1,3]]})",
        R"({"tp": [[0,1],[1,2]], "dp": [[0,2],[1,3]]})", R"({"TP": [[0,1]]})"}) {
    CAPTURE(wrong);
    CHECK_FALSE(GroupOrder::parse_domains(wrong));
  }
}

TEST_CASE("a rank table makes groups by server") {
  constexpr std::string_view kTable = R"({
    "version": "1.0", "server_count": "2", "status": "completed",
    "server_list": [
      {"server_id": "10.0.0.2", "host_nic_ip": "reserve", "device": [
        {"device_id": "0", "device_ip": "192.1.2.6", "rank_id": "2"},
        {"device_id": "1", "device_ip": "192.1.2.7", "rank_id": "3"}]},
      {"server_id": "10.0.0.1", "host_nic_ip": "reserve", "device": [
        {"device_id": "0", "device_ip": "192.1.1.6", "rank_id": "1"},
        {"device_id": "1", "device_ip": "192.1.1.7", "rank_id": "0"}]}]})";
  std::ofstream("rank_table.json") << kTable;
  const auto order = GroupOrder::read("rank_table.json");
  REQUIRE(order);
  CHECK(order->world() == 4);
  CHECK(order->label(2) == "device0 server1");
  CHECK(order->index_of(1, "server") == 0);
  for (
      const char* wrong :
      {"", "[]", R"({"server_list": []})", R"({"server_list": [{}]})", R"({"server_list": [{"device": []}]})",
       R"({"server_list": [{"device": [{"rank_id": "x"}]}]})",
       R"({"server_list": [{"device": [{"rank_id": 0}]}]})",
       R"({"server_list": [{"device": [{"rank_id": "1"}]}]})",
       R"({"server_list": [{"device": [{"rank_id": "0"}, {"rank_id": "0"}]}]})",
       R"({"server_list": [{"device": [{"rank_id": "0"}, {"rank_id": "2"}]},
                            {"device": [{"rank_id": "1"}, {"rank_id": "3"}]}]})",
       R"({"server_list": [{"device": [{"rank_id": "0"}, {"rank_id": "1"}]}, {"device": [{"rank_id": "2"}]}]})"}) {
    CAPTURE(wrong);
    CHECK_FALSE(GroupOrder::parse_rank_table(wrong));
  }
}

TEST_CASE("groups are inferred from communicators") {
  GroupFinder finder;
  for (int rank = 0; rank < 4; ++rank) {
    Activity a;
    a.rank = rank;
    a.communicators = {{1, rank, 4, "world"},
                       {static_cast<uint64_t>(10 + rank / 2), rank % 2, 2, "tp"},
                       {static_cast<uint64_t>(20 + rank % 2), rank / 2, 2, "dp"},
                       {static_cast<uint64_t>(30 + rank), 0, 1, "alone"}};
    finder.add(a);
  }
  const auto families = finder.families();
  REQUIRE(families.size() == 2);
  CHECK(families[0].name == "2 by 1");
  CHECK(families[0].groups == std::vector{model::RankSet{0, 1}, model::RankSet{2, 3}});
  CHECK(families[1].name == "2 by 2");
  CHECK(GroupFinder::label(families, 3) == "2 by 1: 1, 2 by 2: 1");
}

TEST_CASE("clocks are aligned within a microsecond through a chain of communicators") {
  const std::vector<int64_t> errors{0, 3'000'000, -40'000'000, 12'345};
  const JobClocks clocks = aligned(errors, {{0, 1}, {1, 2}, {2, 3}});
  for (size_t host = 0; host < errors.size(); ++host) {
    CAPTURE(host);
    CHECK(std::abs(clocks.offset_ns(fmt::format("h{}", host)) + errors[host]) < 12'000);
  }
  CHECK(clocks.residual().collectives == 303);
  CHECK(clocks.residual().median_us < 6);
  CHECK(clocks.residual().worst_us > 1'000);  // the ranks that were stopped
  CHECK(clocks.offset_ns("elsewhere") == 0);
}

TEST_CASE("a host without a common collective keeps its clock and is named") {
  const JobClocks clocks = aligned({0, 5'000, 77'000}, {{0, 1}});
  CHECK(clocks.offset_ns("h2") == 0);
  CHECK(clocks.residual().unaligned == std::vector<std::string>{"h2"});
}
