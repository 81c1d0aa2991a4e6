#include "common/base/strings.h"
#include "common/base/tr.h"
#include "report/diagnosis/title.h"
#include "report/diagnosis/vocabulary.h"

#include <doctest/doctest.h>

using namespace xpurun;
using model::Verdict;
using report::title_of;

namespace {

Verdict stuck() {
  Verdict v{.id = std::string(report::kHangStuck),
            .kind = model::VerdictKind::hang,
            .level = model::VerdictLevel::confirmed,
            .ranks = {1},
            .state = model::RankState::stuck,
            .since = "2026-11-21T21:45:28Z"};
  v.where = {.function = "Images.read_image",
             .file = "/home/user/dataload.py",
             .line = 13,
             .callee = "open",
             .target = "/mnt/data/image.bin"};
  say(v, "rank 1 has been in Images.read_image (dataload.py:13: open) for 10 s; ranks 0,2-3 wait for it");
  return v;
}

}  // namespace

TEST_CASE("a title has who, where and since when") {
  CHECK(title_of(stuck()) ==
        "rank 1 is stuck in Images.read_image (dataload.py:13: open /mnt/data/image.bin) since 21:45:28 UTC");
  Verdict in_a_call = stuck();
  in_a_call.id = report::kHangStuck;
  in_a_call.collective.id = "c";
  CHECK(title_of(in_a_call) == title_of(stuck()));
  Verdict unknown = stuck();
  unknown.since.clear();
  unknown.ranks = {1, 2};
  unknown.state = model::RankState::busy;
  CHECK(title_of(unknown) ==
        "ranks 1-2 are busy in Images.read_image (dataload.py:13: open /mnt/data/image.bin)");
}

TEST_CASE("a title that would be too long loses details, then words") {
  Verdict v = stuck();
  v.where.target = std::string(90, 'x');
  CHECK(title_of(v) == "rank 1 is stuck in Images.read_image (dataload.py:13: open) since 21:45:28 UTC");
  v.where.function = std::string(100, 'f');
  CHECK(title_of(v) == "rank 1 is stuck in dataload.py:13 since 21:45:28 UTC");
  v.where = {};
  say(v, std::string(70, 'a') + " " + std::string(70, 'b'));
  CHECK(title_of(v) == std::string(70, 'a') + " …");
  say(v, std::string(500, 'a'));
  CHECK(base::display_width(title_of(v)) <= report::kTitleColumns);
}

TEST_CASE("a title that would be too long ends with a clause, or with a sentence of a message") {
  Verdict v{.kind = model::VerdictKind::slow, .level = model::VerdictLevel::suspected};
  say(v,
      "the job has been 49 % slower since step 318 (02:32:48 UTC): 41 ms instead of 28 ms per step; most of "
      "the "
      "additional time is in the backward pass");
  CHECK(title_of(v) ==
        "the job has been 49 % slower since step 318 (02:32:48 UTC): 41 ms instead of 28 ms per step");
  Verdict raised = stuck();
  raised.id = report::kExitException;
  raised.kind = model::VerdictKind::exception;
  raised.exception = {
      .type = "RuntimeError",
      .message = "DataLoader worker (pid 3737) is killed by signal: Killed. Its parent waits. " +
                 std::string(100, 'x')};
  raised.where = {.function = "main", .file = "workers.py", .line = 66};
  CHECK(title_of(raised) ==
        "rank 1 raised RuntimeError: DataLoader worker (pid 3737) is killed by signal: Killed "
        "in workers.py:66 at 21:45:28 UTC");
  raised.exception.message =
      "Expected to have finished reduction in the prior iteration before starting a new one.";
  CHECK(title_of(raised) ==
        "rank 1 raised RuntimeError: Expected to have finished reduction in the prior … in main "
        "(workers.py:66) at 21:45:28 UTC");
}

