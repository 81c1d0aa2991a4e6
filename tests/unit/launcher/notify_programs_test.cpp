// The user's programs are real processes here, on the real clock.
#include "common/base/os/io.h"
#include "common/base/strings.h"
#include "launcher/notify/notifier.h"
#include "launcher/options/run_settings.h"
#include "launcher/storage/direct_storage.h"
#include "tests/unit/launcher/fake_proc.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdlib>
#include <fcntl.h>
#include <optional>
#include <set>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace xpurun;
using namespace xpurun::launcher;
using model::JobEventKind;
using model::ProgramStatus;

namespace {

struct ProgramsScene {
  base::TemporaryDirectory place = *base::TemporaryDirectory::create("xpurun-notify");
  EventLoop loop = std::move(*EventLoop::create());
  DirectStorage storage{&loop};
  test::FakeProc fake;
  ProcessTable table{test::kSupervisor, 0, fake.proc()};
  DeathLedger ledger;
  RunOptions options = default_run_options();
  Journal journal{loop, storage, model::RunDir(place.path()), loop.now()};
  base::UniqueFd null{::open("/dev/null", O_WRONLY | O_CLOEXEC)};
  Messages messages{loop, null.get()};
  std::set<base::Pid> running;
  size_t most_running = 0;
  std::optional<Notifier> notifier;

  std::string path(const std::string& name) const { return place.path() + "/" + name; }
  std::string text(const std::string& name) const { return base::read_file(path(name)).value_or(""); }
  const std::vector<model::EventCommand>& commands() { return journal.manifest().event_commands; }

  // With the current options.
  JobEvents& events() {
    if (!notifier) {
      sigset_t mask;
      sigemptyset(&mask);
      notifier.emplace(Notifier::Parts{loop, table, ledger, journal, options, messages},
                       LimitedProgram::Setup{.loop = loop,
                                             .signal_mask = mask,
                                             .started =
                                                 [this](base::Pid pid) {
                                                   running.insert(pid);
                                                   most_running = std::max(most_running, running.size());
                                                 }},
                       place.path());
      reap();
    }
    return notifier->events();
  }
  void reap() {
    for (const base::Pid pid : std::set<base::Pid>(running)) {
      int status = 0;
      if (::waitpid(pid, &status, WNOHANG) == pid) {
        running.erase(pid);
        notifier->helper_ended(pid, base::WaitStatus(status));
      }
    }
    loop.after(0.005, [this] { reap(); });
  }
  // The end of the run; returns when all notifications are done.
  void end(model::RunOutcome outcome = model::RunOutcome::exit) {
    events();
    journal.manifest().outcome = outcome;
    journal.save_now();
    bool ended = false;
    notifier->end([&] {
      ended = true;
      loop.stop();
    });
    if (!ended) {
      REQUIRE(loop.run());
    }
    CHECK(ended);
  }
  void hang(int n) {
    model::Stall i{.n = n};
    i.verdict.kind = model::VerdictKind::hang;
    i.verdict.level = model::VerdictLevel::confirmed;
    i.verdict.sentence = "hang: rank 1";
    events().hang(i);
  }
};

// Whether the process whose number is in the text ends. A killed process may take a moment, and is a zombie
// until its new parent reaps it.
bool goes_away(const std::string& text) {
  const auto pid = static_cast<base::Pid>(base::parse_int(base::trim(text)).value_or(0));
  REQUIRE(pid > 0);
  for (int i = 0; i < 24'000; ++i) {
    const auto stat = base::ProcFs().stat(pid);
    if (!stat || stat->state == 'Z' || stat->state == 'X') {
      return true;
    }
    ::usleep(5000);
  }
  return false;
}

}  // namespace

TEST_CASE("notify: the command of --on-event reads one JSON document") {
  ProgramsScene s;
  s.options.on_event = fmt::format("cat > {}; echo said", s.path("told.json"));
  s.options.on_event_kinds = {JobEventKind::end};
  s.journal.manifest().id = "run-1";
  s.end();
  const auto event = nlohmann::json::parse(s.text("told.json"));
  CHECK(event.at("event") == "end");
  CHECK(event.at("run") == "run-1");
  CHECK(event.at("directory") == s.place.path());
  REQUIRE(s.commands().size() == 1);
  CHECK(s.commands()[0].status == ProgramStatus::ok);
  CHECK(s.commands()[0].reason.empty());
}

TEST_CASE("notify: failures are recorded and have no other effect") {
  ProgramsScene s;
  s.options.on_event_kinds = {JobEventKind::end};
  std::string reason;
  SUBCASE("a status") {
    s.options.on_event = "exit 3";
    reason = "exited with status 3";
  }
  SUBCASE("a signal") {
    s.options.on_event = "kill -9 $$";
    reason = "killed by SIGKILL";
  }
  SUBCASE("no such program") {
    s.options.on_event = "no-such-program-of-xpurun";
    reason = "exited with status 127";
  }
  s.end();
  REQUIRE(s.commands().size() == 1);
  CHECK(s.commands()[0].status == ProgramStatus::failed);
  CHECK_MESSAGE(s.commands()[0].reason.find(reason) != std::string::npos, s.commands()[0].reason);
}

