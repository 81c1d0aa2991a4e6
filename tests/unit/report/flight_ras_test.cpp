#include "common/base/os/io.h"
#include "common/base/os/temporary_directory.h"
#include "common/model/language/verdict_translation.h"
#include "report/build/flight_report.h"
#include "report/flight_recorder/ras_facts.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <string>

using namespace xpurun;
using namespace xpurun::report;

namespace {

constexpr std::string_view kHead =
    "NCCL version 2.27.3 compiled with CUDA 12.9\nCUDA runtime version 12090, driver version 12090\n\n"
    "Job summary\n===========\n\n  Nodes  Processes         GPUs  Processes     GPUs\n"
    "(total)   per node  per process    (total)  (total)\n      1          8            1          8        "
    "8\n\n"
    "Communicators... (0.00s)\n=============\n\n"
    "Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors\n"
    "    #  in group  per comm  per node  per comm  in group\n"
    "    0         1         1         8         8         8   RUNNING  {}\n\n";

std::string text_of(std::string_view errors, std::string_view body) {
  return fmt::format(fmt::runtime(kHead), errors) + std::string(body);
}

// Rank 3 has not launched the all-reduce that the others have.
std::string behind() {
  return text_of("MISMATCH",
                 "Errors\n======\n\nWarnings\n========\n\n#0-0 (27a079b828ff1a75) MISMATCH\n"
                 "  Communicator ranks have different AllReduce operation counts\n"
                 "  7 ranks have launched up to operation 6650\n"
                 "  Rank 3 has launched up to operation 6649 -- GPU 3 managed by process 483075 on node "
                 "172.16.64.210\n\n");
}

std::string json_rank(int rank, int all_reduces, int broadcasts) {
  return fmt::format(
      R"({{"rank": {0}, "host": "10.0.0.1", "pid": {1}, "cuda_dev": {0}, "nvml_dev": {0}, "status": {{)"
      R"("init_state": 0}}, "collective_counts": {{"Broadcast": {3}, "AllReduce": {2}, "SendRecv": {0}}}}})",
      rank, 100 + rank, all_reduces, broadcasts);
}

std::string json_of(const std::string& ranks, const std::string& missing) {
  return fmt::format(
      R"({{"nccl_version": "2.29.1", "communicators_count": 1, "communicators": [{{"hash": "0xae94", )"
      R"("size": 4, "ranks": [{}], "missing_ranks": [{}]}}], "ras": {{"timeouts_count": 2}}}})",
      ranks, missing);
}

BuildResult report_of(const std::string& text) {
  static const base::TemporaryDirectory dir = *base::TemporaryDirectory::create("xpurun-ras-test-");
  const std::string path = dir.path() + "/ras.txt";
  REQUIRE(base::write_file_atomic(path, text));
  REQUIRE(is_ras_file(path));
  const auto built = build_flight_report(path, dir.path() + "/out", {.write_html = false});
  REQUIRE_MESSAGE(built, (built ? "" : built.error().what));
  return *built;
}

}  // namespace

TEST_CASE("NCCL's RAS as text: the counts of all ranks, also of those that it does not name") {
  const auto status = parse_ras(behind());
  REQUIRE(status);
  REQUIRE(status->communicators.size() == 1);
  const RasCommunicator& c = status->communicators[0];
  CHECK(c.id == "27a079b828ff1a75");
  CHECK(c.size == 8);
  REQUIRE(c.ranks.size() == 8);
  CHECK(c.ranks.at(0).launched.at("AllReduce") == 6650);
  CHECK(c.ranks.at(3).launched.at("AllReduce") == 6649);
  CHECK(c.ranks.at(3).pid == 483075);
  CHECK(c.ranks.at(3).host == "172.16.64.210");
}

TEST_CASE("NCCL's RAS before 2.26: groups with names, and missing ranks in one line") {
  const auto status = parse_ras(text_of(
      "INCOMPLETE",
      "Errors\n======\n\nINCOMPLETE\n  Missing communicator data from 1 job process\n"
      "  Process 3487984 on node 172.16.64.213 managing GPU 5\n\n"
      "#0-0 (cf264af53edbe986) INCOMPLETE\n  Missing communicator data from 1 rank\n  The missing rank: 5\n\n"
      "Warnings\n========\n\nTIMEOUT\n  Encountered 2 communication timeouts while gathering data\n\n"
      "#0-0 (cf264af53edbe986) MISMATCH\n  Communicator ranks have different collective operation counts\n"
      "  5 ranks have launched up to operation 20\n  2 ranks have launched up to operation 19\n"
      "  Rank 0 -- GPU 0 managed by process 1 on node a\n  Rank 2 -- GPU 2 managed by process 3 on node "
      "a\n\n"));
  REQUIRE(status);
  REQUIRE(status->communicators.size() == 1);
  const auto& ranks = status->communicators[0].ranks;
  CHECK(ranks.at(5).missing);
  CHECK(ranks.at(0).launched.at("collective") == 19);
  CHECK(ranks.at(1).launched.at("collective") == 20);
  CHECK(ranks.at(2).launched.at("collective") == 19);
  CHECK(ranks.at(5).launched.empty());
  CHECK(status->notes.size() == 2);
  const FlightFacts facts = facts_of_ras(*status);
  CHECK(facts.silent == std::vector<base::Rank>{5});
  CHECK(facts.facts.ranks.size() == 7);
  CHECK(facts.world_size == 8);
}

