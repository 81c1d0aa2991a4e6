#include "common/base/os/io.h"
#include "common/base/os/temporary_directory.h"
#include "report/flight_recorder/dump_files.h"
#include "report/flight_recorder/rank_facts.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cstdlib>
#include <filesystem>
#include <unistd.h>

using namespace xpurun;
using namespace xpurun::report;
using model::CallStage;

namespace {

std::string data(const std::string& name) {
  const char* root = std::getenv("XPURUN_TEST_SOURCE");
  REQUIRE(root != nullptr);
  return fmt::format("{}/tests/data/flight_recorder/{}", root, name);
}

FlightDump dump_of(const nlohmann::json& j) {
  auto dump = read_flight_dump(j.dump());
  REQUIRE_MESSAGE(dump, (dump ? "" : dump.error().what));
  return std::move(*dump);
}

nlohmann::json entry(int record, const std::string& name, int sequence, const std::string& state) {
  return {{"record_id", record},
          {"pg_id", 0},
          {"process_group", {"0", "default_pg"}},
          {"collective_seq_id", sequence},
          {"p2p_seq_id", 0},
          {"profiling_name", "nccl:" + name},
          {"time_created_ns", 5'000'000'000},
          {"timeout_ms", 600'000},
          {"input_sizes", {{4, 2}}},
          {"output_sizes", {{16, 2}}},
          {"input_dtypes", {"BFloat16"}},
          {"state", state},
          {"retired", false},
          {"is_p2p", name.starts_with("send") || name.starts_with("recv")}};
}

nlohmann::json document(nlohmann::json entries, const std::string& version = "2.10") {
  return {{"version", version},
          {"pg_config", {{"0", {{"name", "0"}, {"desc", "default_pg"}, {"ranks", "[0, 1]"}}}}},
          {"entries", std::move(entries)}};
}

model::Communicator only(const RankFacts& facts) {
  REQUIRE(facts.collectives.communicators.size() == 1);
  return facts.collectives.communicators[0];
}

}  // namespace

TEST_CASE("flight recorder: dumps of a real job, torch 2.11 with NCCL") {
  const auto files = find_flight_files(data("torch-2.11"));
  REQUIRE(files.size() == 2);
  CHECK(files[1].rank == 1);
  const FlightFacts flight = read_flight_files(files);
  CHECK(flight.notes.empty());
  CHECK(flight.world_size == 2);
  CHECK(flight.silent.empty());
  REQUIRE(flight.facts.ranks.size() == 2);
  const char* ops[] = {"all_reduce", "broadcast"};
  for (int rank = 0; rank < 2; ++rank) {
    const model::RankCollectives& r = flight.facts.ranks[rank];
    CHECK(r.rank == rank);
    REQUIRE(r.communicators.size() == 2);
    const model::Communicator& c = r.communicators[0];
    CHECK(c.id == "0/0-1");
    CHECK(c.name == "default_pg");
    CHECK(c.members == std::vector<base::Rank>{0, 1});
    CHECK(c.rank == rank);
    CHECK(c.called == 10);
    CHECK(c.launched == 10);
    CHECK(c.done == 9);
    CHECK(c.point_to_point.empty());
    const model::CollectiveCall& last = c.calls.back();
    CHECK(last.sequence == 10);
    CHECK(last.op == ops[rank]);
    CHECK(last.count == (rank == 0 ? 1024 : 2048));
    CHECK(last.dtype == "float32");
    CHECK(last.stage == CallStage::launched);
    CHECK(last.where.function == "step");
    CHECK(last.where.file == "/job/main.py");
    CHECK(last.where.line == 18 + rank);
    std::string all;
    for (const model::CollectiveCall& call : c.calls) {
      all += fmt::format("{} {} {}; ", call.sequence, call.op, call.count);
    }
    CHECK(
        all.starts_with("1 all_reduce 1024; 2 all_reduce 1024; 3 all_reduce 1024; 4 all_gather 1024; "
                        "5 reduce_scatter 1024; 6 barrier 0; 7 broadcast 1024; 8 reduce 1024; "
                        "9 all_to_all 2048; "));
    const model::Communicator& tp = r.communicators[1];
    CHECK(tp.name == "tp");
    CHECK(tp.called == 2);
    CHECK(tp.done == 2);
    CHECK(tp.calls.back().count == 3072);
  }
}

TEST_CASE("flight recorder: the JSON form of a real dump") {
  auto content = base::read_file(data("torch-2.11/running.json"));
  REQUIRE(content);
  const auto dump = read_flight_dump(std::move(*content));
  REQUIRE(dump);
  CHECK(dump->major == 2);
  CHECK(dump->minor == 10);
  const RankFacts facts = rank_facts(*dump, 0);
  REQUIRE(facts.collectives.communicators.size() == 2);
  CHECK(facts.collectives.communicators[0].called == 9);
  // JSON has no frames.
  CHECK(facts.collectives.communicators[0].calls.back().where.function.empty());
}

TEST_CASE("flight recorder: stages, ages and counts") {
  auto entries =
      nlohmann::json::array({entry(0, "reduce_scatter", 1, "completed"), entry(1, "all_reduce", 2, "started"),
                             entry(2, "all_gather", 3, "scheduled")});
  entries[1]["time_discovered_started_ns"] = 6'000'000'000;
  entries[1]["retired"] = true;
  entries[2]["time_created_ns"] = 7'000'000'000;
  const model::Communicator c = only(rank_facts(dump_of(document(entries)), 1));
  CHECK(c.done == 1);
  CHECK(c.started == 2);
  CHECK(c.called == 3);
  CHECK(c.calls[0].count == 32);
  CHECK(c.calls[2].count == 8);
  CHECK(c.calls[2].dtype == "bfloat16");
  CHECK(c.calls[1].stage == CallStage::started);
  // The watchdog has given up the second call: its age is its time limit, and the others' ages follow.
  CHECK(c.calls[1].age_s == 600);
  CHECK(c.calls[2].age_s == 598);
  CHECK(only(rank_facts(dump_of(document(entries)), 1, 67'000'000'000)).calls[2].age_s == 60);
}

TEST_CASE("flight recorder: gloo retires what is done, and the only group may lack its name") {
  auto entries = nlohmann::json::array({entry(0, "", 1, "scheduled"), entry(1, "", 2, "scheduled")});
  entries[0]["profiling_name"] = entries[1]["profiling_name"] = "gloo:all_reduce";
  entries[0]["retired"] = true;
  nlohmann::json all = document(entries);
  all["pg_config"] = {{"", {{"name", ""}, {"desc", ""}, {"ranks", "[0, 1]"}}}};
  const model::Communicator c = only(rank_facts(dump_of(all), 1));
  CHECK(c.done == 1);
  CHECK(c.called == 2);
  CHECK(c.members == std::vector<int32_t>{0, 1});
}

TEST_CASE("flight recorder: ages count from the newest moment of all dumps") {
  auto late = nlohmann::json::array({entry(0, "all_reduce", 1, "completed")});
  late[0]["time_discovered_completed_ns"] = 30'000'000'000;
  std::vector<RankFacts> ranks;
  ranks.push_back(rank_facts(dump_of(document(late)), 0));
  ranks.push_back(
      rank_facts(dump_of(document(nlohmann::json::array({entry(0, "all_reduce", 1, "scheduled")}))), 1));
  CHECK(only(ranks[1]).calls[0].age_s == 0);
  align_ages(ranks);
  CHECK(only(ranks[0]).calls[0].age_s == 25);
  CHECK(only(ranks[1]).calls[0].age_s == 25);
}

TEST_CASE("flight recorder: a call that was not enqueued is only called") {
  auto j = document(nlohmann::json::array(
      {entry(0, "all_reduce", 1, "completed"), entry(1, "all_reduce", 2, "scheduled")}));
  j["pg_status"] = {{"0", {{"last_enqueued_collective", 1}, {"last_completed_collective", 1}}}};
  const model::Communicator c = only(rank_facts(dump_of(j), 0));
  CHECK(c.called == 2);
  CHECK(c.launched == 1);
  CHECK(c.calls[1].stage == CallStage::called);
}

TEST_CASE("flight recorder: a group without calls is listed and shows that its rank did not enter") {
  const model::Communicator c = only(rank_facts(dump_of(document(nlohmann::json::array())), 1));
  CHECK(c.called == 0);
  CHECK(c.comparable);
  CHECK(c.members.size() == 2);
}

TEST_CASE("flight recorder: a group is listed only for its members") {
  CHECK(rank_facts(dump_of(document(nlohmann::json::array())), 5).collectives.communicators.empty());
}

TEST_CASE("flight recorder: unfinished sends and receives are numbered by pair") {
  const auto entries =
      nlohmann::json::array({entry(0, "send 0->1", 0, "completed"), entry(1, "recv 0<-1", 0, "completed"),
                             entry(2, "send 0->1", 0, "scheduled"), entry(3, "recv 0<-1", 0, "scheduled"),
                             entry(4, "send 0->1", 0, "scheduled")});
  const RankFacts facts = rank_facts(dump_of(document(entries)), 0);
  const model::Communicator c = only(facts);
  REQUIRE(c.point_to_point.size() == 3);
  CHECK(c.point_to_point[0].op == "send");
  CHECK(c.point_to_point[0].peer == 1);
  CHECK(c.point_to_point[0].sequence == 2);
  CHECK(c.point_to_point[1].op == "recv");
  CHECK(c.point_to_point[1].count == 32);
  CHECK(c.point_to_point[2].sequence == 3);
  CHECK(facts.pairs.size() == 2);
}

TEST_CASE("flight recorder: pairs are aligned if a buffer has lost its oldest calls") {
  // Rank 0 has sent 1,000 times and holds the last two calls; rank 1 holds one more.
  std::vector<RankFacts> ranks;
  ranks.push_back(
      rank_facts(dump_of(document(nlohmann::json::array(
                     {entry(998, "send 0->1", 0, "completed"), entry(999, "send 0->1", 0, "completed")}))),
                 0));
  ranks.push_back(
      rank_facts(dump_of(document(nlohmann::json::array(
                     {entry(997, "recv 1<-0", 0, "completed"), entry(998, "recv 1<-0", 0, "completed"),
                      entry(999, "recv 1<-0", 0, "completed"), entry(1000, "recv 1<-0", 0, "scheduled")}))),
                 1));
  auto swapped = nlohmann::json::array(
      {entry(999, "send 0->1", 0, "completed"), entry(1000, "send 0->1", 0, "scheduled")});
  ranks[0] = rank_facts(dump_of(document(swapped)), 0);
  align_point_to_point(ranks);
  CHECK(only(ranks[0]).point_to_point[0].sequence == only(ranks[1]).point_to_point[0].sequence);
}

TEST_CASE("flight recorder: format 1 numbers collectives by their order") {
  auto entries =
      nlohmann::json::array({entry(0, "all_reduce", 0, "completed"), entry(1, "send 0->1", 0, "completed"),
                             entry(2, "all_reduce", 0, "scheduled")});
  for (int i = 0; i < 3; ++i) {
    entries[i].erase("collective_seq_id");
    entries[i]["seq_id"] = i + 1;
  }
  const model::Communicator c = only(rank_facts(dump_of(document(entries, "1.5")), 0));
  CHECK(c.called == 2);
  CHECK(c.comparable);
  // Numbers that start in the middle say nothing about another rank's numbers.
  for (int i = 0; i < 3; ++i) {
    entries[i]["record_id"] = 70 + i;
  }
  CHECK_FALSE(only(rank_facts(dump_of(document(entries, "1.5")), 0)).comparable);
}

TEST_CASE("flight recorder: files that are not dumps") {
  const auto problem = [](const std::string& text) {
    const auto dump = read_flight_dump(text);
    return dump ? std::string() : dump.error().what;
  };
  CHECK(problem("") == "the file is empty");
  CHECK(problem("{}") == "not a Flight Recorder dump: it has no version");
  CHECK(problem(R"({"version": "3.0"})") == "Flight Recorder format 3.0 is not known");
  CHECK(problem(R"({"version": "2.4", "entries)").find("not valid JSON") == 0);
  CHECK(problem(R"({"version": "2.4", "entries": [1, {"profiling_name": 3}, null]})").empty());
}

TEST_CASE("flight recorder: files of a directory") {
  namespace fs = std::filesystem;
  const std::string dir = fs::temp_directory_path() / fmt::format("xpurun-flight-{}", ::getpid());
  REQUIRE(base::make_dirs(dir));
  const std::string good = document(nlohmann::json::array()).dump();
  for (const char* name : {"trace_0", "trace_1.json", "trace_3", "other_0", "trace_x", "trace_99999999999"}) {
    REQUIRE(base::write_file_atomic(fmt::format("{}/{}", dir, name), good));
  }
  REQUIRE(base::write_file_atomic(dir + "/trace_2", "garbage"));
  REQUIRE(base::write_file_atomic(dir + "/trace_4", "\x80\x02(cos\n"));
  const auto files = find_flight_files(dir);
  REQUIRE(files.size() == 4);
  CHECK(files[1].path == dir + "/trace_1.json");
  CHECK(files[3].rank == 4);
  const FlightFacts flight = read_flight_files(files);
  // Rank 3 is in no group, ranks 0 and 1 are.
  CHECK(flight.facts.ranks.size() == 3);
  CHECK(flight.world_size == 5);
  REQUIRE(flight.notes.size() == 1);
  CHECK(flight.notes[0].find("trace_4: opcode GLOBAL is refused") != std::string::npos);
  fs::remove_all(dir);
}

TEST_CASE("flight recorder: names with the host of the rank are one job, ranks of two jobs are not") {
  const std::string good = document(nlohmann::json::array()).dump();
  const auto ranks_in = [&](const std::vector<const char*>& names) {
    const auto dir = base::TemporaryDirectory::create("xpurun-flight");
    REQUIRE(dir);
    for (const char* name : names) {
      REQUIRE(base::write_file_atomic(fmt::format("{}/{}", dir->path(), name), good));
    }
    std::vector<base::Rank> out;
    for (const FlightFile& file : find_flight_files(dir->path())) {
      out.push_back(file.rank);
    }
    return out;
  };
  using Ranks = std::vector<base::Rank>;
  CHECK(ranks_in({"nccl_trace_rank_alpha_0", "nccl_trace_rank_alpha_1", "nccl_trace_rank_beta_2",
                  "nccl_trace_rank_beta_3.pickle", "old_rank_9"}) == Ranks{0, 1, 2, 3});
  CHECK(ranks_in({"fr-node01-0", "fr-node02-1"}) == Ranks{0, 1});
  // Two jobs have left dumps.
  CHECK(ranks_in({"trace_rank_a_0", "trace_rank_a_1", "trace_rank_b_1"}) == Ranks{0, 1});
  CHECK(ranks_in({"first_0", "second_1", "second_2"}) == Ranks{1, 2});
}
