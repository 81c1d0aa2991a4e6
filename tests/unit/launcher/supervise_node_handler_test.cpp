#include "common/model/job/nodes.h"
#include "tests/unit/launcher/node_scene.h"

#include <doctest/doctest.h>

using namespace xpurun;
using namespace xpurun::launcher;
using test::Told;
using NodeHandlerScene = test::NodeScene;

namespace {

constexpr int kFailed = 1 << 8;

void join_and_dump_a_hang(NodeHandlerScene& s) {
  s.join();
  s.journal.manifest().stalls.push_back({.n = 1});
  CHECK(s.nodes->stall_raised());
  s.order(ClaimReason::hang);
  s.end_dump();
}

}  // namespace

TEST_CASE("node handler: joins once, and tells its state every two seconds") {
  NodeHandlerScene s;
  s.nodes->rank_found();
  REQUIRE(s.link->started);
  CHECK(s.link->started->node == "0-h0");
  CHECK(s.link->started->nodes == 2);
  CHECK(s.sent<StateMessage>().size() == 1);
  s.link->started.reset();
  s.nodes->rank_found();
  CHECK_FALSE(s.link->started);
  s.run_for(4.5);
  CHECK(s.sent<StateMessage>().size() == 2);
}

TEST_CASE("node handler: a stall of this node is a claim, and one verdict of this node over all nodes") {
  NodeHandlerScene s;
  s.join();
  s.journal.manifest().stalls.push_back({.n = 1});
  CHECK(s.nodes->stall_raised());
  CHECK(s.nodes->leads());
  CHECK(s.sent<StalledMessage>().size() == 1);
  s.order(ClaimReason::hang);
  s.collecting = true;
  s.end_dump();
  CHECK(s.sent<DumpedMessage>().empty());
  s.collecting = false;
  s.nodes->evidence_collected();
  s.run_for(0.01);
  const auto dumped = s.sent<DumpedMessage>();
  REQUIRE(dumped.size() == 1);
  CHECK(dumped[0].request == "r1");
  CHECK(dumped[0].directory == s.journal.manifest().stalls[0].dump);
  s.told();
  s.hear(GatheredMessage{.request = "r1", .nodes = {{.node = "0-h0"}, {.node = "1-h1", .node_rank = 1}}});
  CHECK(s.told() == Told{"report"});
  CHECK(model::load_nodes(s.journal.dir().file(model::kNodesFile))->nodes.size() == 2);
  const auto hang = NodeHandlerScene::verdict(model::VerdictKind::hang, "hang: rank 2");
  CHECK_FALSE(s.nodes->take({.verdict = hang}));
  CHECK(s.sent<VerdictMessage>().size() == 1);
  CHECK(s.told() == Told{"judged hang: rank 2 "});
  // Reports that follow have the verdict of all nodes.
  const auto own =
      s.nodes->take({.verdict = NodeHandlerScene::verdict(model::VerdictKind::hang, "hang: all wait")});
  REQUIRE(own);
  CHECK(own->verdict->sentence == "hang: rank 2");
}

TEST_CASE("node handler: the verdict over all nodes does not wait for the page") {
  NodeHandlerScene s;
  join_and_dump_a_hang(s);
  s.run_for(0.01);
  s.told();
  const auto hang = NodeHandlerScene::verdict(model::VerdictKind::hang, "hang: rank 2");
  s.nodes->take_verdict({.verdict = hang, .unfinished = true});
  CHECK(s.sent<VerdictMessage>().empty());
  const GatheredMessage gathered{.request = "r1",
                                 .nodes = {{.node = "0-h0"}, {.node = "1-h1", .node_rank = 1}}};
  SUBCASE("of the report over all nodes") {
    s.hear(gathered);
    s.told();
    s.nodes->take_verdict({.verdict = hang, .unfinished = true});
    CHECK(s.sent<VerdictMessage>().size() == 1);
    CHECK(s.told() == Told{"judged hang: rank 2 "});
    const auto page = s.nodes->take({.verdict = hang, .problem = "disk full"});
    REQUIRE(page);
    CHECK(page->problem == "disk full");
    CHECK(s.sent<VerdictMessage>().empty());
  }
  SUBCASE("nor is it that of a report which began before the archives were there") {
    s.reporting = true;
    s.hear(gathered);
    s.nodes->take_verdict({.verdict = hang, .unfinished = true});
    CHECK(s.sent<VerdictMessage>().empty());
    CHECK_FALSE(s.nodes->take({.verdict = hang}));
    s.nodes->take_verdict({.verdict = hang, .unfinished = true});
    CHECK(s.sent<VerdictMessage>().size() == 1);
  }
}

