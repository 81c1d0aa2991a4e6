// Directories of .stacktrace files as written by xpu_timer. Its own script gave the same bytes for each of
// them; the expected texts are independent of that script's code.
#include "common/base/os/io.h"
#include "report/formats/xpu_timer_compat.h"
#include "tests/support/golden.h"

#include <doctest/doctest.h>

#include <protozero/pbf_writer.hpp>
#include <utility>
#include <vector>

using namespace xpurun;
using namespace xpurun::report;
using protozero::pbf_writer;

namespace {

using Frames = std::vector<std::pair<const char*, const char*>>;  // innermost first

struct Threads {
  std::vector<Frames> native;
  std::vector<Frames> python;
};

void add(pbf_writer& to, uint32_t list, uint32_t frames_field, const std::vector<Frames>& threads) {
  for (const Frames& frames : threads) {
    pbf_writer thread(to, list);
    thread.add_uint32(1, 4711);
    for (const auto& [func, file] : frames) {
      pbf_writer f(thread, frames_field);
      f.add_string(1, func);
      f.add_string(2, file);
      f.add_string(3, "#0 as it was printed");
    }
  }
}

void put(const std::string& path, const std::string& state, const Threads& threads) {
  std::string bytes;
  pbf_writer all(bytes);
  add(all, 1, 3, threads.native);
  add(all, 2, 7, threads.python);
  all.add_int32(3, 4711);
  all.add_string(6, "a complaint of its tool");
  all.add_string(11, state);
  REQUIRE(base::make_dirs(path.substr(0, path.rfind('/'))));
  REQUIRE(base::write_file_atomic(path, bytes));
}

void expect(const std::string& dir) {
  const auto merged = merge_as_xpu_timer({dir});
  REQUIRE(merged);
  CHECK(merged->notes.empty());
  testing::expect_golden("xpu_timer/" + dir + "-cpp_stack.txt", merged->cpp);
  testing::expect_golden("xpu_timer/" + dir + "-py_stack.txt", merged->py);
}

}  // namespace

TEST_CASE("xpu_timer's merge of a job that hangs") {
  const Frames start = {{"main", "/opt/conda/bin/python3.8"}, {"_start", "??"}};
  Frames wait = {{"poll", "/usr/lib64/libc.so.6"},
                 {"c10d::ProcessGroupNCCL::wait", "/t/torch/lib/libtorch_cuda.so"}};
  wait.insert(wait.end(), start.begin(), start.end());
  const Frames train = {
      {"all_reduce", "/t/torch/distributed.py:77"}, {"step", "train.py:40"}, {"<module>", "train.py:60"}};
  for (int rank : {0, 1, 2, 4, 5, 7}) {
    put("hang/0000" + std::to_string(rank) + "-00008.stacktrace", "S (sleeping)",
        {{wait, {{"clone", "/usr/lib64/libc.so.6"}}}, {train, {{"_bootstrap", "threading.py:930"}}}});
  }
  put("hang/00003-00008.stacktrace", "R (running)",
      {{start}, {{{"load", "train.py:31"}, {"<module>", "train.py:60"}}}});
  expect("hang");
}

TEST_CASE("xpu_timer's merge in corner cases") {
  // Words with every separator of the format; a stack that is a prefix of another; an empty thread;
  // frames lost after lto_priv, also from the first frame on; two files of one rank; a rank beyond the job's
  // size, which comes from the first file; a name that only ends in the right word.
  put("corners/00000-00004.stacktrace", "", {{{{"a;b", "x y"}, {"c@d|e", ""}}, {}, {{"", ""}}}, {}});
  put("corners/00000-00009.stacktrace", "S", {{{{"c@d|e", ""}}}, {{{"late", "f.py:1"}}}});
  put("corners/00001-00004.stacktrace", "S",
      {{{{"in", "i.c:1"}, {"f.lto_priv.3", "f.c:2"}, {"out", "o.c:3"}}, {{"lto_priv", "x"}}}, {}});
  put("corners/00003-00004.saved_stacktrace", "S", {{{{"c@d|e", ""}}}, {}});
  put("corners/00006-00004.stacktrace", "λ", {{{{"a;b", "x y"}, {"c@d|e", ""}}}, {{{"late", "f.py:1"}}}});
  expect("corners");
}

TEST_CASE("the colour classes ignore case exactly as xpu_timer does") {
  const std::string svg =
      xpu_timer_svg("ncclKernel@x 1\nEval@Python.C:12 1\nf@Python/x.PY:1 1\nf@/Torch 1\n", "t");
  const auto class_of = [&](const std::string& name) {
    const size_t at = svg.find("class=\"", svg.find("<title>" + name)) + 7;
    return svg.substr(at, svg.find('"', at) - at);
  };
  CHECK(class_of("ncclKernel") == "green");
  CHECK(class_of("Eval@") == "aqua");
  CHECK(class_of("f@Python") == "red");
  CHECK(class_of("f@/Torch") == "red");
}
