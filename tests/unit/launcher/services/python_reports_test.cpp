#include "launcher/supervise/python_reports.h"

#include "tests/unit/launcher/job_scene.h"
#include "tests/unit/launcher/no_descriptors.h"
#include "tests/unit/launcher/services/log_lines.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <fcntl.h>

using namespace xpurun;
using namespace xpurun::launcher;
using test::kRank0;
using test::kRank1;
using test::Told;

namespace {

constexpr base::Pid kUnknown = 5'000'077;

// `more` is added to the message: "\"identity\":{...},"
std::string exception_message(const std::string& type, const std::string& more = {}) {
  return fmt::format(
      R"({{"schema":"xpurun.exception/1","kind":"uncaught","wall_ns":5,"code":1,{}"chain":[
      {{"relation":"","type":"{}","message":"m","frames":[]}},
      {{"relation":"cause","type":"OSError","message":"n","frames":[]}}]}})",
      more, type);
}

std::string untraced_message(const std::string& name) {
  return fmt::format(R"({{"schema":"xpurun.trace_problem/1","name":"{}","problem":"no_function"}})", name);
}

struct PythonReportsScene : test::JobScene {
  test::LogLines log;
  MpiSegments mpi;
  CallPlaces places{{.loop = loop, .started = [](base::Pid) {}}};
  std::vector<std::string> ended;
  std::optional<PythonReports> reports;
  int failures = 0;  // of workers

  explicit PythonReportsScene(const std::string& traced = "train:step") {
    options.python_hooks = true;
    options.preload = true;
    options.trace_python = traced;
    start();
  }
  void start() {
    reports.emplace(PythonReports::Parts{loop, table, journal, storage, options, mpi, places}, "node-a",
                    PythonReports::Hooks{.look_at =
                                             [this](base::Pid pid) {
                                               table.look_at(pid);
                                               tell("discover");
                                             },
                                         .recorded =
                                             [this](const model::PythonException& e) {
                                               tell(fmt::format("{} of {}", e.chain.at(0).type, e.rank));
                                             },
                                         .ended =
                                             [this](base::Pid pid, base::WaitStatus status) {
                                               ended.push_back(fmt::format("{} {}", pid, status.text()));
                                             },
                                         .worker_failed = [this](base::Rank) { ++failures; },
                                         .spans_wanted = [] { return true; }});
  }
  const std::vector<model::PythonException>& known() { return journal.manifest().exceptions; }
  // The descriptor is valid during the call only.
  bool attach(base::Pid pid) {
    bool works = false;
    reports->attach(pid, SpanWriter::python, [&](int fd) { works = fd >= 0 && ::fcntl(fd, F_GETFD) >= 0; });
    return works;
  }
};

}  // namespace

TEST_CASE("exceptions are recorded with the rank of their process") {
  PythonReportsScene s;
  s.run_for(7);
  s.reports->received(kRank1, exception_message("KeyError"));
  CHECK(s.told() == Told{"KeyError of 1"});
  REQUIRE(s.known().size() == 1);
  CHECK(s.known()[0].pid == kRank1);
  CHECK(s.known()[0].at_s == doctest::Approx(7));
  CHECK(s.known()[0].chain.size() == 2);
  s.run_for(1);
  CHECK(base::read_file("run/run.json").value().find("KeyError") != std::string::npos);
}

TEST_CASE("what is no message is dropped") {
  PythonReportsScene s;
  for (const char* bad : {"", "{", "[]", "null", R"({"schema":"xpurun.exception/1","chain":[]})",
                          R"({"schema":"xpurun.trace_problem/1","name":"a:b","problem":"whatever"})",
                          R"({"schema":"other","chain":[{"type":"KeyError"}]})"}) {
    CAPTURE(bad);
    s.reports->received(kRank0, bad);
    CHECK(s.known().empty());
    CHECK(s.told().empty());
  }
}

TEST_CASE("a process that the walks have not seen is looked for") {
  PythonReportsScene s;
  s.fake.add(kUnknown, test::kCommand, "python3", "RANK=2 LOCAL_RANK=2 WORLD_SIZE=3");
  s.reports->received(kUnknown, exception_message("KeyError"));
  CHECK(s.told() == Told{"discover", "KeyError of 2"});
  CHECK(s.ended.empty());
}

TEST_CASE("a rank that has ended before a walk is added by its own words") {
  PythonReportsScene s;
  const std::string identity = R"("identity":{"RANK":"5","LOCAL_RANK":"1","WORLD_SIZE":"8"},)";
  s.reports->received(kUnknown, exception_message("KeyError", identity));
  CHECK(s.told() == Told{"discover", "KeyError of 5"});
  CHECK(s.ended == std::vector<std::string>{fmt::format("{} exited with status 1", kUnknown)});
  REQUIRE(s.table.find(kUnknown) != nullptr);
  CHECK(s.table.find(kUnknown)->record.rank == 5);
  SUBCASE("without an identity it is no rank") {
    s.reports->received(kUnknown + 1, exception_message("ValueError"));
    CHECK(s.table.find(kUnknown + 1) == nullptr);
    CHECK(s.known().back().rank == base::kNoRank);
    CHECK(s.ended.size() == 1);
  }
  SUBCASE("a living rank is not replaced") {
    s.reports->received(
        kUnknown + 1,
        exception_message("ValueError", R"("identity":{"RANK":"0","LOCAL_RANK":"0","WORLD_SIZE":"2"},)"));
    CHECK(s.table.find(kUnknown + 1) == nullptr);
    CHECK(s.ended.size() == 1);
  }
}