TEST_CASE("node handler: after a failure the archive waits for the failures of the other ranks") {
  NodeHandlerScene s;
  s.join();
  s.order(ClaimReason::death);
  s.end_dump();
  CHECK(s.sent<DumpedMessage>().empty());
  SUBCASE("until no process has died for two seconds") {
    s.run_for(1.5);
    s.nodes->process_died();
    s.run_for(1.9);
    CHECK(s.sent<DumpedMessage>().empty());
    s.run_for(0.2);
  }
  SUBCASE("at most five seconds") {
    for (int i = 0; i < 4; ++i) {
      s.run_for(1.2);
      CHECK(s.sent<DumpedMessage>().empty());
      s.nodes->process_died();
    }
    s.run_for(0.3);
  }
  SUBCASE("until run.json is complete") {
    s.job.phase = JobPhase::reporting;
    s.nodes->job_recorded();
    s.run_for(0.01);
  }
  const auto dumped = s.sent<DumpedMessage>();
  REQUIRE(dumped.size() == 1);
  CHECK(dumped[0].request == "r1");
  s.run_for(10);
  CHECK(s.sent<DumpedMessage>().empty());
}

TEST_CASE("node handler: the first failed rank is a claim, those in a round on a failure are not") {
  NodeHandlerScene s;
  s.join();
  SUBCASE("of this node") {
    s.nodes->rank_failed(1);
    const auto claims = s.sent<StalledMessage>();
    REQUIRE(claims.size() == 1);
    CHECK(claims[0].why == ClaimReason::death);
    CHECK(claims[0].ranks == std::vector<base::Rank>{1});
    s.nodes->rank_failed(0);
    CHECK(s.sent<StalledMessage>().empty());
  }
  SUBCASE("of another node") {
    s.order(ClaimReason::death);
    s.nodes->rank_failed(0);
    CHECK(s.sent<StalledMessage>().empty());
    s.other_judges(NodeHandlerScene::verdict(model::VerdictKind::crash, "crash: rank 2"));
    CHECK(s.told() == Told{"judged crash: rank 2 the report of all nodes is on h1: /b/report.html",
                           "say crash: rank 2", "report", "idle"});
    CHECK(s.journal.manifest().job_report_host == "h1");
    CHECK(s.journal.manifest().job_report_dir == "/b");
    s.nodes->rank_failed(1);
    CHECK(s.sent<StalledMessage>().empty());
    // After a restart, the ranks may fail again.
    s.nodes->rank_found();
    CHECK(s.journal.manifest().job_report_host.empty());
    s.nodes->rank_failed(1);
    CHECK(s.sent<StalledMessage>().size() == 1);
  }
  SUBCASE("in a round on a hang") {
    s.order(ClaimReason::hang);
    s.nodes->rank_failed(0);
    CHECK(s.sent<StalledMessage>().size() == 1);
  }
}