TEST_CASE("notify: a command that does not end is killed at the limit, with all of its descendants") {
  ProgramsScene s;
  s.options.on_event = fmt::format("sleep 1000 & echo $! > {}; cat > /dev/null; wait", s.path("pid"));
  s.options.on_event_kinds = {JobEventKind::end};
  s.options.event_limit_s = 3;
  s.end();
  REQUIRE(s.commands().size() == 1);
  CHECK(s.commands()[0].status == ProgramStatus::timeout);
  CHECK(goes_away(s.text("pid")));
}

TEST_CASE("notify: processes that a command leaves behind end with the command") {
  ProgramsScene s;
  s.options.on_event = fmt::format("sleep 1000 & echo $! > {}", s.path("pid"));
  s.options.on_event_kinds = {JobEventKind::end};
  s.end();
  CHECK(s.commands().at(0).status == ProgramStatus::ok);
  CHECK(goes_away(s.text("pid")));
}

TEST_CASE("notify: processes that have left the group of a command end too") {
  // As xpurun is.
  REQUIRE(::prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
  ProgramsScene s;
  s.options.on_event_kinds = {JobEventKind::end};
  SUBCASE("at the limit") {
    s.options.on_event =
        fmt::format("setsid sleep 1000 & echo $! > {}; cat > /dev/null; wait", s.path("pid"));
    s.options.event_limit_s = 3;
    s.end();
    CHECK(s.commands().at(0).status == ProgramStatus::timeout);
  }
  SUBCASE("left behind, with a child of its own") {
    s.options.on_event =
        fmt::format("setsid sh -c 'sleep 1000 & echo $! > {}; wait' & until [ -s {} ]; do sleep 0.01; done",
                    s.path("pid"), s.path("pid"));
    s.end();
    CHECK(s.commands().at(0).status == ProgramStatus::ok);
  }
  CHECK(goes_away(s.text("pid")));
  ::prctl(PR_SET_CHILD_SUBREAPER, 0);
}

TEST_CASE("notify: a few commands run at a time, a few wait, and the rest is recorded as not run") {
  ProgramsScene s;
  s.options.on_event = fmt::format("echo x >> {}", s.path("count"));
  for (int n = 1; n <= 24; ++n) {
    s.hang(n);
  }
  CHECK(s.running.size() == 4);
  CHECK(s.commands().size() == 4);  // 4 run, 16 wait
  CHECK(s.commands()[0].status == ProgramStatus::not_run);
  s.options.on_event_kinds = {};  // the end is not included
  s.end();
  CHECK(s.most_running == 4);
  CHECK(s.text("count").size() == 2 * 20);
  CHECK(s.commands().size() == 24);
}

TEST_CASE("notify: an interrupt ends the wait for commands and drops the waiting ones") {
  ProgramsScene s;
  s.options.on_event = "sleep 1000";
  for (int n = 1; n <= 6; ++n) {
    s.hang(n);
  }
  s.loop.after(0.05, [&] { s.notifier->give_up("xpurun was interrupted"); });
  s.end();
  CHECK(s.commands().size() == 7);
  for (const model::EventCommand& c : s.commands()) {
    CHECK((c.status == ProgramStatus::timeout || c.status == ProgramStatus::not_run));
    CHECK(c.reason == "xpurun was interrupted");
  }
}

TEST_CASE("notify: nothing runs unless requested") {
  ProgramsScene s;
  s.hang(1);
  s.end(model::RunOutcome::hang);
  CHECK(s.most_running == 0);
  CHECK(s.commands().empty());
  CHECK_FALSE(base::file_exists(s.path("no")));
}

TEST_CASE("notify: the programs have no preload library and no variables of an outer xpurun") {
  ::setenv("LD_PRELOAD", "/x/libxpurun_preload.so", 1);
  ::setenv("XPURUN_RUN", "1:2:3:x", 1);
  ProgramsScene s;
  s.options.on_event = fmt::format("env > {}", s.path("env"));
  s.options.on_event_kinds = {JobEventKind::end};
  s.end();
  ::unsetenv("LD_PRELOAD");
  ::unsetenv("XPURUN_RUN");
  const std::string env = s.text("env");
  CHECK(env.find("PATH=") != std::string::npos);
  CHECK(env.find("LD_PRELOAD") == std::string::npos);
  CHECK(env.find("XPURUN_RUN") == std::string::npos);
}

TEST_CASE("notify: plug-in files come from the option and from xpu_timer's variable, each once") {
  CHECK(plugin_files("", nullptr).empty());
  CHECK(plugin_files("a.py,b.py", "b.py, c.py,") == std::vector<std::string>{"a.py", "b.py", "c.py"});
}

TEST_CASE(
    "notify: plug-ins run after a failure, each in a process of its own, and their failures stay there") {
  ProgramsScene s;
  s.options.event_limit_s = 20;
  const auto file = [&](const std::string& name, const std::string& text) {
    REQUIRE(base::write_file_atomic(s.path(name), text));
    s.options.plugins += (s.options.plugins.empty() ? "" : ",") + s.path(name);
  };
  file("good.py",
       "import traceback\n"
       "def xpu_timer_parse_python_exception(kind, value, tb, infos):\n"
       "    assert kind is KeyError and sorted(infos) == ['ip', 'job_name', 'pod_name', 'rank', 'time']\n"
       "    where = traceback.extract_tb(tb)[-1]\n"
       "    print('printed', kind.__name__, value, infos['rank'], infos['time'], where.filename, "
       "where.lineno,\n"
       "          where.name, repr(value.__cause__))\n"
       "def xpu_timer_parse_cpp_exception(infos):\n"
       "    assert infos['time'] == infos['timestamp']\n"
       "    return '%d of rank %d' % (infos['signal'], infos['rank'])\n");
  file("raises.py", "def xpu_timer_parse_cpp_exception(infos):\n    raise ValueError('mine')\n");
  file("dies.py", "import os\ndef xpu_timer_parse_cpp_exception(infos):\n    os._exit(7)\n");
  file("empty.py", "");
  file("broken.py", "this is no Python\n");
  model::RunManifest& run = s.journal.manifest();
  run.processes.push_back({.pid = 7, .role = model::ProcessRole::rank, .rank = 2});
  const auto died = [&](base::Pid pid, base::Rank rank, int signal, bool follower) {
    run.processes.push_back({.pid = pid, .role = model::ProcessRole::rank, .rank = rank});
    run.processes.back().death = {
        .happened = true, .wait_status = base::WaitStatus(signal), .follower = follower};
  };
  died(8, 3, SIGPIPE, false);
  died(9, 4, SIGTERM, true);
  run.crashes.push_back({.pid = 7, .tid = 7, .rank = 2, .signal = 11, .dump = "dumps/none"});
  model::PythonException e{.pid = 7, .rank = 2, .wall_ns = 1'700'000'000'500'000'000};
  e.chain.push_back({.type = "KeyError",
                     .message = "'label'",
                     .frames = {{"main.py", 3, "main", ""}, {"data.py", 21, "collate", ""}}});
  e.chain.push_back({.relation = model::Relation::cause, .type = "my.Error", .message = "deep"});
  run.exceptions.push_back(e);
  SUBCASE("not after a success") {
    run.child_status = base::WaitStatus::of_exit(0);
    s.end();
    CHECK(run.plugins.empty());
    return;
  }
  run.child_status = base::WaitStatus::of_exit(1);
  s.end();
  const auto text_of = [&](const std::string& name, const std::string& function, ProgramStatus status) {
    for (const model::PluginResult& r : run.plugins) {
      if (r.file == s.path(name) && r.function == function && r.status == status) {
        return r.text;
      }
    }
    return std::string("nothing");
  };
  const std::string cpp = "xpu_timer_parse_cpp_exception";
  CHECK(text_of("good.py", "xpu_timer_parse_python_exception", ProgramStatus::ok) ==
        "printed KeyError 'label' 2 1700000000 data.py 21 collate Error('deep')");
  std::set<std::string> signals;
  for (const model::PluginResult& r : run.plugins) {
    if (r.file == s.path("good.py") && r.function == cpp) {
      signals.insert(r.text);
    }
  }
  // Rank 4 was ended by somebody else.
  CHECK(signals == std::set<std::string>{"11 of rank 2", "13 of rank 3"});
  CHECK(text_of("raises.py", cpp, ProgramStatus::failed) == "ValueError: mine");
  CHECK(text_of("dies.py", "", ProgramStatus::failed).find("status 7") != std::string::npos);
  CHECK(text_of("empty.py", "", ProgramStatus::failed).find("has neither") != std::string::npos);
  CHECK(text_of("broken.py", "", ProgramStatus::failed).find("SyntaxError") != std::string::npos);
}

TEST_CASE("notify: run.json keeps the newest commands") {
  ProgramsScene s;
  s.options.on_event = "true";
  for (int n = 1; n <= 1100; ++n) {
    s.hang(n);
  }
  CHECK(s.commands().size() == 1000);
  s.options.on_event_kinds = {};  // not the end
  s.end();
  CHECK(s.commands().size() == 1000);
  CHECK(std::count_if(s.commands().begin(), s.commands().end(),
                      [](const model::EventCommand& c) { return c.status == ProgramStatus::ok; }) == 20);
}