TEST_CASE("the title of a job that was ended has the place of the rank that the others waited for") {
  Verdict v = stuck();
  v.kind = model::VerdictKind::interrupted;
  v.id = report::kInterrupted;
  v.state = model::RankState::busy;
  v.collective.id = "c";
  v.where.target.clear();
  v.since.clear();
  CHECK(title_of(v) == "ended while rank 1 is busy in Images.read_image (dataload.py:13: open)");
}

TEST_CASE("titles of calls, ends and slow ranks") {
  Verdict v = stuck();
  v.id = report::kHangMismatch;
  v.since.clear();
  v.collective.id = "c";
  v.collective.calls = {
      {.ranks = {0}, .sequence = 5, .op = "barrier", .where = {.function = "f", .file = "a.py", .line = 5}},
      {.ranks = {1, 2},
       .sequence = 5,
       .op = "all_reduce",
       .where = {.function = "f", .file = "a.py", .line = 12}}};
  CHECK(title_of(v) == "rank 0 called barrier (a.py:5), ranks 1-2 all_reduce (a.py:12)");
  v.collective.departure = model::Departure::other;
  v.collective.departing = v.collective.calls[0];
  v.collective.expected = v.collective.calls[1];
  CHECK(title_of(v) == "rank 1 called barrier (a.py:5), not all_reduce (a.py:12)");
  v.collective.expected = v.collective.calls[0];
  v.collective.departing.where.file = std::string(100, 'x');
  CHECK(title_of(v).find(", not") == std::string::npos);  // the same call: only the line would differ
  v.collective.departure = model::Departure::skipped;
  v.collective.departing = v.collective.calls[1];
  CHECK(title_of(v) == "rank 1 left out all_reduce (a.py:12)");
  Verdict exception = stuck();
  exception.id = report::kExitException;
  exception.kind = model::VerdictKind::exception;
  exception.exception = {.type = "KeyError", .message = "'label'\nmore"};
  exception.where.callee.clear();
  exception.where.target.clear();
  CHECK(title_of(exception) ==
        "rank 1 raised KeyError: 'label' in Images.read_image (dataload.py:13) at 21:45:28 UTC");
  Verdict crash = exception;
  crash.exception = {};
  crash.id = report::kCrashSignal;
  crash.kind = model::VerdictKind::crash;
  crash.signal = 11;
  CHECK(title_of(crash) == "rank 1 died of SIGSEGV in Images.read_image (dataload.py:13) at 21:45:28 UTC");
  Verdict exit = crash;
  exit.id = report::kExitError;
  exit.kind = model::VerdictKind::exit;
  exit.signal = 0;
  exit.exit_code = 3;
  CHECK(title_of(exit) ==
        "rank 1 exited with status 3 in Images.read_image (dataload.py:13) at 21:45:28 UTC");
  Verdict slow = exception;
  slow.exception = {};
  slow.id = report::kSlowRank;
  slow.kind = model::VerdictKind::slow;
  slow.slow = {.share = 0.68, .lost_s = 0.05};
  CHECK(title_of(slow) ==
        "rank 1 costs 68 % of every step in Images.read_image (dataload.py:13) since 21:45:28 UTC");
  Verdict none{.kind = model::VerdictKind::none};
  say(none, "all 4 ranks finished normally in 23 s");
  CHECK(title_of(none) == "all 4 ranks finished normally in 23 s");
}