TEST_CASE("NCCL's RAS as JSON: sends are no steps of all ranks") {
  const auto status =
      parse_ras(json_of(json_rank(0, 7, 2) + "," + json_rank(1, 7, 2) + "," + json_rank(2, 6, 2),
                        R"({"rank": 3, "status": {"unresponsive": true, "considered_dead": true}})"));
  REQUIRE(status);
  const auto& ranks = status->communicators.at(0).ranks;
  REQUIRE(ranks.size() == 4);
  CHECK(ranks.at(3).dead);
  const FlightFacts facts = facts_of_ras(*status);
  REQUIRE(facts.facts.ranks.size() == 3);
  const model::Communicator& first = facts.facts.ranks[0].communicators.at(0);
  CHECK(first.called == 9);
  REQUIRE(first.calls.size() == 1);
  CHECK(first.calls[0].op == "all_reduce");
  CHECK(first.calls[0].sequence == 9);
  CHECK(facts.facts.ranks[2].communicators.at(0).called == 8);
  CHECK(facts.facts.ranks[2].communicators.at(0).calls.empty());
}

TEST_CASE("the report of NCCL's RAS names who is missing at which count") {
  const BuildResult late = report_of(behind());
  CHECK(late.verdict.ranks == model::RankSet{3});
  CHECK(late.verdict.sentence.find("6650") != std::string::npos);
  CHECK(late.verdict.sentence.find("ranks 0-2,4-7") != std::string::npos);
  CHECK(late.verdict.confidence != model::Confidence::high);
  CHECK(late.verdict.evidence.at(0).find("at one moment") != std::string::npos);

  // Before 2.26, with the ranks that are behind in lines of their own.
  const BuildResult earlier = report_of(
      text_of("MISMATCH",
              "Errors\n======\n\n(none)\n\nWarnings\n========\n\n#0-0 (27a079b828ff1a75) MISMATCH\n"
              "  Communicator ranks have different collective operation counts\n"
              "  6 ranks have launched up to operation 6650\n  2 ranks have launched up to operation 6649\n"
              "  Rank 0 -- GPU 0 managed by process 1 on node a\n"
              "  Rank 7 -- GPU 7 managed by process 8 on node a\n"));
  CHECK(earlier.verdict.id == "hang.not_entered");
  CHECK(earlier.verdict.ranks == model::RankSet{0, 7});

  std::string whole;
  for (const int rank : {0, 1, 3}) {
    whole += (whole.empty() ? "" : ",") + json_rank(rank, 7, 2);
  }
  const BuildResult dead = report_of(json_of(
      whole,
      R"({"rank": 2, "host": "10.0.0.1", "pid": 102, "nvml_dev": 2, "status": {"unresponsive": true}})"));
  CHECK(dead.verdict.sentence.find("have entered a collective, call 9") != std::string::npos);
  CHECK(dead.verdict.evidence.at(0).find("rank 2 gave NCCL's RAS no answer") != std::string::npos);
}

TEST_CASE("NCCL's RAS, cut off anywhere or hostile") {
  for (const std::string& whole : {behind(), json_of(json_rank(0, 7, 2), json_rank(1, 0, 0))}) {
    for (size_t size = 0; size < whole.size(); ++size) {
      if (const auto status = parse_ras(whole.substr(0, size))) {
        (void)facts_of_ras(*status);
      }
    }
  }
  std::string many = text_of("MISMATCH", "");
  for (int i = 0; i < 100; ++i) {
    many += fmt::format("    {}         1         1         8         1048575         8   RUNNING  OK\n", i);
  }
  for (int i = 0; i < 100; ++i) {
    many += fmt::format(
        "#{}-0 ({:x}) MISMATCH\n  Communicator ranks have different AllReduce operation counts\n", i, i);
  }
  const auto status = parse_ras(many);
  REQUIRE(status);
  CHECK(status->communicators.size() < 10);
  CHECK_FALSE(looks_like_ras("{}"));
  CHECK_FALSE(looks_like_ras("Communicators..."));
}
