#include "common/base/os/io.h"
#include "report/build/stack_set.h"
#include "report/import/import.h"
#include "report/import/readers.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <protozero/pbf_writer.hpp>

using namespace xpurun;
using namespace xpurun::report;
using protozero::pbf_writer;
namespace fs = std::filesystem;

namespace {

void put(const std::string& path, const std::string& text) {
  REQUIRE(base::make_dirs(fs::path(path).parent_path()));
  REQUIRE(base::write_file_atomic(path, text));
}

model::ProcessStacks only(base::Result<Imported> imported) {
  REQUIRE(imported);
  REQUIRE(imported->processes.size() == 1);
  return std::move(imported->processes[0]);
}

std::string names(const model::ThreadStack& t) {
  std::string out;
  for (const model::Frame& f : t.frames) {
    out += (out.empty() ? "" : " ") + f.func;
  }
  return out;
}

constexpr const char* kPySpy =
    "Process 9820: /usr/bin/python victim.py\nPython v3.12.1 (/usr/bin/python3.12)\n\n"
    "Thread 9820 (idle): \"MainThread\"\n    wait (threading.py:355)\n        Locals:\n"
    "            x: (1, 2)\n    <module> (victim.py:15)\nThread 9824 (active+gil): \"spin (x)\"\n"
    "    0x7f2e (libc.so.6)\n    spin (victim.py:8)\n";

constexpr const char* kPyStack =
    "Traceback for thread 9824 (python) [Has the GIL,Garbage collecting] (most recent call last):\n"
    "    (C) File \"./nptl/x.c\", line 442, in start_thread (/usr/lib/libc.so.6)\n"
    "    (Python) File \"/t/victim.py\", line 8, in spin\n        while True: pass\n      Locals:\n"
    "        a: File \"x\"\n\nTraceback for thread 9820 (python) [] (most recent call last):\n"
    "    (Python) File \"/t/victim.py\", line 15, in <module>\n        e.wait()\n"
    "    (C) File \"???\", line 0, in poll (/usr/lib/libc.so.6)\n";

constexpr const char* kGdb =
    "[New LWP 12]\nThread 2 (Thread 0x7f1b (LWP 12) \"pt_main_thread\"):\n"
    "#0  0x00007f1b in std::function<void ()>::operator()() const (this=0x1, s=\"a) at b:1\") at ./a "
    "b/f.cpp:57\n"
    "#1  0x00007f1c in (anonymous namespace)::run (x=<optimized out>) from /opt/lib/libtorch.so\n"
    "#2  call_function (\n    throwflag=0) at ceval.c:4963\n#3  <signal handler called>\n"
    "#4  0x0000 in ?? ()\n\nThread 1 (LWP 11):\n#0  main () at m.c:1\n";

std::string xpu_trace() {
  std::string bytes;
  pbf_writer all(bytes);
  const auto frame = [](pbf_writer& thread, uint32_t field, const char* func, const char* file) {
    pbf_writer f(thread, field);
    f.add_string(1, func);
    f.add_string(2, file);
  };
  {
    pbf_writer native(all, 1);
    native.add_uint32(1, 7);
    native.add_string(2, "python");
    frame(native, 3, "poll", "/lib/libc.so.6");
    frame(native, 3, "main", "python.c:3");
  }
  {
    pbf_writer python(all, 2);
    python.add_string(3, "MainThread");
    python.add_uint32(4, 7);
    python.add_bool(6, true);
    frame(python, 7, "step", "/u/train.py:31");
  }
  all.add_int32(3, 7);
  all.add_int32(4, 2);
  all.add_string(11, "S (sleeping)");
  return bytes;
}

}  // namespace

TEST_CASE("text of py-spy") {
  CHECK(sniff("a.txt", kPySpy) == ForeignFormat::pyspy_text);
  const auto p = only(read_pyspy_text(kPySpy, {.rank = 3}));
  CHECK(p.rank == 3);
  CHECK(p.pid == 9820);
  CHECK(p.python_version == "3.12.1");
  REQUIRE(p.threads.size() == 2);
  CHECK(p.threads[0].main);
  CHECK(names(p.threads[0]) == "wait <module>");
  CHECK(p.threads[0].frames[1].line == 15);
  CHECK(p.threads[1].python_name == "spin (x)");
  CHECK(p.threads[1].gil == model::GilState::holder);
  CHECK(p.threads[1].frames[0].module == "libc.so.6");
}

