#include "commands/stacks/task.h"
#include "common/base/os/io.h"

#include <doctest/doctest.h>

using namespace xpurun;
using namespace xpurun::launcher;

namespace {

base::Result<StacksTask> task(const std::vector<std::string>& words) {
  const auto parsed = parse_words(*find_command("stacks"), words);
  REQUIRE(parsed);
  return read_stacks_task(*parsed);
}

}  // namespace

TEST_CASE("live processes: repeated, in lists, from files") {
  REQUIRE(base::write_file_atomic("pids", "7\n8\n"));
  const auto t = task({"--pid", "1,2", "-p", "3", "--pid-file=pids", "--samples", "3", "--interval", "50ms"});
  REQUIRE(t);
  CHECK(t->pids == std::vector<base::Pid>{1, 2, 3, 7, 8});
  CHECK(t->samples == 3);
  CHECK(t->interval_s == doctest::Approx(0.05));
  CHECK(t->chosen_format() == report::Format::text);
  CHECK_FALSE(task({"--pid", "x"}));
  CHECK_FALSE(task({"--pid-file", "missing"}));
}

TEST_CASE("one source, and options only where they apply") {
  CHECK_FALSE(task({}));
  CHECK_FALSE(task({"--pid", "1", "dir"}));
  CHECK_FALSE(task({"--run", "latest", "dir"}));
  CHECK_FALSE(task({"--children", "dir"}));
  CHECK_FALSE(task({"--samples", "2", "dir"}));
  CHECK_FALSE(task({"a", "b"}));
  CHECK(task({"a", "b", "--out", "c"}));
  CHECK_FALSE(task({"--pid", "1", "--deadline", "0"}));
}

TEST_CASE("core files: repeated, in lists, with a comma in the name; with one program") {
  REQUIRE(base::write_file_atomic("core.a,b", "x"));
  const auto t = task({"--core", "c1,c2", "--core", "c3", "python3", "--locals", "--sysroot", "/mnt"});
  REQUIRE(t);
  CHECK(t->cores == std::vector<std::string>{"c1", "c2", "c3"});
  CHECK(t->program == "python3");
  CHECK(t->paths.empty());
  CHECK(t->locals);
  CHECK(t->chosen_format() == report::Format::text);
  CHECK_FALSE(t->resolve_again);
  CHECK(task({"--core", "core.a,b"})->cores == std::vector<std::string>{"core.a,b"});
  CHECK_FALSE(task({"--core", "c", "a", "b"}));
  CHECK_FALSE(task({"--core", ","}));
  CHECK_FALSE(task({"--core", "c", "--pid", "1"}));
  CHECK_FALSE(task({"--core", "c", "--run", "latest"}));
  CHECK_FALSE(task({"--core", "c", "--samples", "2"}));
  CHECK_FALSE(task({"--core", "c", "--unwinder", "gdb"}));
  CHECK_FALSE(task({"dir", "--locals"}));
  CHECK_FALSE(task({"--pid", "1", "--sysroot", "/mnt"}));
}

TEST_CASE("the file name of --out decides the format") {
  CHECK(task({"dir"})->chosen_format() == report::Format::tree);
  CHECK(task({"dir", "--out", "merged"})->out_dir == "merged");
  const auto svg = task({"dir", "--out", "x/y.svg"});
  CHECK(svg->out_file == "x/y.svg");
  CHECK(svg->chosen_format() == report::Format::svg);
  CHECK(task({"dir", "-o", "a.pb.gz"})->chosen_format() == report::Format::pprof);
  CHECK(task({"dir", "-o", "a.json", "--format", "pyspy"})->chosen_format() == report::Format::pyspy);
  CHECK(task({"dir", "-o", "a.json", "--format", "pyspy"})->chosen_view() == report::View::python);
  CHECK(task({"dir", "-o", "a.json"})->chosen_view() == report::View::merged);
  REQUIRE(base::make_dirs("there.d"));
  CHECK(task({"dir", "-o", "there.d"})->out_dir == "there.d");
  CHECK(task({"dir", "-o", "new.d/"})->out_dir == "new.d/");
}
