#include "common/base/os/io.h"
#include "common/model/run_dir.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <sys/stat.h>

using namespace xpurun;
using model::RunDir;

TEST_CASE("a run directory is private, named after the command and linked as latest") {
  const auto dir = RunDir::create("runs", "/usr/bin/torchrun");
  REQUIRE(dir);
  struct stat st {};
  REQUIRE(::stat(dir->path().c_str(), &st) == 0);
  CHECK((st.st_mode & 0777) == 0700);
  CHECK(dir->id().find("-torchrun-") != std::string::npos);
  CHECK(base::read_link("runs/latest") == dir->id());
  const auto second = RunDir::create("runs", "x");
  REQUIRE(second);
  CHECK(base::read_link("runs/latest") == second->id());
}

TEST_CASE("a named directory must be empty") {
  REQUIRE(RunDir::create_at("out/dir"));
  REQUIRE(base::write_file_atomic("out/dir/f", "x"));
  const auto again = RunDir::create_at("out/dir");
  REQUIRE_FALSE(again);
  CHECK(again.error().id == "E-OUT-DIR");
}

TEST_CASE("a run is found by its path, by its parent's latest link, or not at all") {
  const auto dir = RunDir::create("found", "x");
  REQUIRE(dir);
  REQUIRE(base::write_file_atomic(dir->run_json(), "{}"));
  CHECK(RunDir::find(dir->path())->id() == dir->id());
  CHECK(RunDir::find("found")->id() == dir->id());
  CHECK(RunDir::find("nowhere").error().id == "E-NO-RUN");
}

TEST_CASE("dumps are listed in the order of their numbers") {
  const auto dir = RunDir::create("many", "x");
  REQUIRE(dir);
  for (const char* name : {"10-hang", "2-crash", "1-hang", "junk"}) {
    std::filesystem::create_directories(dir->file("dumps") + "/" + name);
  }
  const auto found = dir->dumps();
  REQUIRE(found.size() == 3);
  CHECK(found[2].ends_with("10-hang"));
}

TEST_CASE("process keys are unique across hosts") {
  CHECK(model::process_key(2, model::ProcessRole::rank, "a", 1) == "rank-2");
  CHECK(model::process_key(2, model::ProcessRole::worker, "a", 17) == "a-17");
}