TEST_CASE("node handler: ranks that wait for a failed one are no hang, unless nobody ends them") {
  NodeHandlerScene s;
  s.join();
  s.order(ClaimReason::death);
  s.end_dump();
  s.other_judges(NodeHandlerScene::verdict(model::VerdictKind::crash, "crash: rank 2"));
  s.told();
  s.run_for(5);
  s.journal.manifest().stalls.push_back({.n = 1});
  s.link->sent.clear();
  CHECK(s.nodes->stall_raised());
  CHECK(s.nodes->stall_changed(true));
  CHECK(s.sent<StalledMessage>().empty());
  const auto verdict_now = [&] {
    const auto own =
        s.nodes->take({.verdict = NodeHandlerScene::verdict(model::VerdictKind::hang, "hang: all wait")});
    return own ? own->verdict->sentence : "none";
  };
  CHECK(verdict_now() == "crash: rank 2");
  SUBCASE("they move again, or are ended") {
    CHECK_FALSE(s.nodes->stall_cleared());
    s.run_for(20);
    CHECK(s.sent<StalledMessage>().empty());
    CHECK(verdict_now() == "crash: rank 2");
  }
  SUBCASE("the job ends") {
    s.job.phase = JobPhase::settling;
    s.run_for(20);
    CHECK(s.sent<StalledMessage>().empty());
    CHECK(verdict_now() == "crash: rank 2");
  }
  SUBCASE("they still wait") {
    s.run_for(4.9);
    CHECK(s.sent<StalledMessage>().empty());
    s.run_for(0.2);
    const auto claims = s.sent<StalledMessage>();
    REQUIRE(claims.size() == 1);
    CHECK(claims[0].why == ClaimReason::hang);
    CHECK(verdict_now() == "none");
    s.order(ClaimReason::hang, "r2");
    s.other_judges(NodeHandlerScene::verdict(model::VerdictKind::hang, "hang: rank 2 is dead"), "r2");
    CHECK(verdict_now() == "hang: rank 2 is dead");
  }
  SUBCASE("some of them end meanwhile") {
    s.run_for(4);
    s.nodes->process_died();
    s.run_for(9.9);
    CHECK(s.sent<StalledMessage>().empty());
    s.journal.manifest().exceptions.push_back({.at_s = s.journal.elapsed_s()});
    s.run_for(9.9);
    CHECK(s.sent<StalledMessage>().empty());
    s.run_for(0.2);
    CHECK(s.sent<StalledMessage>().size() == 1);
  }
  SUBCASE("processes end for ever") {
    for (int i = 0; i < 54; ++i) {
      s.nodes->process_died();
      s.run_for(1);
    }
    CHECK(s.sent<StalledMessage>().empty());
    for (int i = 0; i < 2; ++i) {
      s.nodes->process_died();
      s.run_for(1);
    }
    CHECK(s.sent<StalledMessage>().size() == 1);
  }
  SUBCASE("they still wait, and nobody is there to be asked") {
    s.hear(AloneMessage{.reason = "the server is gone"});
    s.told();
    s.run_for(5.1);
    CHECK(s.sent<StalledMessage>().empty());
    CHECK(s.told() == Told{"idle"});
    REQUIRE(s.dump != nullptr);
  }
}

TEST_CASE("node handler: the end of a hang does not make a later failure forgotten") {
  NodeHandlerScene s;
  join_and_dump_a_hang(s);
  s.other_judges(NodeHandlerScene::verdict(model::VerdictKind::hang, "hang: rank 2"));
  CHECK_FALSE(s.nodes->stall_cleared());
  s.run_for(5);
  s.order(ClaimReason::death, "r2");
  s.other_judges(NodeHandlerScene::verdict(model::VerdictKind::crash, "crash: rank 2"), "r2");
  s.run_for(20);
  CHECK(s.nodes->leads());
}

TEST_CASE("node handler: a stall long after a failure is claimed at once") {
  NodeHandlerScene s;
  s.join();
  s.order(ClaimReason::death);
  s.end_dump();
  s.other_judges(NodeHandlerScene::verdict(model::VerdictKind::crash, "crash: rank 2"));
  s.run_for(30);
  s.journal.manifest().stalls.push_back({.n = 1});
  s.link->sent.clear();
  CHECK(s.nodes->stall_raised());
  CHECK(s.sent<StalledMessage>().size() == 1);
}

TEST_CASE("node handler: a node whose command has ended takes part until its last words") {
  NodeHandlerScene s;
  s.join();
  SUBCASE("its failure is a claim") {
    s.end_command(kFailed);
    CHECK(s.nodes->busy());
    const auto sent = std::exchange(s.link->sent, {});
    const auto* state = std::get_if<StateMessage>(&sent.front());
    REQUIRE(state != nullptr);
    CHECK(state->phase == NodePhase::ending);
    const auto* claim = std::get_if<StalledMessage>(&sent.back());
    REQUIRE(claim != nullptr);
    CHECK(claim->ranks.empty());
    // Somebody waits for the exit status: no verdict, and this node judges alone.
    s.run_for(14.9);
    CHECK(s.nodes->busy());
    s.run_for(0.2);
    CHECK_FALSE(s.nodes->busy());
    CHECK(s.told() == Told{"report", "idle"});
    const auto own =
        s.nodes->take({.verdict = NodeHandlerScene::verdict(model::VerdictKind::exit, "exit: rank 0")});
    REQUIRE(own);
    CHECK(own->verdict->evidence.back() == "this node only: no verdict of the job within 15 s");
  }
  SUBCASE("not after an interruption") {
    s.interrupted = true;
    s.end_command(kFailed);
    CHECK_FALSE(s.nodes->busy());
  }
  SUBCASE("not after a verdict") {
    s.order(ClaimReason::death);
    s.other_judges(NodeHandlerScene::verdict(model::VerdictKind::crash, "crash: rank 2"));
    s.link->sent.clear();
    s.end_command(kFailed);
    CHECK_FALSE(s.nodes->busy());
    CHECK(s.sent<StalledMessage>().empty());
  }
}

