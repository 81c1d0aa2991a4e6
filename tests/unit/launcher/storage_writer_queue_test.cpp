#include "common/base/os/io.h"
#include "launcher/storage/disk_watch.h"
#include "launcher/storage/run_storage.h"
#include "launcher/storage/writer_queue.h"

#include <doctest/doctest.h>

#include <signal.h>
#include <sys/wait.h>

using namespace xpurun;
using namespace xpurun::launcher;

namespace {

// Far above the duration of any step here.
constexpr double kLong = 60;

struct Running {
  explicit Running(const std::string& path, size_t most = WriterQueue::kMostBytes)
      : loop(EventLoop::create().value()) {
    auto started = WriterProcess::start([&] { return open_run_dir(path, "", "x", false); }, kLong);
    REQUIRE(started);
    dir = started->dir;
    pid = started->writer.pid();
    queue = std::make_unique<WriterQueue>(loop, std::move(started->writer), most);
  }
  ~Running() {
    ::kill(pid, SIGCONT);
    queue.reset();
    ::waitpid(pid, nullptr, 0);
  }
  // Simulates a stalled file system.
  void stall() const {
    ::kill(pid, SIGSTOP);
    int status = 0;
    ::waitpid(pid, &status, WUNTRACED);
    REQUIRE(WIFSTOPPED(status));
  }
  Written wait(double patience_s) {
    Written out = Written::all;
    queue->when_written(patience_s, [&](Written how) {
      out = how;
      loop.stop();
    });
    REQUIRE(loop.run());
    return out;
  }

  EventLoop loop;
  DirFacts dir;
  base::Pid pid = 0;
  std::unique_ptr<WriterQueue> queue;
};

}  // namespace

TEST_CASE("operations reach the disk in order, and failures are reported") {
  Running r("wq-order");
  int failures = 0;
  r.queue->make_dirs("wq-order/a/b");
  r.queue->create("wq-order/a/b/events", "head", [&](const base::Status& s) { failures += s ? 0 : 1; });
  for (int i = 0; i < 100; ++i) {
    r.queue->append_or_create("wq-order/log", "line\n");
  }
  r.queue->append("wq-order/missing", "x", [&](const base::Status& s) { failures += s ? 0 : 1; });
  CHECK(r.wait(kLong) == Written::all);
  CHECK(failures == 1);
  CHECK(base::read_file("wq-order/log").value().size() == 500);
  CHECK(base::read_file("wq-order/a/b/events").value() == "head");

  r.queue->replace("wq-order/a", "there is a directory in its place");
  CHECK(r.wait(kLong) == Written::not_all);
  CHECK(r.queue->problem().find("wq-order/a") != std::string::npos);
}

TEST_CASE("a failed replacement is retried with the newest text") {
  Running r("wq-again");
  r.queue->replace("wq-again/dump/run.json", "first");
  r.queue->create("wq-again/late", "a file is in the way", {});
  r.queue->replace("wq-again/late/dump.json", "1");
  r.queue->replace("wq-again/late/dump.json", "2");
  CHECK(r.wait(kLong) == Written::not_all);
  CHECK(base::read_file("wq-again/dump/run.json").value() == "first");
  r.queue->remove("wq-again/late");
  CHECK(r.wait(kLong) == Written::all);
  CHECK(r.queue->problem().empty());
  CHECK(base::read_file("wq-again/late/dump.json").value() == "2");
}

TEST_CASE("the writer holds the lock and releases it after writing everything") {
  Running r("wq-lock");
  CHECK(RunLock::held("wq-lock"));
  r.queue->replace("wq-lock/run.json", "x");
  r.queue->finish(kLong);
  CHECK(base::read_file("wq-lock/run.json").value() == "x");
  CHECK_FALSE(RunLock::held("wq-lock"));
}