TEST_CASE("text of py-spy without its first lines, as somebody has pasted it") {
  constexpr std::string_view kPasted =
      "Thread 0x7F81445A8440 (active): \"MainThread\"\n"
      "    destroy_process_group (torch/distributed/distributed_c10d.py:2184)\n"
      "    <module> (mytrain/train.py:554)\n";
  CHECK(sniff("rank1.txt", kPasted) == ForeignFormat::pyspy_text);
  const auto p = only(read_pyspy_text(kPasted, {.rank = 1}));
  REQUIRE(p.threads.size() == 1);
  CHECK(names(p.threads[0]) == "destroy_process_group <module>");
  CHECK(sniff("a.txt", "Thread 1 (idle) of the pool ended\n") == ForeignFormat::unknown);
}

TEST_CASE("text of pystack is reversed, from outermost first to innermost first") {
  CHECK(sniff("a.txt", kPyStack) == ForeignFormat::pystack_text);
  const auto p = only(read_pystack_text(kPyStack, {}));
  REQUIRE(p.threads.size() == 2);
  CHECK(p.pid == 9820);
  CHECK(names(p.threads[0]) == "poll <module>");
  CHECK(p.threads[0].frames[0].kind == model::FrameKind::native);
  CHECK(p.threads[0].frames[0].file.empty());
  CHECK(names(p.threads[1]) == "spin start_thread");
  CHECK(p.threads[1].gil == model::GilState::holder);
  CHECK(p.threads[1].gc);
}

TEST_CASE("text of gdb, with names and arguments that look like other syntax") {
  CHECK(sniff("a.txt", kGdb) == ForeignFormat::gdb_text);
  const auto p = only(read_gdb_text(kGdb, {}));
  REQUIRE(p.threads.size() == 2);
  CHECK(names(p.threads[0]) == "main");
  const auto& t = p.threads[1];
  CHECK(t.comm == "pt_main_thread");
  REQUIRE(t.frames.size() == 5);
  CHECK(t.frames[0].func == "std::function<void ()>::operator()() const");
  CHECK(t.frames[0].file == "./a b/f.cpp");
  CHECK(t.frames[0].line == 57);
  CHECK(t.frames[1].func == "(anonymous namespace)::run");
  CHECK(t.frames[1].module == "libtorch.so");
  CHECK(t.frames[2].func == "call_function");
  CHECK(t.frames[2].line == 4963);
  CHECK(t.frames[3].kind == model::FrameKind::marker);
  CHECK(t.frames[4].func == "??");
  std::string endless = "#0  f";
  for (int i = 0; i < 300'000; ++i) {
    endless += " (";
  }
  CHECK(only(read_gdb_text(endless + "\n#1  g () at a.c:1\n", {})).threads[0].frames.size() ==
        1);  // immediately
  const auto eu = only(read_gdb_text("PID 5 - process\nTID 5:\n#0  0x01 poll\n#1  0x02\n", {}));
  CHECK(eu.pid == 5);
  CHECK(names(eu.threads[0]) == "poll ??");
}

TEST_CASE("JSON of py-spy, of several processes") {
  const char* text =
      R"([{"pid":1,"thread_id":140,"thread_name":null,"os_thread_id":2,"active":true,"owns_gil":true,"frames":[
          {"name":"f","filename":"/a.py","module":null,"short_filename":"a.py","line":3,"locals":null,"is_entry":true}]},
         {"pid":9,"os_thread_id":9,"frames":[{"name":"poll","filename":"/l/libc.so","module":"/l/libc.so","line":0}]},
         17, {"frames":"no"}])";
  CHECK(sniff("a.json", text) == ForeignFormat::pyspy_json);
  const auto imported = read_pyspy_json(text, {});
  REQUIRE(imported);
  REQUIRE(imported->processes.size() == 2);
  CHECK(imported->processes[0].threads[0].thread_id == 140);
  CHECK(imported->processes[0].threads[0].frames[0].entry);
  CHECK(imported->processes[1].threads[0].frames[0].module == "libc.so");
  CHECK(imported->notes.size() == 1);
  for (const char* bad : {"[", "{}", "[]", "[1]", "null", "[{\"frames\":[]", R"([{"frames":1}])"}) {
    CHECK_FALSE(read_pyspy_json(bad, {}));
  }
}