TEST_CASE("node handler: a node that ends well while others work stays for a moment") {
  NodeHandlerScene s;
  s.join();
  SUBCASE("three seconds at most") {
    s.end_command(0);
    CHECK(s.nodes->busy());
    s.run_for(2.9);
    CHECK(s.told().empty());
    s.run_for(0.2);
    CHECK(s.told() == Told{"idle"});
    CHECK_FALSE(s.nodes->busy());
  }
  SUBCASE("until they end") {
    s.end_command(0);
    s.see(NodePhase::ending);
    CHECK_FALSE(s.nodes->busy());
    s.run_for(0);
    CHECK(s.told() == Told{"idle"});
  }
  SUBCASE("not for those that have ended") {
    s.see(NodePhase::ended, /*alive=*/false);
    s.end_command(0);
    CHECK_FALSE(s.nodes->busy());
  }
  SUBCASE("and takes part in their round") {
    s.end_command(0);
    s.order(ClaimReason::death);
    s.run_for(3.1);
    CHECK(s.nodes->busy());
    s.other_judges(NodeHandlerScene::verdict(model::VerdictKind::exit, "exit: rank 0 left early"));
    CHECK_FALSE(s.nodes->busy());
  }
  SUBCASE("not without a connection") {
    s.end_command(0);
    s.hear(AloneMessage{.reason = "the server is gone"});
    CHECK_FALSE(s.nodes->busy());
  }
}

TEST_CASE("node handler: a command that ends well after a stall has passed it") {
  NodeHandlerScene s;
  join_and_dump_a_hang(s);
  const auto hang = NodeHandlerScene::verdict(model::VerdictKind::hang, "hang: rank 2");
  SUBCASE("on all nodes") {
    s.other_judges(hang);
    CHECK_FALSE(s.nodes->stall_cleared());
    s.end_command(0);
    CHECK_FALSE(s.nodes->leads());
  }
  SUBCASE("although no look has seen it") {
    s.other_judges(hang);
    s.end_command(0);
    CHECK(s.nodes->leads());  // what is known of the others may be old
    s.see(NodePhase::running);
    CHECK_FALSE(s.nodes->leads());
  }
  SUBCASE("although no look has seen it, and the others have ended") {
    s.other_judges(hang);
    s.see(NodePhase::ending);
    s.end_command(0);
    CHECK_FALSE(s.nodes->leads());
    CHECK_FALSE(s.nodes->busy());
  }
  SUBCASE("the others say so only now") {
    s.other_judges(hang);
    s.see(NodePhase::stalled);
    s.end_command(0);
    CHECK(s.nodes->leads());
    CHECK(s.nodes->busy());
    s.told();
    s.job.phase = JobPhase::reporting;
    s.see(NodePhase::ending);
    CHECK_FALSE(s.nodes->leads());
    s.run_for(0);
    CHECK(s.told() == Told{"report", "idle"});
  }
  SUBCASE("the others still stand still") {
    s.other_judges(hang);
    s.see(NodePhase::stalled);
    s.end_command(0);
    s.run_for(3.1);
    CHECK_FALSE(s.nodes->busy());
    CHECK(s.nodes->leads());
  }
  SUBCASE("before the verdict came") {
    s.end_command(0);
    CHECK(s.nodes->busy());
    s.other_judges(hang);
    CHECK(s.nodes->busy());
    s.see(NodePhase::running);
    CHECK_FALSE(s.nodes->leads());
  }
  SUBCASE("before the verdict came, on all nodes") {
    s.end_command(0);
    s.see(NodePhase::ending);
    s.other_judges(hang);
    CHECK_FALSE(s.nodes->leads());
    CHECK_FALSE(s.nodes->busy());
  }
  SUBCASE("not one that fails, or that was ended") {
    s.other_judges(hang);
    CHECK_FALSE(s.nodes->stall_cleared());
    SUBCASE("fails") {
      s.end_command(kFailed);
    }
    SUBCASE("was ended") {
      s.job.ended_by_us = true;
      s.end_command(0);
    }
    CHECK(s.nodes->leads());
  }
}

