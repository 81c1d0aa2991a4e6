#include "common/base/os/io.h"
#include "common/base/os/temporary_directory.h"
#include "report/run/source_text.h"

#include <doctest/doctest.h>

using namespace xpurun;
using namespace xpurun::report;

namespace {

struct Program {
  base::TemporaryDirectory dir = base::TemporaryDirectory::create("source").value();
  model::RunManifest run;
  std::string file = dir.path() + "/train.py";

  Program() {
    run.cwd = dir.path();
    REQUIRE(base::write_file_atomic(
        file,
        "import time\ndef load():\n\tapi_key = 'sk-1234567890abcdef'\n\n\ttime.sleep(9)\n\treturn 1\n"));
  }
};

}  // namespace

TEST_CASE("an excerpt has the lines around a line, without their common indentation and without secrets") {
  Program p;
  SourceText text;
  text.read(p.file, 5, 2, p.run);
  const SourceExcerpt e = text.excerpt(p.file, 5, 2);
  REQUIRE(e.lines.size() == 4);
  CHECK(e.lines[0].number == 3);
  CHECK(e.lines[0].text == "api_key = '****'");
  CHECK(e.lines[2].text == "time.sleep(9)");
  CHECK_FALSE(e.changed);
}

TEST_CASE("lines of the run stay when the file is read again, and come back from the record") {
  Program p;
  SourceText text;
  model::SourceRecord record;
  record.files.push_back({.file = p.file, .changed = false, .lines = {{.number = 5, .text = "as it ran()"}}});
  text.add(record);
  text.read("train.py", 1, 0, p.run);
  text.read(p.file, 5, 0, p.run);
  REQUIRE(text.find(p.file, 5) != nullptr);
  CHECK(*text.find(p.file, 5) == "as it ran()");
  REQUIRE(text.find("train.py", 1) != nullptr);
  SourceText again;
  again.add(text.record());
  REQUIRE(again.find("train.py", 1) != nullptr);
  CHECK(*again.find("train.py", 1) == "import time");
}

TEST_CASE("a file that was written after the run began is marked; devices and missing lines are left out") {
  Program p;
  p.run.started_wall_ns = 1'000'000'000;
  SourceText text;
  text.read(p.file, 5, 0, p.run);
  CHECK(text.excerpt(p.file, 5, 1).changed);
  text.read("/dev/zero", 1, 0, p.run);
  text.read(p.file, 99, 0, p.run);
  text.read(p.file, 0, 0, p.run);
  text.read(p.dir.path(), 1, 0, p.run);
  CHECK(text.record().files.size() == 1);
  CHECK(text.excerpt(p.file, 99, 3).lines.empty());
}