TEST_CASE("of many exceptions of one process the first are kept") {
  PythonReportsScene s;
  for (int i = 0; i < 50; ++i) {
    s.reports->received(kRank0, exception_message("KeyError"));
  }
  CHECK(s.known().size() == ExceptionList::kMostOfProcess);
  CHECK(s.told().size() == ExceptionList::kMostOfProcess);
}

TEST_CASE("of an exception that one line raises again and again, the latest is kept where it was caught") {
  std::vector<model::PythonException> known;
  ExceptionList list(known);
  const auto add = [&](model::ExceptionKind kind, int line, double at_s) {
    model::PythonException x{.kind = kind, .pid = kRank0, .at_s = at_s};
    x.chain.push_back({.type = "ValueError", .frames = {{.file = "data.py", .line = line}}});
    CHECK(list.wants(kind, kRank0));
    list.add(std::move(x));
  };
  for (int i = 0; i < 50; ++i) {
    add(model::ExceptionKind::logged, 7, i);
  }
  REQUIRE(known.size() == 1);
  CHECK(known.front().at_s == 49);
  add(model::ExceptionKind::logged, 8, 50);
  add(model::ExceptionKind::kept, 7, 51);
  CHECK(known.size() == 3);
  add(model::ExceptionKind::raised, 7, 52);
  CHECK(known.size() == 4);
}

TEST_CASE("exits of thousands of processes do not hide a later exception") {
  std::vector<model::PythonException> known;
  ExceptionList list(known);
  const auto add = [&](model::ExceptionKind kind, base::Pid pid, double at_s) {
    model::PythonException x{.kind = kind, .pid = pid, .at_s = at_s};
    x.chain.resize(2);
    if (list.wants(kind, pid)) {
      list.add(std::move(x));
    }
  };
  for (int i = 0; i < 3000; ++i) {
    add(model::ExceptionKind::os_exit, 10 + i, 0.01 * i);
  }
  CHECK(known.size() == ExceptionList::kMost);
  CHECK(known.front().pid == 10 + 2000);
  add(model::ExceptionKind::raised, kRank1, 40);
  REQUIRE(known.size() == ExceptionList::kMost + 1);
  CHECK(known.back().kind == model::ExceptionKind::raised);
  CHECK(known.back().chain.size() == 2);
  // The first ones within a minute keep their tracebacks.
  for (int i = 0; i < 100; ++i) {
    add(model::ExceptionKind::thread, 9000 + i, 200 + 0.1 * i);
  }
  const auto whole = [&] {
    return std::count_if(known.begin(), known.end(),
                         [](const auto& x) { return model::is_exception(x.kind) && x.chain.size() == 2; });
  };
  CHECK(whole() == 1 + static_cast<int>(ExceptionList::kMostWhole));
  for (int i = 0; i < 1000; ++i) {
    add(model::ExceptionKind::thread, 10000 + i, 1000 + 100 * i);
  }
  CHECK(whole() == static_cast<int>(ExceptionList::kMostWholeEver));
}

TEST_CASE("a function that cannot be traced is warned of once, and for ranks only") {
  PythonReportsScene s("train:step,train:colate");
  s.reports->received(kUnknown, untraced_message("train:colate"));
  CHECK(s.told() == Told{"discover"});
  CHECK_FALSE(s.log.have("colate"));
  s.reports->received(kRank1, untraced_message("train:colate"));
  CHECK(s.log.have("rank 1: train:colate is not traced: the module has no such function"));
  s.log.clear();
  s.reports->received(kRank0, untraced_message("train:colate"));
  CHECK(s.log.text().empty());
  CHECK(s.reports->traced().functions.at(1).problem == model::TraceProblem::no_function);
  CHECK(s.known().empty());
}

TEST_CASE("a process gets memory for its calls and spans") {
  PythonReportsScene s;
  CHECK(s.attach(kRank0));
  CHECK(s.told().empty());
  CHECK(s.attach(kUnknown));
  CHECK(s.told() == Told{"discover"});
  {
    const test::NoDescriptors full;
    CHECK_FALSE(s.attach(kRank1));
  }
  CHECK(s.log.have(fmt::format("the calls and spans of pid {} are not seen", kRank1)));
  CHECK(s.attach(kRank1));
}

TEST_CASE("the list of traced functions changes as a whole, or not at all") {
  PythonReportsScene s("train:step");
  CHECK(s.attach(kRank0));
  const auto names = [&] {
    std::string out;
    for (const auto& f : s.reports->traced().functions) {
      out += f.name + " ";
    }
    return out;
  };
  CHECK(s.reports->traced().ranks.at(0).follows == FollowsList::yes);
  CHECK(s.reports->change_traced({"data:load", "a@b@c"}, {"train:step"}));
  CHECK(names() == "data:load a:b.c ");
  CHECK(s.reports->traced().ranks.at(0).follows == FollowsList::pending);
  CHECK(s.reports->traced().ranks.at(1).follows == FollowsList::no_spans);
  CHECK_FALSE(s.reports->change_traced({"no colon"}, {}));
  CHECK_FALSE(s.reports->change_traced({"x:y"}, {"never:added"}));
  CHECK_FALSE(s.reports->change_traced({"x:y", "z:"}, {"data:load"}));
  CHECK(names() == "data:load a:b.c ");
}

TEST_CASE("without hooks in Python no list can be changed") {
  PythonReportsScene s;
  SUBCASE("--no-python-hooks") {
    s.options.python_hooks = false;
  }
  SUBCASE("--no-preload") {
    s.options.preload = false;
  }
  const auto changed = s.reports->change_traced({"a:b"}, {});
  REQUIRE_FALSE(changed);
  CHECK(changed.error().what == "the job runs without xpurun's hooks in Python");
}