TEST_CASE("node handler: a stall that others have claimed is opened here, and ends with theirs") {
  NodeHandlerScene s;
  s.join();
  s.order(ClaimReason::hang);
  REQUIRE(s.journal.open_stall() != nullptr);
  s.end_dump();
  s.see(NodePhase::stalled);
  s.other_judges(NodeHandlerScene::verdict(model::VerdictKind::hang, "hang: rank 2"));
  s.told();
  s.run_for(5);
  s.see(NodePhase::stalled);
  s.run_for(5);
  s.see(NodePhase::running);
  CHECK(s.told().empty());
  s.run_for(1.1);
  s.see(NodePhase::running);
  CHECK(s.told() == Told{"cleared"});
  // The verdict is forgotten ten seconds after it: the ranks may have been ended.
  CHECK(s.nodes->leads());
  s.run_for(10);
  CHECK_FALSE(s.nodes->leads());
}

TEST_CASE("node handler: cut off, this node judges alone, and open questions are answered") {
  NodeHandlerScene s;
  s.join();
  bool answered = false;
  s.nodes->ask({.verb = "status"}, [&](const auto& answers) { answered = answers.empty(); });
  CHECK(s.sent<AskMessage>().size() == 1);
  s.nodes->rank_failed(1);
  SUBCASE("by the network") {
    s.hear(AloneMessage{.reason = "the server is gone"});
  }
  SUBCASE("by the end of the helper") {
    s.link->hooks.lost("killed");
  }
  SUBCASE("by a refusal") {
    s.hear(FailedMessage{.reason = "wrong token"});
    CHECK(s.link->given_up);
    CHECK(s.told().back() == "say no verdict over all nodes: wrong token");
  }
  CHECK(answered);
  CHECK_FALSE(s.nodes->leads());
  CHECK(s.nodes->list().server.empty());
  const auto own =
      s.nodes->take({.verdict = NodeHandlerScene::verdict(model::VerdictKind::crash, "crash: rank 1")});
  REQUIRE(own);
  CHECK(own->verdict->evidence.back().starts_with("this node only: "));
}

TEST_CASE("node handler: what the elected node decides is done, and requests are answered") {
  NodeHandlerScene s;
  s.join();
  s.hear(RequestMessage{.id = 7, .node = "1-h1", .verb = "status", .arguments = "{}"});
  const auto answers = s.sent<AnswerMessage>();
  REQUIRE(answers.size() == 1);
  CHECK(answers[0].id == 7);
  CHECK(answers[0].body == "to {}");
  s.hear(ActMessage{.action = JobAction::kill, .reason = "hang"});
  CHECK(s.told() == Told{"END"});
  s.job.ended_by_us = true;
  s.hear(ActMessage{.action = JobAction::kill, .reason = "hang"});
  CHECK(s.told().empty());
}

TEST_CASE("node handler: the ranks of all nodes in one status") {
  NodeHandlerScene s;
  s.join();
  s.hear(NodesMessage{
      .nodes = {{.node = "0-h0", .host = "h0", .elected = true},
                {.node = "1-h1",
                 .node_rank = 1,
                 .host = "h1",
                 .ranks = {{.rank = 2, .state = 'S', .still_s = 5, .where = "train.py:3 step"}}}}});
  CHECK(s.nodes->better_informed().empty());
  LiveStatus status{.host = "h0", .ranks = {{.rank = 0, .pid = 11}}};
  s.nodes->complete(status);
  REQUIRE(status.ranks.size() == 2);
  CHECK(status.ranks[0].host == "h0");
  CHECK(status.ranks[1].host == "h1");
  CHECK(status.ranks[1].where == "train.py:3 step");
  CHECK(status.gaps.empty());
  CHECK(s.nodes->still_elsewhere(6).empty());
  REQUIRE(s.nodes->still_elsewhere(5).size() == 1);
  CHECK(s.nodes->still_elsewhere(5).front().rank == 2);
  CHECK(s.nodes->still_elsewhere(5).front().host == "h1");
  // Nodes that hear the elected node only ask that one.
  s.hear(NodesMessage{.nodes = {{.node = "1-h1", .node_rank = 1, .host = "h1", .elected = true}}});
  CHECK(s.nodes->better_informed() == "1-h1");
  s.hear(NodesMessage{
      .nodes = {{.node = "0-h0"},
                {.node = "1-h1", .host = "h1", .seen_s = 20, .alive = false, .expected = {2, 3}}}});
  LiveStatus silent{.host = "h0"};
  s.nodes->complete(silent);
  CHECK(silent.ranks.empty());
  CHECK(silent.gaps == Told{"no word from host h1 for 20 s: ranks 2-3"});
}

