#include "report/formats/formats.h"
#include "report/formats/motion.h"
#include "report/formats/xpu_timer_compat.h"
#include "tests/unit/report/sample_stacks.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace xpurun;
using namespace xpurun::report;

namespace {

XpuStacktrace trace(const std::string& state, std::vector<std::vector<XpuFrame>> python) {
  XpuStacktrace out{.state = state};
  for (auto& frames : python) {
    out.python.push_back({.frames = std::move(frames)});
  }
  return out;
}

StackSet sample_set() {
  return make_stack_set(testing::sample_job(), "here", {});
}

}  // namespace

TEST_CASE("equal threads share one stack in the text, with a heading that names them") {
  auto p = testing::sample_rank(0);
  for (int tid = 11; tid < 20; ++tid) {
    auto t = testing::thread({testing::native("poll", "libc.so.6")});
    t.tid = tid;
    t.main = false;
    t.comm = "pt_autograd";
    p.threads.push_back(t);
  }
  p.threads[0].gil = model::GilState::holder;
  const std::string text = processes_text(make_stack_set({p}, "x", {}), View::merged);
  CHECK(text.find("rank 0, host a, 10 threads") != std::string::npos);
  CHECK(text.find("Thread 1 \"python3\", main: sleeping, holds the GIL\n    poll (libc.so.6)\n") !=
        std::string::npos);
  CHECK(text.find("Threads 11, 12, 13, 14, 15, 16 and 3 more \"pt_autograd\": sleeping\n") !=
        std::string::npos);
  CHECK(text.find("_PyEval") == std::string::npos);
  CHECK(processes_text(make_stack_set({p}, "x", {}), View::native).find("_PyEval") != std::string::npos);
}

TEST_CASE("the tree shows the frames of its view, both in the groups and below them") {
  const auto tree = [](View view) { return write_format(Format::tree, sample_set(), view); };
  const auto count = [](const std::string& text, std::string_view what) {
    size_t n = 0;
    for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) {
      ++n;
    }
    return n;
  };
  CHECK(count(tree(View::merged), "poll (libc.so.6)") >= 2);
  CHECK(count(tree(View::merged), "train.py") >= 2);
  CHECK(count(tree(View::python), "libc.so.6") == 0);
  CHECK(count(tree(View::python), "train.py") == count(tree(View::merged), "train.py"));
  CHECK(count(tree(View::native), "train.py") == 0);
  CHECK(count(tree(View::native), "poll (libc.so.6)") >= 2);
}

TEST_CASE("the GIL state of a thread in words") {
  using model::GilState;
  for (const auto& [gil, words] : {std::pair{GilState::holder, "holds the GIL"},
                                   {GilState::waiting, "waits for the GIL"},
                                   {GilState::dropping, "gives up the GIL"}}) {
    auto p = testing::process(0, testing::thread({testing::py("f", 1)}));
    p.threads[0].gil = gil;
    CHECK(processes_text(make_stack_set({p}, "x", {}), View::merged).find(words) != std::string::npos);
  }
}

TEST_CASE("JSON of a set lists every process, including processes without stacks") {
  model::ProcessStacks failed;
  failed.pid = 5;
  failed.status = model::DumpStatus::failed;
  failed.reason = "gone";
  const auto j =
      nlohmann::json::parse(stack_set_json(make_stack_set({testing::sample_rank(1), failed}, "x", {"n"})));
  CHECK(j["schema"] == "xpurun.stackset/1");
  CHECK(j["notes"][0] == "n");
  REQUIRE(j["processes"].size() == 2);
  CHECK(j["processes"][0]["rank"] == 1);
  CHECK(j["processes"][1]["reason"] == "gone");
}

TEST_CASE("py-spy's keys, order and nulls") {
  auto p = testing::process(
      0, testing::thread({testing::native("poll", "libc.so.6"), testing::py("f", 3, "<string>")}));
  p.python_version = "3.12.1";
  p.threads[0].thread_id = 140;
  p.threads[0].frames[1].entry = true;
  CHECK(pyspy_json(make_stack_set({p}, "x", {}), View::python) == R"([
  {
    "pid": 100,
    "thread_id": 140,
    "thread_name": "MainThread",
    "os_thread_id": 1,
    "active": false,
    "owns_gil": false,
    "frames": [
      {
        "name": "f",
        "filename": "<string>",
        "module": null,
        "short_filename": "<string>",
        "line": 3,
        "locals": null,
        "is_entry": false,
        "is_shim_entry": true
      }
    ],
    "process_info": null
  }
]
)");
  const auto merged = nlohmann::json::parse(pyspy_json(make_stack_set({p}, "x", {}), View::merged));
  CHECK(merged[0]["frames"][0]["module"] == "libc.so.6");
  CHECK(pyspy_json(make_stack_set({}, "x", {}), View::python) == "[]\n");
}

