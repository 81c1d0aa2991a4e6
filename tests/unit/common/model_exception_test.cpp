// Exceptions in the messages of Python's bootstrap.
#include "common/model/evidence/error_file.h"
#include "common/model/exception.h"

#include <doctest/doctest.h>

using namespace xpurun;
using namespace xpurun::model;

namespace {

constexpr std::string_view kMessage = R"json({"schema":"xpurun.exception/1","kind":"thread","thread":"feeder",
  "tid":7,"wall_ns":5,"code":-1,"chain":[
  {"relation":"","type":"ValueError","message":"bad\nbatch","frames":[
    {"file":"/home/u/train.py","line":9,"function":"main","source":"step()"},
    {"file":"/home/u/data.py","line":21,"function":"collate","source":""}],"left_out":0},
  {"relation":"cause","type":"KeyError","message":"'label'","frames":[
    {"file":"/home/u/data.py","line":20,"function":"collate","source":"x[k]"}],"left_out":3}]})json";

ExceptionLink memory(std::string message) {
  return {.type = "torch.OutOfMemoryError", .message = std::move(message)};
}

constexpr uint64_t kMiB = 1 << 20;

}  // namespace

TEST_CASE("a message becomes a record with a traceback in Python's format") {
  const auto e = exception_from_message(kMessage);
  REQUIRE(e);
  CHECK(e->kind == ExceptionKind::thread);
  CHECK(e->thread == "feeder");
  CHECK(e->code == -1);
  REQUIRE(e->chain.size() == 2);
  CHECK(e->chain[1].relation == Relation::cause);
  CHECK(traceback_text(*e) ==
        "Traceback (most recent call last):\n"
        "  [... 3 frames ...]\n"
        "  File \"/home/u/data.py\", line 20, in collate\n"
        "    x[k]\n"
        "KeyError: 'label'\n"
        "\nThe above exception was the direct cause of the following exception:\n\n"
        "Traceback (most recent call last):\n"
        "  File \"/home/u/train.py\", line 9, in main\n"
        "    step()\n"
        "  File \"/home/u/data.py\", line 21, in collate\n"
        "ValueError: bad\nbatch\n");
  CHECK(headline(e->chain[0]) == "ValueError: bad");
  CHECK(headline({.type = "StopIteration"}) == "StopIteration");
}

TEST_CASE("other text is refused") {
  CHECK_FALSE(exception_from_message(""));
  CHECK_FALSE(exception_from_message("{"));
  CHECK_FALSE(exception_from_message(R"({"schema":"xpurun.exception/2","chain":[{"type":"A"}]})"));
  CHECK_FALSE(exception_from_message(R"({"schema":"xpurun.exception/1","chain":[]})"));
  CHECK_FALSE(exception_from_message(R"({"schema":"xpurun.exception/1","chain":[{"type":5}]})"));
}

TEST_CASE("a record among many keeps the innermost positions") {
  PythonException e;
  e.chain.resize(3);
  e.chain[0].message = std::string(5000, 'x');
  for (int line = 1; line <= 9; ++line) {
    e.chain[0].frames.push_back({.file = "a.py", .line = line});
  }
  drop_details(e);
  REQUIRE(e.chain.size() == 1);
  CHECK(e.chain[0].message.size() == 500);
  CHECK(e.chain[0].left_out == 4);
  CHECK(e.chain[0].frames.front().line == 5);
  CHECK(e.chain[0].frames.back().line == 9);
}

TEST_CASE("PyTorch's figures when GPU memory is exhausted, since 2.1") {
  const auto o = out_of_memory(memory(
      "CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 79.15 GiB of "
      "which 10.00 MiB is free. Including non-PyTorch memory, this process has 79.10 GiB memory in use. "
      "Of the allocated memory 77.00 GiB is allocated by PyTorch, and 500.00 MiB is reserved by PyTorch "
      "but unallocated. If reserved but unallocated memory is large try setting ..."));
  REQUIRE(o);
  CHECK(o->asked == 20 * kMiB);
  CHECK(o->free == 10 * kMiB);
  CHECK(o->total == static_cast<uint64_t>(79.15 * 1024 * kMiB));
  CHECK(o->allocated == 77 * 1024 * kMiB);
  CHECK(o->reserved == 500 * kMiB);
}

TEST_CASE("PyTorch's figures when GPU memory is exhausted, before 2.1") {
  const auto o = out_of_memory(
      memory("CUDA out of memory. Tried to allocate 2.50 GiB (GPU 3; 79.15 GiB total capacity; 77.00 GiB "
             "already allocated; 10.00 MiB free; 78.00 GiB reserved in total by PyTorch) If reserved ..."));
  REQUIRE(o);
  CHECK(o->asked == 2560 * kMiB);
  CHECK(o->free == 10 * kMiB);
  CHECK(o->allocated == 77 * 1024 * kMiB);
  CHECK(o->reserved == 1024 * kMiB);
}