TEST_CASE("a stalled writer blocks no caller, and the queue is bounded and keeps the newest text") {
  Running r("wq-stall", 1 << 20);
  r.stall();
  const std::string big(100'000, 'x');
  int dropped = 0;
  for (int i = 0; i < 50; ++i) {
    r.queue->append("wq-stall/f" + std::to_string(i), big, [&](const base::Status& s) {
      dropped += !s && s.error().what == "the disk does not keep up" ? 1 : 0;
    });
  }
  CHECK(r.queue->waiting_bytes() <= 1 << 20);
  CHECK(r.queue->dropped() > 0);
  for (int i = 0; i < 1000; ++i) {
    r.queue->replace("wq-stall/run.json", std::to_string(i));
  }
  CHECK(r.queue->waiting_bytes() <= 1 << 20);
  CHECK(r.wait(0.1) == Written::stalled);
  CHECK(static_cast<uint64_t>(dropped) == r.queue->dropped());
  const base::MonoNs before = base::mono_ns();
  r.queue->finish(0.1);
  CHECK(base::mono_ns() - before < base::s_to_ns(kLong / 2));

  ::kill(r.pid, SIGCONT);
  r.queue->finish(kLong);
  CHECK(base::read_file("wq-stall/run.json").value() == "999");
}

TEST_CASE("a text behind a removal is written again, and all that wait for a file are told") {
  Running r("wq-removed");
  r.stall();
  // Fills the socket: what follows is queued.
  r.queue->append_or_create("wq-removed/big", std::string(4 << 20, 'x'));
  int told = 0;
  const auto count = [&](const base::Status& s) { told += s ? 1 : 0; };
  r.queue->replace("wq-removed/nodes.json", "1", count);
  r.queue->replace("wq-removed/nodes.json", "2", count);
  r.queue->replace("wq-removed/nodes.json", "3");
  r.queue->remove("wq-removed/nodes.json");
  r.queue->replace("wq-removed/nodes.json", "4", count);
  ::kill(r.pid, SIGCONT);
  r.queue->finish(kLong);
  CHECK(base::read_file("wq-removed/nodes.json").value() == "4");
  CHECK(told == 3);
}

TEST_CASE("a writer whose supervisor has ended still writes all submitted operations") {
  base::Pid pid = 0;
  {
    EventLoop loop = EventLoop::create().value();
    auto started = WriterProcess::start([] { return open_run_dir("wq-left", "", "x", false); }, kLong,
                                        [] { (void)base::write_file_atomic("wq-left/ended", "x"); });
    REQUIRE(started);
    pid = started->writer.pid();
    WriterQueue queue(loop, std::move(started->writer));
    ::kill(pid, SIGSTOP);
    queue.replace("wq-left/run.json", "last words");
    queue.finish(0.05);
  }
  ::kill(pid, SIGCONT);
  int status = 0;
  REQUIRE(::waitpid(pid, &status, 0) == pid);
  CHECK(status == 0);
  CHECK(base::read_file("wq-left/run.json").value() == "last words");
  CHECK(base::file_exists("wq-left/ended"));
}

TEST_CASE("the death of the writer is reported") {
  Running r("wq-dead");
  r.stall();
  bool told = false;
  r.queue->append_or_create("wq-dead/log", "x");
  r.queue->replace("wq-dead/run.json", "x", [&](const base::Status& s) { told = !s; });
  ::kill(r.pid, SIGKILL);
  CHECK(r.wait(kLong) == Written::not_all);
  CHECK(told);
  CHECK(r.queue->problem().find("has died") != std::string::npos);
  CHECK(r.wait(kLong) == Written::not_all);
}

TEST_CASE("DiskWatch reports a file system that does not respond") {
  Running r("wq-watch");
  DiskWatch watch(r.loop, *r.queue, "wq-watch");
  bool stalled = false;
  watch.start(0.2, [&] {
    stalled = true;
    r.loop.stop();
  });
  r.stall();
  REQUIRE(r.loop.run());
  CHECK(stalled);
}

TEST_CASE("a directory that cannot be created is an error with a hint") {
  REQUIRE(base::write_file_atomic("wq-file", "x"));
  const auto run = RunStorage::open([] { return open_run_dir("wq-file/run", "", "x", false); });
  REQUIRE_FALSE(run);
  CHECK(run.error().id == "E-OUT-DIR");
  CHECK(run.error().sys_errno != 0);
}

TEST_CASE("the wait for one stall happens only once") {
  constexpr double kPatience = 2;
  Running r("wq-twice");
  r.stall();
  r.queue->append_or_create("wq-twice/log", "x");
  CHECK(r.wait(kPatience) == Written::stalled);
  const base::MonoNs before = base::mono_ns();
  r.queue->finish(kPatience);
  CHECK(base::mono_ns() - before < base::s_to_ns(kPatience));
}