TEST_CASE("local variables as py-spy writes them") {
  auto p = testing::process(0, testing::thread({testing::py("f", 3), testing::py("g", 4)}));
  p.threads[0].frames[0].locals = {
      {.name = "x", .value = "'a'", .pyspy = "\"a\"", .address = 0x10, .argument = true},
      {.name = "n", .value = "3", .address = 0x20}};
  const auto locals = [&](size_t frame) {
    const auto j = nlohmann::json::parse(pyspy_json(make_stack_set({p}, "x", {}), View::python));
    return j[0]["frames"][frame]["locals"];
  };
  CHECK(locals(1).is_null());
  p.with_locals = true;
  CHECK(locals(1) == nlohmann::json::array());
  CHECK(locals(0)[0] == nlohmann::json({{"name", "x"}, {"addr", 16}, {"arg", true}, {"repr", "\"a\""}}));
  CHECK(locals(0)[1] == nlohmann::json({{"name", "n"}, {"addr", 32}, {"arg", false}, {"repr", "3"}}));
}

TEST_CASE("native frames that py-spy shows") {
  auto p = testing::process(
      0,
      testing::thread(
          {testing::native("[poll]", ""), testing::native("clock_nanosleep", "libc.so.6"),
           testing::native("pysleep", "app"), testing::native("time_sleep", "app"),
           testing::native("_PyObject_Call", "app"), testing::py("f", 3),
           testing::native("_PyEval_EvalFrameDefault", "app"), testing::native("thread_run.cold", "app"),
           testing::native("timer", "app"), testing::native("libx.so+0x12", "libx.so"),
           testing::native("start_thread", "libc.so.6"), testing::native("start_thread", "libpthread.so.0"),
           testing::native("__libc_start_main", "libc.so.6"), testing::native("_start", "python3.11")}));
  auto& frames = p.threads[0].frames;
  frames[0].kind = model::FrameKind::kernel;
  frames[3].inlined = false;
  frames[6].eval = true;
  frames[9].pc = 0x7f12;
  frames[9].offset = 0x12;
  p.module_paths = {{"libc.so.6", "/lib/libc.so.6"}, {"libx.so", "/opt/libx.so"}};
  const auto j = nlohmann::json::parse(pyspy_json(make_stack_set({p}, "x", {}), View::merged));
  std::string shown;
  for (const auto& f : j[0]["frames"]) {
    shown += f["name"].get<std::string>() + " " + f["filename"].get<std::string>() + "\n";
  }
  CHECK(shown == "clock_nanosleep /lib/libc.so.6\ntime_sleep app\nf " +
                     j[0]["frames"][2]["filename"].get<std::string>() +
                     "\nthread_run.cold app\n0x7f12 /opt/libx.so\nstart_thread /lib/libc.so.6\n");
}

TEST_CASE("short names of files on another host") {
  auto p = testing::process(
      0, testing::thread({testing::py("a", 1, "/no/where/lib/python3.11/site-packages/torch/nn/m.py"),
                          testing::py("b", 1, "/no/where/lib/python3.11/threading.py"),
                          testing::py("c", 1, "/no/where/train.py")}));
  const auto j = nlohmann::json::parse(pyspy_json(make_stack_set({p}, "x", {}), View::python));
  CHECK(j[0]["frames"][0]["short_filename"] == "torch/nn/m.py");
  CHECK(j[0]["frames"][1]["short_filename"] == "threading.py");
  CHECK(j[0]["frames"][2]["short_filename"] == "train.py");
}

