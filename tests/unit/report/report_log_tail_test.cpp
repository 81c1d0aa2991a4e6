// Files that the job wrote elsewhere: the end of standard error, torchelastic's error files.
#include "common/base/clock.h"
#include "common/base/os/io.h"
#include "common/base/os/temporary_directory.h"
#include "report/build/error_files.h"
#include "report/build/job_file.h"
#include "report/build/log_tail.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <filesystem>
#include <sys/stat.h>

using namespace xpurun;
using namespace xpurun::report;
using model::StreamKind;

namespace {

struct Scene {
  base::TemporaryDirectory temporary = std::move(*base::TemporaryDirectory::create("xpurun-test-"));
  model::RunDir dir{temporary.path() + "/run"};
  std::string log = temporary.path() + "/err.log";
  model::RunManifest run;
  model::Verdict verdict;

  Scene() {
    REQUIRE(base::make_dirs(dir.path()));
    run.started_wall_ns = base::wall_ns() - 10'000'000'000;
    run.elapsed_s = 10;
    run.outcome = model::RunOutcome::exit;
    for (base::Rank r : {0, 1}) {
      run.processes.push_back({.pid = 100 + r,
                               .role = model::ProcessRole::rank,
                               .rank = r,
                               .error_stream = {.kind = StreamKind::file, .path = log},
                               .death = {.happened = true, .at_s = 9, .wait_status = base::WaitStatus(6)}});
    }
    verdict.kind = model::VerdictKind::crash;
    verdict.pid = 101;
    verdict.ranks = {1};
  }
  void write(const std::string& path, const std::string& text) {
    REQUIRE(base::make_dirs(std::filesystem::path(path).parent_path()));
    REQUIRE(base::write_file_atomic(path, text));
  }
  model::LogTail tail() { return read_log_tail({dir.path()}, run, verdict).log; }
};

using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("the last lines, without xpurun's own and without overwritten progress bars") {
  CHECK(last_lines("a\n\nxpurun: crash: b\n 10 %\r 99 %\r\nlast", 20) == Lines{"a", " 99 %", "last"});
  CHECK(last_lines("a\nb\nc\n", 2) == Lines{"b", "c"});
  CHECK(last_lines("", 20).empty());
  CHECK(last_lines("\x1b[31mred\n", 20).at(0).find('\x1b') == std::string::npos);
  CHECK(last_lines(std::string(5000, 'x'), 20).at(0).size() < 500);
}

TEST_CASE("the file of standard error, up to the rank's last position") {
  Scene s;
  s.write(s.log, "one\nfatal: no table\nlater, from others\n");
  s.run.processes[1].error_stream.end = 20;
  const model::LogTail tail = s.tail();
  CHECK(tail.lines == Lines{"one", "fatal: no table"});
  CHECK(tail.file == s.log);
  CHECK(tail.shared == model::RankSet{0, 1});
  SUBCASE("the lines are kept for later reports, when the file has changed") {
    s.write(s.log, "another run\n");
    CHECK(s.tail().lines == tail.lines);
  }
}

TEST_CASE("a crash: tracebacks of other ranks at the end of a shared file are left out") {
  Scene s;
  const std::string own = "fatal: no table\n";
  const std::string cut =
      "Traceback (most recent call last):\n  File \"job.py\", line 3, in <module>\n    ^^^^\n";
  const std::string whole = cut + "RuntimeError: Connection closed by peer\n";
  SUBCASE("cut off, and complete ones before") {
    s.write(s.log, own + whole + cut);
    CHECK(s.tail().lines == Lines{"fatal: no table"});
  }
  SUBCASE("chained") {
    s.write(s.log, own + whole + "\nDuring handling of the above exception, another exception occurred:\n\n" +
                       whole);
    CHECK(s.tail().lines == Lines{"fatal: no table"});
  }
  SUBCASE("with torch's name of the rank before each line") {
    s.write(s.log, own + "[rank0]: Traceback (most recent call last):\n[rank0]:   File \"job.py\", line 3\n" +
                       "[rank0]: RuntimeError: Connection closed by peer\n");
    CHECK(s.tail().lines == Lines{"fatal: no table"});
  }
  SUBCASE("kept if the crashed rank has raised an exception before") {
    s.verdict.exception.type = "ValueError";
    s.write(s.log, own + whole);
    CHECK(s.tail().lines.size() == 5);
  }
  SUBCASE("kept before other output") {
    s.write(s.log, whole + own);
    CHECK(s.tail().lines.size() == 5);
  }
  SUBCASE("kept if there is nothing else") {
    s.write(s.log, whole);
    CHECK(s.tail().lines.size() == 4);
  }
  SUBCASE("kept in the file of one rank") {
    s.write(s.log, own + whole);
    s.run.processes[0].error_stream.path = "/other";
    CHECK(s.tail().lines.size() == 5);
  }
  SUBCASE("kept for an exit") {
    s.verdict.kind = model::VerdictKind::exit;
    s.write(s.log, own + whole);
    CHECK(s.tail().lines.size() == 5);
  }
}

TEST_CASE("the rank's log of --logs takes precedence") {
  Scene s;
  s.write(s.log, "all ranks\n");
  s.write(s.dir.file("ranks/1/stderr.log"), "own\npassword=hunter2hunter2\n");
  const model::LogTail tail = s.tail();
  CHECK(tail.file == "ranks/1/stderr.log");
  CHECK(tail.shared.empty());
  CHECK(tail.lines.front() == "own");
  CHECK(tail.lines.back().find("hunter2") == std::string::npos);
}

TEST_CASE("an unreadable log gives a reason") {
  Scene s;
  CHECK(s.tail().reason.find("cannot be read") != std::string::npos);
  REQUIRE(::mkfifo(s.log.c_str(), 0600) == 0);
  CHECK(s.tail().reason.find("cannot be read") != std::string::npos);
  s.run.processes[1].error_stream = {.kind = StreamKind::pipe};
  CHECK(s.tail().reason.find("--logs") != std::string::npos);
  s.run.processes[1].error_stream = {};
  CHECK_FALSE(s.tail().reason.empty());
  SUBCASE("a file that was changed long after the run") {
    std::filesystem::remove(s.log);
    s.run.processes[1].error_stream = {.kind = StreamKind::file, .path = s.log};
    s.run.started_wall_ns -= base::s_to_ns(3600);
    s.write(s.log, "another run\n");
    CHECK(s.tail().lines.empty());
  }
  SUBCASE("a verdict that concerns no death has no log tail") {
    s.verdict.kind = model::VerdictKind::hang;
    CHECK(s.tail().empty());
    s.verdict.kind = model::VerdictKind::none;
    CHECK(s.tail().empty());
  }
}

TEST_CASE("evidence gets the last lines, unless there is an exception") {
  model::Verdict v;
  v.kind = model::VerdictKind::crash;
  v.ranks = {1};
  v.evidence = {"at 3 s: rank 1 died"};
  add_log_tail(v, {.rank = 1, .log = {.file = "x", .lines = {"a", "b", "c", "d", "e"}}});
  CHECK(v.evidence ==
        Lines{"the standard error of rank 1 ended with:", "b", "c", "d", "e", "at 3 s: rank 1 died"});
  CHECK(v.log_tail.lines.size() == 5);
  model::Verdict raised;
  raised.kind = model::VerdictKind::exception;
  raised.ranks = {1};
  add_log_tail(raised, {.rank = 1, .log = {.file = "x", .lines = {"a"}}});
  CHECK(raised.evidence.empty());
  CHECK(raised.log_tail.lines == Lines{"a"});
}

TEST_CASE("what ranks that share a file wrote later is not told where the reason is known") {
  Scene s;
  s.write(s.log, "RuntimeError: Connection closed by peer\n");
  CHECK(s.tail().lines.size() == 1);
  s.verdict.kind = model::VerdictKind::exception;
  CHECK(s.tail().lines.empty());
  CHECK(s.tail().reason == "ranks that share the file of standard error wrote to it later");
  // What the rank itself wrote before is there still.
  Scene before;
  before.write(before.log,
               "epoch 3\nTraceback (most recent call last):\n  File \"t.py\", line 1\nKeyError: 'label'\n"
               "KeyError: 'label' of another\nRuntimeError: Connection closed by peer\n");
  before.verdict.kind = model::VerdictKind::exception;
  before.verdict.exception = {.type = "KeyError", .message = "'label'\nmore"};
  CHECK(before.tail().lines == Lines{"epoch 3", "Traceback (most recent call last):",
                                     "  File \"t.py\", line 1", "KeyError: 'label'"});
  CHECK(before.tail().reason.empty());

  model::Verdict exit;
  exit.kind = model::VerdictKind::exit;
  exit.ranks = {1};
  exit.where = {.function = "main", .file = "train.py", .line = 7};
  const TailOfRank shared{.rank = 1, .log = {.file = "x", .lines = {"a"}, .shared = {0, 1}}};
  add_log_tail(exit, shared);
  CHECK(exit.evidence.empty());
  exit.log_tail = {};
  exit.where = {};  // nobody knows why it exited
  exit.exit_code = 3;
  add_log_tail(exit, shared);
  CHECK(exit.evidence.size() == 2);
  model::Verdict left;
  left.kind = model::VerdictKind::exit;
  left.exit_code = 0;
  left.ranks = {1};
  add_log_tail(left, shared);
  CHECK(left.evidence.empty());
}

TEST_CASE("a failed assertion of a kernel is named with its condition, function and line") {
  constexpr std::string_view kLine =
      "../aten/src/ATen/native/cuda/Indexing.cu:1292: indexSelectLargeIndex: block: [115,0,0], thread: "
      "[0,0,0] Assertion `srcIndex < srcSelectDimSize` failed.";
  const auto found = model::find_device_assert(std::string("a\n") + std::string(kLine) + "\nb\n");
  REQUIRE(found);
  CHECK(found->line == 1292);
  CHECK(found->function == "indexSelectLargeIndex");
  CHECK(found->condition == "srcIndex < srcSelectDimSize");
  const auto lambda = model::find_device_assert(
      "x.cu:7: operator(): block: [0,0,0], thread: [1,0,0] Assertion `a::b(c) == 1` failed.");
  REQUIRE(lambda);
  CHECK(lambda->function == "operator()");
  for (const char* other : {"", "x.cu:7: f: block: [0,0,0] Assertion `", "Assertion `x` failed.",
                            "f: block: [0,0,0], thread: [1,0,0] Assertion `a` failed."}) {
    CHECK_FALSE(model::find_device_assert(other));
  }

  Scene s;
  s.run.processes[0].error_stream.path = "/elsewhere";
  std::string text;
  for (int i = 0; i < 100; ++i) {
    text += std::string(kLine) + "\n";
  }
  s.write(s.log, text + "RuntimeError: CUDA error: device-side assert triggered\n");
  s.verdict.kind = model::VerdictKind::exception;
  s.verdict.exception = {.type = "RuntimeError", .message = "CUDA error: device-side assert triggered"};
  say(s.verdict, "rank 1 raised it");
  add_log_tail(s.verdict, read_log_tail({s.dir.path()}, s.run, s.verdict));
  CHECK(s.verdict.sentence ==
        "exception: rank 1 raised it; assertion `srcIndex < srcSelectDimSize` of the kernel "
        "indexSelectLargeIndex failed (Indexing.cu:1292)");
  // Of another error the lines say nothing.
  s.verdict.exception.message = "'label'";
  say(s.verdict, "rank 1 raised it");
  CHECK_FALSE(read_log_tail({s.dir.path()}, s.run, s.verdict).failed_assert);
}

TEST_CASE("an error file replaces a missing report of Python") {
  Scene s;
  const std::string file = s.temporary.path() + "/error.json";
  s.write(file, R"({"message": {"message": "ValueError: a bad batch", "extraInfo": {"timestamp": "5"}}})");
  s.run.processes[1].error_file = file;
  s.run.processes[1].death.wait_status = base::WaitStatus(1 << 8);
  SUBCASE("for a failed rank") {
    add_error_files(s.dir, s.run);
    REQUIRE(s.run.exceptions.size() == 1);
    const model::PythonException& x = s.run.exceptions.front();
    CHECK(x.pid == 101);
    CHECK(x.rank == 1);
    CHECK(x.at_s == 9);
    CHECK(model::headline(x.chain.front()) == "ValueError: a bad batch");
    // From now on the copy is enough.
    std::filesystem::remove(file);
    s.run.exceptions.clear();
    add_error_files(s.dir, s.run);
    CHECK(s.run.exceptions.size() == 1);
  }
  SUBCASE("not if Python has reported") {
    s.run.exceptions.push_back({.pid = 101, .chain = {{.type = "KeyError"}}});
    add_error_files(s.dir, s.run);
    CHECK(s.run.exceptions.size() == 1);
  }
  SUBCASE("not for a rank that the launcher ended or that exited cleanly") {
    s.run.processes[1].death.follower = true;
    add_error_files(s.dir, s.run);
    s.run.processes[1].death.follower = false;
    s.run.processes[1].death.wait_status = base::WaitStatus(0);
    add_error_files(s.dir, s.run);
    CHECK(s.run.exceptions.empty());
  }
  SUBCASE("not from other files") {
    s.write(file, "{");
    add_error_files(s.dir, s.run);
    CHECK(s.run.exceptions.empty());
  }
}
