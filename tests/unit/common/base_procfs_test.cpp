#include "common/base/os/io.h"
#include "common/base/os/procfs.h"
#include "common/base/os/temporary_directory.h"

#include <doctest/doctest.h>

#include <unistd.h>

using namespace xpurun::base;

TEST_CASE("a hostile thread name does not shift the fields of stat") {
  const auto st = parse_proc_stat(
      "42 (a) R 1 (x) S 7 42 42 0 -1 4194560 1 0 0 0 11 22 0 0 20 0 3 0 99887 1000 250 0 0 0 0 0 0 0 0 0 0 0 "
      "0 "
      "0 17 0 0 0 0 0 0 0 0 0 0 0 0 0 139");
  REQUIRE(st);
  CHECK(st->comm == "a) R 1 (x");
  CHECK(st->state == 'S');
  CHECK(st->ppid == 7);
  CHECK(st->minor_faults == 1);
  CHECK(st->utime_ticks == 11);
  CHECK(st->stime_ticks == 22);
  CHECK(st->num_threads == 3);
  CHECK(st->start_ticks == 99887);
  CHECK(st->rss_pages == 250);
  CHECK_FALSE(parse_proc_stat("42 (short) R 1"));
  CHECK_FALSE(parse_proc_stat(""));
  CHECK_FALSE(parse_proc_stat("42 )("));
}

TEST_CASE("this process is read from the real /proc") {
  const ProcFs proc;
  const auto st = proc.stat(::getpid());
  REQUIRE(st);
  CHECK(st->pid == ::getpid());
  CHECK(st->ppid == ::getppid());
  CHECK(proc.threads(::getpid()).size() >= 1);
  REQUIRE(proc.status(::getpid()));
  CHECK(proc.status(::getpid())->ns_pid.back() == ::getpid());
  CHECK_FALSE(proc.cmdline(::getpid()).empty());
}

TEST_CASE("the time for which a thread ran and waited for a CPU") {
  const auto dir = TemporaryDirectory::create("xpurun-procfs");
  REQUIRE(dir);
  const ProcFs proc(dir->path());
  REQUIRE(make_dirs(dir->path() + "/7"));
  REQUIRE(write_file_atomic(dir->path() + "/7/schedstat", "1200 3400 5\n"));
  CHECK(proc.main_run_time(7).cpu_ns == 1200);
  CHECK(proc.main_run_time(7).queue_ns == 3400);
  using namespace std::string_literals;
  REQUIRE(write_file_atomic(dir->path() + "/7/cmdline", "ray::IDLE\0\0\0\0\0\0\0"s));
  CHECK(proc.cmdline(7) == std::vector<std::string>{"ray::IDLE"});
  REQUIRE(write_file_atomic(dir->path() + "/7/cmdline", "grep\0-e\0\0"s));
  CHECK(proc.cmdline(7) == std::vector<std::string>{"grep", "-e", ""});
  REQUIRE(write_file_atomic(dir->path() + "/7/schedstat", "garbage"));
  CHECK(proc.main_run_time(7).cpu_ns == 0);
  CHECK(proc.main_run_time(7).queue_ns == 0);
}

TEST_CASE("a missing process gives errors and empty values") {
  const ProcFs proc("/nonexistent");
  CHECK(proc.main_run_time(1).queue_ns == 0);
  CHECK_FALSE(proc.stat(1));
  CHECK(proc.cmdline(1).empty());
  CHECK(proc.environ(1).empty());
  CHECK(proc.children(1).empty());
  CHECK(proc.io(1).read_chars == 0);
}

TEST_CASE("the memory of a process and its private part") {
  const auto dir = TemporaryDirectory::create("xpurun-procfs");
  REQUIRE(dir);
  const ProcFs proc(dir->path());
  REQUIRE(make_dirs(dir->path() + "/7"));
  const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  REQUIRE(write_file_atomic(dir->path() + "/7/statm", "900 50 20 1 0 60 0\n"));
  REQUIRE(proc.memory(7));
  CHECK(proc.memory(7)->resident_bytes == 50 * page);
  CHECK(proc.memory(7)->private_bytes == 30 * page);
  REQUIRE(write_file_atomic(dir->path() + "/7/statm", "900 5 20\n"));
  CHECK(proc.memory(7)->private_bytes == 0);
  REQUIRE(write_file_atomic(dir->path() + "/7/statm", "900"));
  CHECK_FALSE(proc.memory(7));
  CHECK_FALSE(proc.memory(8));
}