TEST_CASE("folded stacks") {
  const char* text = "# comment\n<module> (a.py:1);f (a.py:2);poll (libc.so.6) 7\nx;y;do_poll_[k] 1\n";
  CHECK(sniff("a", text) == ForeignFormat::folded);
  CHECK(sniff("a", "words and 7\n") == ForeignFormat::unknown);
  const auto imported = read_folded(text, {});
  const auto p = only(read_folded(text, {}));
  CHECK(imported->notes.size() == 1);
  REQUIRE(p.threads.size() == 2);
  CHECK(names(p.threads[0]) == "poll f <module>");
  CHECK(p.threads[0].frames[1].kind == model::FrameKind::python);
  CHECK(p.threads[1].frames[0].kind == model::FrameKind::kernel);
  // No terminal control sequences.
  CHECK(names(only(read_folded("a\x7f;b\x1b[2J 1\n", {})).threads[0]) == "b?[2J a?");
}

TEST_CASE("xpu_timer's protobuf, complete and truncated at every byte") {
  const std::string bytes = xpu_trace();
  CHECK(sniff("00002-00004.stacktrace", bytes) == ForeignFormat::xpu_timer);
  CHECK(hint_of("d/00002-00004.stacktrace").rank == 2);
  const auto p = only(read_xpu_timer(bytes, {.rank = 2}));
  REQUIRE(p.threads.size() == 1);
  CHECK(p.pid == 7);
  CHECK(names(p.threads[0]) == "poll main step");
  CHECK(p.threads[0].gil == model::GilState::holder);
  CHECK(p.threads[0].frames[2].line == 31);
  for (size_t n = 1; n < bytes.size(); ++n) {
    const auto part = read_xpu_timer(std::string_view(bytes).substr(0, n), {});
    CHECK((!part || part->processes.size() == 1));
  }
}

TEST_CASE("any text truncated anywhere gives stacks or a reason") {
  for (const char* whole : {kPySpy, kPyStack, kGdb}) {
    const std::string_view text(whole);
    for (size_t n = 0; n < text.size(); ++n) {
      for (int f = 1; f <= static_cast<int>(ForeignFormat::xpu_timer); ++f) {
        const auto part = import_content(static_cast<ForeignFormat>(f), text.substr(0, n), {});
        if (part) {
          CHECK_FALSE(part->processes.empty());
        } else {
          CHECK_FALSE(part.error().what.empty());
        }
      }
    }
  }
}

TEST_CASE("a rank is read from the file's name") {
  CHECK(hint_of("h/rank-12.txt").rank == 12);
  CHECK(hint_of("h/pyspy_rank3.json").rank == 3);
  CHECK(hint_of("h/rank.txt").rank == base::kNoRank);
  CHECK(hint_of("h/rank-99999999999999999999.txt").rank == base::kNoRank);
  CHECK(hint_of("host-a/rank_0.txt").host == "host-a");
}

TEST_CASE("unreadable files are named; xpurun's own files and pictures are skipped") {
  put("mixed/a/rank-0.txt", kPySpy);
  put("mixed/a/rank-1.txt", kPyStack);
  put("mixed/b/rank-2.gdb", kGdb);
  put("mixed/b/rank-3.json", "[{\"pid\":1,\"frames\":[{\"name\":");
  put("mixed/b/empty.txt", "");
  put("mixed/b/readme.txt", "nothing of interest");
  put("mixed/stacks/merged.folded", "a;b 1\n");
  put("mixed/stacks/merged.svg", "<svg/>");
  put("mixed/00004-00008.stacktrace", xpu_trace());
  const auto set = read_stack_set({"mixed"});
  REQUIRE(set);
  CHECK(set->collected.forest.ranks() == model::RankSet{0, 1, 2, 4});
  REQUIRE(set->notes.size() == 3);
  std::string notes;
  for (const std::string& n : set->notes) {
    notes += n + '\n';
  }
  CHECK(notes.find("mixed/b/empty.txt: the file is empty") != std::string::npos);
  CHECK(notes.find("mixed/b/rank-3.json (py-spy JSON): not valid JSON (truncated?)") != std::string::npos);
  CHECK(notes.find("readme.txt: no stacks in a format") != std::string::npos);
  CHECK_FALSE(read_stack_set({"mixed/b/readme.txt"}));
  CHECK(read_stack_set({"mixed/b/rank-2.gdb"}));
}