TEST_CASE("other processes on the GPU that is exhausted") {
  const std::string others =
      "CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 79.15 GiB of "
      "which 10.00 MiB is free. Process 4711 has 20.00 GiB memory in use. Process 12 has 512.00 MiB memory "
      "in use. ";
  const auto o = out_of_memory(
      memory(others + "Including non-PyTorch memory, this process has 58.10 GiB memory in use. Of the ..."));
  REQUIRE(o);
  CHECK(o->others == (20 * 1024 + 512) * kMiB);
  CHECK(o->other == 4711);
  // Which of them is this process is not known.
  CHECK_FALSE(out_of_memory(memory(others + "Of the allocated memory 57.00 GiB ..."))->others);
}

TEST_CASE("the largest free block comes from the allocator") {
  const auto e = exception_from_message(
      R"({"schema":"xpurun.exception/1","chain":[{"type":"torch.OutOfMemoryError",)"
      R"("message":"CUDA out of memory. Tried to allocate 20.00 MiB.","largest_free":8388608}]})");
  REQUIRE(e);
  const auto o = out_of_memory(e->chain.front());
  REQUIRE(o);
  CHECK(o->largest == 8 * kMiB);
}

TEST_CASE("missing figures, and other errors") {
  const auto o = out_of_memory(memory("CUDA out of memory. Tried to allocate"));
  REQUIRE(o);
  CHECK_FALSE(o->asked);
  CHECK_FALSE(o->free);
  CHECK_FALSE(o->largest);
  CHECK_FALSE(out_of_memory(memory("DefaultCPUAllocator: can't allocate memory")));
}

TEST_CASE("a message identifies its sender's rank") {
  CHECK(identity_in_message(R"({"identity":{"RANK":"3","LOCAL_RANK":"1","X":5}})") ==
        std::map<std::string, std::string>{{"LOCAL_RANK", "1"}, {"RANK", "3"}});
  for (const char* none : {"", "{}", "[]", R"({"identity":[1]})", R"({"identity":{}})", "5"}) {
    CHECK(identity_in_message(none).empty());
  }
}

TEST_CASE("torchelastic's error file becomes an exception with its last traceback") {
  const auto file = parse_error_file(R"json({"message": {"message": "ValueError: a bad batch: 3",
    "extraInfo": {"py_callstack": "Traceback (most recent call last):\n  File \"/t/other.py\", line 1, in f\n    x\nKeyError: 1\n\nDuring handling of the above exception, another exception occurred:\n\nTraceback (most recent call last):\n  File \"/t/train.py\", line 9, in main\n    step()\n    ^^^^^^\n  File \"/t/data.py\", line 21, in collate\nValueError: a bad batch: 3\n",
    "timestamp": "1700000000"}}})json");
  REQUIRE(file);
  CHECK(file->wall_seconds == 1700000000);
  const ExceptionLink& link = file->exception.chain.at(0);
  CHECK(headline(link) == "ValueError: a bad batch: 3");
  REQUIRE(link.frames.size() == 2);
  CHECK(link.frames[0].function == "main");
  CHECK(link.frames[0].source == "step()");
  CHECK(link.frames[1].file == "/t/data.py");
  CHECK(link.frames[1].line == 21);
  CHECK(link.frames[1].source.empty());
}

TEST_CASE("incomplete error files, and other content") {
  CHECK(headline(parse_error_file(R"({"message": "RuntimeError: x"})")->exception.chain.at(0)) ==
        "RuntimeError: x");
  CHECK(headline(parse_error_file(R"({"message": {"message": "no type at all"}})")->exception.chain.at(0)) ==
        "Exception: no type at all");
  CHECK(headline(parse_error_file(R"({"message": "KeyboardInterrupt"})")->exception.chain.at(0)) ==
        "KeyboardInterrupt");
  const auto odd = parse_error_file(
      R"({"message": {"message": "E: x", "extraInfo": {"py_callstack": 7, "timestamp": "-1"}}})");
  REQUIRE(odd);
  CHECK(odd->wall_seconds == 0);
  CHECK(odd->exception.chain.at(0).frames.empty());
  for (const char* bad :
       {"", "{}", "[]", "7", R"({"message": 7})", R"({"message": {}})", R"({"message": ""})"}) {
    CHECK_FALSE(parse_error_file(bad));
  }
  const auto secret = parse_error_file(R"({"message": "E: https://u:hunter2hunter2@host/x"})");
  CHECK(secret->exception.chain.at(0).message.find("hunter2") == std::string::npos);
}

TEST_CASE("exception: the port of an address in use") {
  const auto port = [](const char* message) {
    return model::port_in_use({.type = "OSError", .message = message});
  };
  CHECK(port("The server socket has failed to bind to [::]:29500 (errno: 98 - Address already in use).") ==
        29500);
  CHECK(
      port(
          "The server socket has failed to listen on any local network address. port: 29501, useIpv6: false, "
          "code: -98, name: EADDRINUSE, message: address already in use") == 29501);
  CHECK(port("[Errno 98] error while attempting to bind on address ('127.0.0.1', 8080): address already in "
             "use") == 8080);
  CHECK(port("[Errno 98] Address already in use") == 0);
  CHECK(port("connection refused: 10.0.0.1:29500") == 0);
}
