// Link classes of communicators, of the rows of collectives, and of captured kernels of NCCL.
#include "report/operations/analysis.h"
#include "report/profile/captured_work.h"
#include "report/speed/roles/communicator_links.h"
#include "tests/unit/report/operations/made_events.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace xpurun;
using namespace xpurun::report;
using namespace xpurun::tests;
using model::LinkClass;

namespace {

constexpr uint64_t kData = 0x77;    // of all four ranks
constexpr uint64_t kTensor = 0x80;  // of the two ranks of a host
constexpr double kEachUs = 100;

// Four ranks on two hosts, tensor groups inside of a host and a data group of all. Each step of 1 ms has a
// collective of both, one after the other.
std::vector<RankRecord> ranks_of_two_hosts() {
  std::vector<RankRecord> out;
  for (base::Rank r = 0; r < 4; ++r) {
    RankRecord rank = made_rank(r, 4, r < 2 ? "a" : "b");
    rank.events[0].communicators.push_back(
        {.slot = 1, .identity = kTensor + (r < 2 ? 0 : 1), .rank = r % 2, .nranks = 2, .name = "tp"});
    for (uint32_t i = 0; i < 20; ++i) {
      add_call(rank, kAllReduce, 1000.0 * i, kEachUs, i + 1, wire::Source::nccl_profiler);
      add_call(rank, kAllReduce, 1000.0 * i + 500, kEachUs, i + 1, wire::Source::nccl_profiler);
      rank.events[0].events.back().communicator = 1;
    }
    out.push_back(std::move(rank));
  }
  return out;
}

CommunicatorLinks links_of(const std::vector<RankRecord>& ranks) {
  CommunicatorLinks out(ranks.size());
  for (const RankRecord& rank : ranks) {
    out.add(rank);
  }
  return out;
}

int64_t us(double value) {
  return static_cast<int64_t>(value * 1e3);
}

}  // namespace

TEST_CASE("the hosts of the ranks are the link class of a communicator") {
  const CommunicatorLinks links = links_of(ranks_of_two_hosts());
  CHECK(links.of(kData, 4) == LinkClass::between_nodes);
  CHECK(links.of(kTensor, 2) == LinkClass::inside_node);
  CHECK(links.of(kTensor + 1, 2) == LinkClass::inside_node);
  CHECK(links.of(kTensor, 4) == LinkClass::unknown);
  CHECK(links.of(0x99, 2) == LinkClass::unknown);
  // One host is certain only when all ranks are known, two hosts are certain before.
  auto some = ranks_of_two_hosts();
  some.pop_back();
  CHECK(links_of(some).of(kTensor + 1, 2) == LinkClass::unknown);
  CHECK(links_of(some).of(kData, 4) == LinkClass::between_nodes);
  some.resize(2);
  CHECK(links_of(some).of(kData, 4) == LinkClass::unknown);
  auto nameless = ranks_of_two_hosts();
  nameless[0].host.clear();
  CHECK(links_of(nameless).of(kData, 4) == LinkClass::unknown);
}

TEST_CASE("a kernel has the class of the timed collective that it belongs to") {
  const CommunicatorLinks links = links_of(ranks_of_two_hosts());
  CHECK(links.of_kernel(1, us(2002), us(2102)) == LinkClass::between_nodes);
  CHECK(links.of_kernel(1, us(2498), us(2598)) == LinkClass::inside_node);
  CHECK(links.of_kernel(1, us(2200), us(2300)) == LinkClass::unknown);  // no collective was timed then
  CHECK(links.of_kernel(1, us(2090), us(2300)) == LinkClass::unknown);
  CHECK(links.of_kernel(9, us(2002), us(2102)) == LinkClass::unknown);
  // Without a choice the times do not matter.
  std::vector<RankRecord> one;
  for (base::Rank r = 0; r < 2; ++r) {
    one.push_back(made_rank(r, 2, "a"));
  }
  CHECK(links_of(one).of_kernel(0, us(5), us(6)) == LinkClass::inside_node);
  // Only the latest collectives are kept: two of each rank.
  CommunicatorLinks few(4, 8);
  for (const RankRecord& rank : ranks_of_two_hosts()) {
    few.add(rank);
  }
  CHECK(few.of_kernel(1, us(2002), us(2102)) == LinkClass::unknown);
  CHECK(few.of_kernel(1, us(19'500), us(19'600)) == LinkClass::inside_node);
}

TEST_CASE("rows of collectives have a link class") {
  OperationAnalysis analysis(4);
  for (const RankRecord& rank : ranks_of_two_hosts()) {
    analysis.add(rank);
  }
  const model::OperationTables o = analysis.finish();
  REQUIRE(o.collectives.size() == 3);
  for (const model::CollectiveRow& row : o.collectives) {
    CHECK(row.link == (row.size == 4 ? LinkClass::between_nodes : LinkClass::inside_node));
  }
}

TEST_CASE("the function report divides one kernel of NCCL by link class") {
  const CommunicatorLinks links = links_of(ranks_of_two_hosts());
  CapturedWorkTable table({}, links);
  model::EventFile file;
  file.ops[0].function = "ncclDevKernel_AllReduce_Sum_f32_RING_LL";
  file.ops[0].key.op_class = static_cast<uint8_t>(wire::OpClass::kernel);
  file.ops[1].function = "gemm";
  file.ops[1].key.op_class = static_cast<uint8_t>(wire::OpClass::kernel);
  const auto add = [&file](uint32_t op, double begin_us, double length_us) {
    file.events.push_back({.event = {.begin_ns = static_cast<uint64_t>(us(begin_us)),
                                     .duration_ns = static_cast<uint64_t>(us(length_us)),
                                     .op = op,
                                     .source = static_cast<uint8_t>(wire::Source::cupti)}});
  };
  for (int i = 0; i < 10; ++i) {
    add(0, 1000 * i + 1, 98);
    add(0, 1000 * i + 501, 98);
    add(1, 1000 * i + 200, 100);
  }
  model::RankActivity rank{
      .rank = 3, .status = model::ActivityStatus::complete, .seconds = 0.01, .records = 30, .file = "x"};
  table.add(rank, file);
  const auto work = table.work();
  REQUIRE(work.size() == 3);
  for (const model::CapturedWork& one : work) {
    CHECK(one.count == 10);
    CHECK(one.path == doctest::Approx(one.kind == model::WorkKind::kernel ? 0.1 : 0.098));
  }
  std::vector<LinkClass> classes;
  for (const model::CapturedWork& one : work) {
    classes.push_back(one.link);
  }
  std::sort(classes.begin(), classes.end());
  CHECK(classes == std::vector{LinkClass::unknown, LinkClass::inside_node, LinkClass::between_nodes});
}