TEST_CASE("faulthandler's text") {
  constexpr std::string_view kText =
      "Fatal Python error: Segmentation fault\n\n"
      "Thread 0x00007f1200 [loader] (most recent call first):\n"
      "  File \"/a b/load.py\", line 7 in read\n"
      "  ...\n\n"
      "Current thread 0x00007f34ab (most recent call first):\n"
      "  File \"train.py\", line 31 in <module>\n\n"
      "Extension modules: numpy (total: 1)\n";
  CHECK(sniff("fault.txt", kText) == ForeignFormat::faulthandler_text);
  const auto read = import_content(ForeignFormat::faulthandler_text, kText, {});
  REQUIRE(read);
  REQUIRE(read->processes.size() == 1);
  const auto& threads = read->processes[0].threads;
  REQUIRE(threads.size() == 2);
  CHECK(threads[1].python_name == "loader");
  CHECK_FALSE(threads[1].main);
  CHECK(threads[1].frames.at(0).file == "/a b/load.py");
  CHECK(threads[1].frames.at(0).func == "read");
  CHECK(threads[0].main);
  CHECK(threads[0].thread_id == 0x7f34ab);
  CHECK(threads[0].frames.at(0).line == 31);
  CHECK(read->notes.size() == 1);
  CHECK_FALSE(import_content(ForeignFormat::faulthandler_text, "Thread x (most recent call first):\n", {}));
}

TEST_CASE("py-spy's text without its first lines") {
  constexpr std::string_view kText = "Thread 9822 (idle): \"MainThread\"\n    wait (threading.py:302)\n";
  CHECK(sniff("a.txt", kText) == ForeignFormat::pyspy_text);
  CHECK(sniff("a.txt", "Thread of thoughts (idle)\n") != ForeignFormat::pyspy_text);
  const auto read = import_content(ForeignFormat::pyspy_text, kText, {});
  REQUIRE(read);
  CHECK(read->processes.at(0).threads.at(0).frames.at(0).func == "wait");
}

TEST_CASE("speedscope's profiles: every different stack once") {
  constexpr std::string_view kText =
      R"({"$schema": "https://www.speedscope.app/file-format-schema.json", "shared": {"frames": [)"
      R"({"name": "main", "file": "a.py", "line": 3}, {"name": "step", "file": "a.py", "line": 9}, {"name": "poll"}]}, )"
      R"("profiles": [{"type": "sampled", "name": "rank 0", "samples": [[0, 1], [0, 1], [0, 2, 99]], "weights": [1, 1, 1]}, )"
      R"({"type": "evented", "name": "rank 1", "events": [{"type": "O", "frame": 0, "at": 0}, {"type": "O", "frame": 1, "at": 1}, )"
      R"({"type": "C", "frame": 1, "at": 2}, {"type": "O", "frame": 2, "at": 2}, {"type": "C", "frame": 2, "at": 3}, )"
      R"({"type": "C", "frame": 0, "at": 4}, {"type": "C", "frame": 0, "at": 5}]}, {"type": "other", "name": "x"}]})";
  CHECK(sniff("p.speedscope.json", kText) == ForeignFormat::speedscope);
  const auto read = import_content(ForeignFormat::speedscope, kText, {});
  REQUIRE(read);
  const auto& threads = read->processes.at(0).threads;
  REQUIRE(threads.size() == 4);
  CHECK(threads[0].frames.at(0).func == "step");
  CHECK(threads[0].frames.at(1).func == "main");
  CHECK(threads[2].python_name == "rank 1");
  CHECK(threads[2].frames.at(0).func == "step");
  CHECK(threads[2].frames.at(1).func == "main");
  CHECK(threads[3].frames.at(0).func == "poll");
  CHECK(threads[1].frames.at(0).kind == model::FrameKind::native);
  CHECK(threads[0].python_name == "rank 0");
  CHECK(read->notes.size() == 3);
  for (const char* wrong :
       {"", "[]", "{\"shared\": 3}", "{\"shared\": {\"frames\": 3}, \"profiles\": []}",
        "{\"shared\": {\"frames\": []}, \"profiles\": [3, {\"samples\": [3, [\"x\"]]}]}"}) {
    CAPTURE(wrong);
    CHECK_FALSE(import_content(ForeignFormat::speedscope, wrong, {}));
  }
}