TEST_CASE("motion: stuck only if equal in every complete sample") {
  auto sample = [](int line, model::DumpStatus status) {
    auto p = testing::process(0, testing::thread({testing::py("f", line)}));
    auto still = testing::thread({testing::py("g", 1)});
    still.tid = 2;
    still.main = false;
    p.threads.push_back(still);
    p.status = status;
    return std::vector<model::ProcessStacks>{p};
  };
  const auto ok = model::DumpStatus::ok;
  const auto moved = with_motion({sample(1, ok), sample(2, ok), sample(1, ok)});
  REQUIRE(moved.size() == 1);
  CHECK(moved[0].threads[0].motion == model::Motion::moving);
  CHECK(moved[0].threads[1].motion == model::Motion::stuck);
  const auto cut = with_motion({sample(1, ok), sample(9, model::DumpStatus::partial), sample(1, ok)});
  CHECK(cut[0].threads[0].motion == model::Motion::stuck);
  CHECK(cut[0].notes.size() == 1);
  CHECK(with_motion({sample(1, ok)})[0].threads[0].motion == model::Motion::unknown);
}

TEST_CASE("xpu_timer's grammar, byte for byte") {
  std::multimap<int, XpuStacktrace> ranks;
  const XpuFrame main{"main", "/u/train.py:1"};
  const XpuFrame load{"load", "/u/train.py:9"};
  const XpuFrame wait{"wait", "/t/python3.8/torch/d.py:7"};
  ranks.emplace(0, trace("S (sleeping)", {{wait, main}}));
  ranks.emplace(2, trace("S (sleeping)", {{load, main}, {main}}));
  ranks.emplace(3, trace("R (running)", {{wait, main}, {wait, {"x.lto_priv.0", "a.c:1"}, main}}));
  const auto merged = merge_xpu_stacktraces(ranks, 4);
  CHECK(merged.py ==
        "State@S (sleeping)@0/2|1/3 1\n"
        "main@/u/train.py:1@0/2-3|1 1\n"
        "main@/u/train.py:1@0/2-3|1;wait@/t/python3.8/torch/d.py:7@0/3|1-2 1\n"
        "main@/u/train.py:1@0/2-3|1;load@/u/train.py:9@2|0-1/3 1\n"
        "State@R (running)@3|0-2 1\n");
  CHECK(merged.cpp == "State@S (sleeping)@0/2|1/3 1\nState@R (running)@3|0-2 1\n");
  CHECK(merged.py_svg.find("merge stack in py") != std::string::npos);
}

TEST_CASE("a frame that every rank has shows nothing after the bar") {
  std::multimap<int, XpuStacktrace> ranks;
  for (int r = 0; r < 8; ++r) {
    ranks.emplace(r, trace("S", {}));
  }
  CHECK(merge_xpu_stacktraces(ranks, 8).cpp == "State@S@0-7| 1\n");
}

TEST_CASE("the five colours of xpu_timer's pictures") {
  const std::string svg = xpu_timer_svg(
      "a@/lib/torch/x.so@0| 1\nncclWait@??@0| 1\nc10d::f@x@0| 1\nf@python/ceval.c:3@0| 1\ng@/u/t.py:3@0| 1\n"
      "State@S@0| 1\n<b>@??@0| 1\n",
      "t & t");
  const auto has = [&svg](const std::string& name, const std::string& colour) {
    const size_t at = svg.find("<title>" + name);
    return at != std::string::npos && svg.find("<rect class=\"" + colour + "\"", at) < svg.find("</g>", at);
  };
  CHECK(has("a@/lib/torch/x.so", "green"));
  CHECK(has("ncclWait", "green"));
  CHECK(has("c10d::f", "yellow"));
  CHECK(has("f@python/ceval.c:3", "aqua"));
  CHECK(has("g@/u/t.py:3", "aqua"));
  CHECK(has("State@S", "purple"));
  CHECK(has("&lt;b>@??", "red") != has("&lt;b&gt;@??", "red"));
  CHECK(svg.find("t &amp; t") != std::string::npos);
}

TEST_CASE("every format accepts any set, including the empty set") {
  for (int f = 0; f <= static_cast<int>(Format::html); ++f) {
    const auto format = static_cast<Format>(f);
    CAPTURE(name_of(format));
    CHECK(format_from(name_of(format)) == format);
    for (View view : {View::merged, View::python, View::native}) {
      CHECK_FALSE(write_format(format, sample_set(), view).empty());
      (void)write_format(format, make_stack_set({}, "nothing", {}), view);
    }
  }
  CHECK(pprof_gz(sample_set(), View::merged).starts_with("\x1f\x8b"));
}
