#include "common/base/os/io.h"
#include "launcher/relay/line_labels.h"
#include "launcher/relay/log_file.h"
#include "launcher/relay/relay_memory.h"
#include "launcher/relay/sink.h"

#include <doctest/doctest.h>

#include <chrono>
#include <fcntl.h>
#include <future>
#include <sys/resource.h>
#include <sys/stat.h>
#include <thread>
#include <vector>

using namespace xpurun;
using namespace xpurun::launcher;

TEST_CASE("every line begins with its rank") {
  LineLabels labels;
  CHECK(labels.label(0, "a\nb\n") == "[0] a\n[0] b\n");
  CHECK(labels.label(1, "\n") == "[1] \n");
  CHECK(labels.label(1, "").empty());
}

TEST_CASE("an unfinished line is continued by its own rank and ended before another rank's text") {
  LineLabels labels;
  CHECK(labels.label(0, "begin") == "[0] begin");
  CHECK(labels.label(0, " end\n") == " end\n");
  CHECK(labels.label(0, "open") == "[0] open");
  CHECK(labels.label(1, "other\n") == "\n[1] other\n");
  CHECK(labels.label(0, "rest\n") == "[0] rest\n");
}

TEST_CASE("lost bytes of a log file are reported once, counted, and noted when writing works again") {
  std::vector<std::string> complaints;
  LogFile file("unwritable/0/stdout.log", [&](const std::string& line) { complaints.push_back(line); });
  REQUIRE(base::write_file_atomic("unwritable", "a file where a directory is wanted"));
  file.write("12345", 1);
  file.write("678", 2);
  file.write("x", base::s_to_ns(2));
  CHECK(file.lost() == 9);
  CHECK(complaints.size() == 1);
  REQUIRE(::unlink("unwritable") == 0);
  file.write("here again\n", base::s_to_ns(4));
  CHECK(file.lost() == 0);
  const auto text = base::read_file("unwritable/0/stdout.log");
  REQUIRE(text);
  CHECK(text->find("9 bytes of output are missing here") != std::string::npos);
  CHECK(text->ends_with("]\nhere again\n"));
  CHECK(complaints.size() == 1);
}

TEST_CASE("a sink's owner never waits for its target") {
  std::promise<void> go;
  const auto released = go.get_future().share();
  std::promise<std::string> last;
  auto* sink = new Sink(
      [&](const Output& o) {
        released.wait();
        if (o.bytes == "last") {
          last.set_value(o.bytes);
        }
      },
      [] {});
  CHECK(sink->idle());
  while (sink->has_room()) {
    sink->push({.bytes = std::string(64 * 1024, 'x')});
  }
  while (sink->stuck_s() <= 0) {
    std::this_thread::yield();
  }
  CHECK_FALSE(sink->idle());
  sink->push({.bytes = "last"});
  go.set_value();
  CHECK(last.get_future().get() == "last");
  while (!sink->idle()) {
    std::this_thread::yield();
  }
  CHECK(sink->stuck_s() == 0);
}

TEST_CASE("a relay's memory has the open pipes and no closed descriptor") {
  RelayMemory memory(7, 5);
  memory.add({.fd = 9, .rank = 1, .which = wire::LogStream::err});
  memory.add({.fd = 6, .rank = 0, .which = wire::LogStream::out});
  CHECK(memory.descriptors() == std::vector{5, 6, 7, 9});
  memory.remove(9);
  memory.close_channel();
  CHECK(memory.descriptors() == std::vector{6, 7});
  REQUIRE(memory.pipes().size() == 1);
  CHECK(memory.pipes()[0].rank == 0);
  CHECK_FALSE(memory.finishing());
  memory.finish();
  CHECK(memory.finishing());
}