TEST_CASE("launches of xpu_timer: a stack for each kernel") {
  std::string bytes;
  protozero::pbf_writer w(bytes);
  for (const char* kernel : {"gemm", "nccl\x1b"}) {
    protozero::pbf_writer entry(w, 1);
    entry.add_string(1, kernel);
    protozero::pbf_writer list(entry, 2);
    for (const char* function : {"main", "step"}) {
      protozero::pbf_writer frame(list, 1);
      frame.add_string(1, function);
      frame.add_string(2, "train.py:3");
    }
  }
  w.add_int32(2, 1);
  const std::string name = "00001-00002.timeline.tracing_kernel_callstack";
  CHECK(sniff(name, bytes) == ForeignFormat::xpu_timer_launches);
  const auto read = import_content(ForeignFormat::xpu_timer_launches, bytes, {});
  REQUIRE(read);
  const auto& threads = read->processes.at(0).threads;
  REQUIRE(threads.size() == 2);
  REQUIRE(threads[0].frames.size() == 3);
  CHECK(threads[0].frames[0].func == "gemm");
  CHECK(threads[0].frames[0].kind == model::FrameKind::gpu);
  CHECK(threads[0].frames[1].func == "step");
  CHECK(threads[0].frames[2].func == "main");
  CHECK(threads[1].frames[0].func.find('\x1b') == std::string::npos);
  const auto cut =
      import_content(ForeignFormat::xpu_timer_launches, std::string_view(bytes).substr(0, 60), {});
  CHECK((!cut || !cut->notes.empty()));
  CHECK_FALSE(import_content(ForeignFormat::xpu_timer_launches, "", {}));
}

TEST_CASE("stacks in trace events, as py-spy records them") {
  const auto event = [](const char* name, char phase, int tid, int line) {
    return fmt::format(
        R"({{"args":{{"filename":"a.py","line":{}}},"cat":"py-spy","name":"{}","ph":"{}","pid":7,)"
        R"("tid":{},"ts":1}})",
        line, name, phase, tid);
  };
  const std::string text = fmt::format(
      "[{},\n{},\n{},\n{},\n{},\n{},\n{},\n{}]", event("main", 'B', 1, 3), event("step", 'B', 1, 9),
      event("step", 'E', 1, 9), event("load", 'B', 1, 5), event("load", 'E', 1, 5), event("main", 'E', 1, 3),
      event("wait", 'B', 2, 8), event("gone", 'E', 3, 8));
  CHECK(sniff("profile.json", text) == ForeignFormat::chrome_trace);
  const auto read = import_content(ForeignFormat::chrome_trace, text, {});
  REQUIRE(read);
  const auto& process = read->processes.at(0);
  CHECK(process.pid == 7);
  REQUIRE(process.threads.size() == 3);
  CHECK(process.threads[0].frames.at(0).func == "step");
  CHECK(process.threads[0].frames.at(0).line == 9);
  CHECK(process.threads[0].frames.at(1).func == "main");
  CHECK(process.threads[1].frames.at(0).func == "load");
  CHECK(process.threads[2].frames.at(0).func == "wait");
  CHECK(read->notes.size() == 2);
  // Complete events are a trace, not stacks.
  CHECK(sniff("x.json", R"([{"ph": "X", "name": "f"}])") == ForeignFormat::unknown);
  for (const char* wrong : {"", "{}", "[3]", R"({"traceEvents": 3})", R"([{"ph": "B"}])"}) {
    CAPTURE(wrong);
    const auto none = import_content(ForeignFormat::chrome_trace, wrong, {});
    CHECK((!none || none->processes.at(0).threads.size() == 1));
  }
}