TEST_CASE("node handler: what all nodes have sent makes this node's page that of the whole job") {
  NodeHandlerScene s;
  s.join();
  s.order(ClaimReason::death);
  const auto verdict = NodeHandlerScene::verdict(model::VerdictKind::crash, "crash: rank 2");
  s.hear(
      VerdictMessage{.request = "r1", .node = "1-h1", .directory = "/b", .shared = true, .verdict = verdict});
  s.run_for(0);
  s.told();
  const JobFilesMessage files{
      .request = "r1",
      .nodes = {
          {.node = "0-h0", .host = "h0"},
          {.node = "1-h1", .host = "h1", .node_rank = 1, .directory = "nodes/1-h1", .dump = "dumps/1-x"}}};
  const auto place_now = [&] { return s.nodes->take({.verdict = verdict})->place; };
  s.storage.remove(s.journal.dir().file(model::kNodesFile));
  const auto nodes_file = [&] { return model::load_nodes(s.journal.dir().file(model::kNodesFile)); };
  SUBCASE("it comes while the job runs: nobody waits for it") {
    CHECK_FALSE(s.nodes->busy());
    CHECK(place_now().empty());
    s.hear(files);
    s.run_for(0.1);
    CHECK(s.told() == Told{"report"});
    CHECK(place_now().empty());
    const auto written = nodes_file();
    REQUIRE(written);
    CHECK(written->this_node == "0-h0");
    CHECK(written->elected == "1-h1");
    CHECK(written->nodes[1].directory == "nodes/1-h1");
    // Who has judged stays known: that verdict holds.
    CHECK(s.journal.manifest().job_report_host == "h1");
    // Another verdict rests on other data.
    s.other_judges(NodeHandlerScene::verdict(model::VerdictKind::crash, "crash: rank 3"), "r2");
    s.run_for(0.1);
    CHECK_FALSE(nodes_file());
    CHECK(place_now() == "the report of all nodes is on h1: /b/report.html");
  }
  SUBCASE("of another verdict it is of no use") {
    s.hear(JobFilesMessage{.request = "r0", .nodes = files.nodes});
    s.run_for(0.1);
    CHECK(s.told().empty());
    CHECK_FALSE(nodes_file());
  }
  SUBCASE("after the end of the command this node waits for it") {
    s.end_command(256);
    CHECK(s.nodes->busy());
    s.run_for(1);
    CHECK(s.told().empty());
    s.hear(files);
    CHECK_FALSE(s.nodes->busy());
    s.run_for(0);
    CHECK(s.told() == Told{"report", "idle"});
  }
  SUBCASE("but not longer than three seconds") {
    s.end_command(256);
    s.run_for(2.9);
    CHECK(s.nodes->busy());
    s.run_for(0.2);
    CHECK_FALSE(s.nodes->busy());
    CHECK(s.told() == Told{"idle"});
    CHECK(place_now() == "the report of all nodes is on h1: /b/report.html");
  }
  SUBCASE("and not when the connection is lost") {
    s.end_command(256);
    s.hear(AloneMessage{.reason = "gone"});
    CHECK_FALSE(s.nodes->busy());
  }
  SUBCASE("nor when it will not come") {
    s.hear(JobFilesMessage{.request = "r1", .reason = "too large"});
    s.end_command(256);
    CHECK_FALSE(s.nodes->busy());
    CHECK_FALSE(place_now().empty());
  }
}