TEST_CASE("a title about calls loses what the calls share before what differs") {
  Verdict v = stuck();
  v.id = report::kHangMismatchSize;
  v.collective.id = "c";
  const model::CodeLocation line = {.function = "step", .file = "pipeline_stages.py", .line = 1512};
  v.collective.calls = {{.ranks = {0},
                         .sequence = 5,
                         .op = "all_reduce",
                         .count = 1048576,
                         .dtype = "bfloat16",
                         .reduce = "max",
                         .where = line},
                        {.ranks = {1, 2, 3},
                         .sequence = 5,
                         .op = "all_reduce",
                         .count = 2097152,
                         .dtype = "bfloat16",
                         .reduce = "max",
                         .where = line}};
  CHECK(title_of(v) ==
        "rank 0 called all_reduce of 1048576 bfloat16 (pipeline_stages.py:1512), "
        "ranks 1-3 all_reduce of 2097152 bfloat16");
  v.collective.calls[1].count = 1048576;
  v.collective.calls[1].dtype = "float32";
  CHECK(title_of(v) ==
        "rank 0 called all_reduce of 1048576 bfloat16 (pipeline_stages.py:1512), "
        "ranks 1-3 all_reduce of 1048576 float32");
  v.collective.calls[1].op = "barrier";
  CHECK(title_of(v) ==
        "rank 0 called all_reduce (pipeline_stages.py:1512), "
        "ranks 1-3 barrier (pipeline_stages.py:1512) since 21:45:28 UTC");
}

TEST_CASE("the title of a message whose ends differ has the tags") {
  Verdict v = stuck();
  v.id = report::kHangP2p;
  v.collective.id = "c";
  const model::CodeLocation line = {.function = "exchange", .file = "halo_exchange.py", .line = 118};
  v.collective.calls = {
      {.ranks = {0}, .op = "send", .count = 1048576, .dtype = "float32", .peer = 1, .tag = 70, .where = line},
      {.ranks = {1},
       .op = "recv",
       .count = 1048576,
       .dtype = "float32",
       .peer = 0,
       .tag = 71,
       .where = line}};
  say(v,
      "a send and its recv differ: rank 0 called send of 1048576 float32 to rank 1 with tag 70 "
      "(halo_exchange.py:118), rank 1 called recv of 1048576 float32 from rank 0 with tag 71 "
      "(halo_exchange.py:118)");
  CHECK(title_of(v) ==
        "rank 0 called send to rank 1 with tag 70 (halo_exchange.py:118), "
        "rank 1 recv from rank 0 with tag 71 since 21:45:28 UTC");
  v.collective.calls[0].peer = 2;  // not the other end
  CHECK(title_of(v).starts_with("a send and its recv differ"));
}

TEST_CASE("the title of a call that a rank used to make otherwise has what differs") {
  Verdict v = stuck();
  v.id = report::kHangMismatchRoot;
  v.collective.id = "c";
  v.collective.departure = model::Departure::other;
  const model::CodeLocation line = {.function = "share", .file = "share_the_weights.py", .line = 31};
  v.collective.departing = {
      .op = "broadcast", .count = 16777216, .dtype = "float32", .root = 3, .where = line};
  v.collective.expected = {
      .op = "broadcast", .count = 16777216, .dtype = "float32", .root = 0, .where = line};
  CHECK(title_of(v) ==
        "rank 1 called broadcast from root 3 (share_the_weights.py:31), not broadcast from root 0 "
        "(share_the_weights.py:31)");
}

TEST_CASE("a terminal shows the title where the sentence is long") {
  Verdict v = stuck();
  v.title = title_of(v);
  CHECK(report::sentence_lines(v) == std::vector<std::string>{v.sentence});
  say(v, v.headline + " in backward (all_reduce) at train.py:148");
  CHECK(report::sentence_lines(v) == std::vector<std::string>{"hang: " + v.title, "  " + v.headline});
  // A title that is the beginning of the sentence would only be said twice.
  say(v,
      "rank 1 called sys.exit(3) at train.py:7 (in finish) 2 s ago; rank 0 waits for it in multiprocessing "
      "wait "
      "(train.py:16), which needs all ranks");
  v.where = {};
  v.title = title_of(v);
  CHECK(report::sentence_lines(v) == std::vector<std::string>{v.sentence});
}

TEST_CASE("a title in Chinese") {
  const base::Speaking speaking(base::Language::chinese);
  CHECK(title_of(stuck()).find("卡在 Images.read_image") != std::string::npos);
  CHECK(title_of(stuck()).find("自 21:45:28 UTC 起") != std::string::npos);
}
