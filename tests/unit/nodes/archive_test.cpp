#include "launcher/nodes/agent/protocol/archive.h"

#include "common/base/os/io.h"
#include "common/base/os/temporary_directory.h"
#include "launcher/nodes/agent/protocol/packed.h"
#include "launcher/nodes/node_limits.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <unistd.h>

using namespace xpurun;
using namespace xpurun::nodes;

namespace {

std::string header(const std::string& path, size_t size) {
  return R"({"path":")" + path + R"(","size":)" + std::to_string(size) + "}\n";
}

std::string read(const std::string& path) {
  return base::read_file(path).value_or("(nothing)");
}

}  // namespace

TEST_CASE("an archive gives back its files") {
  const std::vector<ArchiveFile> files = {{"run.json", "{}"},
                                          {"dumps/1-hang/a b.json", std::string(100'000, 'x')},
                                          {"empty", ""},
                                          {"binary", std::string("\0\n\xff", 3)}};
  const auto back = unpack_files(pack_files(files));
  REQUIRE(back);
  REQUIRE(back->size() == files.size());
  for (size_t i = 0; i < files.size(); ++i) {
    CHECK((*back)[i].path == files[i].path);
    CHECK((*back)[i].bytes == files[i].bytes);
  }
  CHECK(unpack_files(pack_files({}))->empty());
}

TEST_CASE("paths that lead elsewhere are refused") {
  for (const std::string path :
       {"", "/etc/passwd", "..", "a/../../b", "a/..", "./a", "a//b", "a/", "a/.", "a\nb"}) {
    CAPTURE(path);
    CHECK_FALSE(safe_path(path));
    CHECK_FALSE(unpack_files(pack_files({{path, "x"}})));
  }
  CHECK_FALSE(safe_path(std::string("a\0b", 3)));
  CHECK_FALSE(safe_path(std::string(300, 'a')));
  CHECK(safe_path("dumps/1-hang/..stacks.json"));
}

TEST_CASE("an archive that is malformed, cut short or too large is refused") {
  CHECK_FALSE(unpack_files(""));
  CHECK_FALSE(unpack_files("not zstd"));
  const std::string good = pack_files({{"a", std::string(1000, 'x')}});
  for (size_t size = 0; size < good.size(); ++size) {
    CHECK_FALSE(unpack_files(good.substr(0, size)));
  }
  CHECK_FALSE(unpack_files(good + good));
  for (const std::string& text : {header("a", 3) + "xy", std::string("{}\n"), std::string("x"),
                                  std::string(R"({"path":"a","size":-1})") + "\n",
                                  std::string(R"({"path":"a","size":18446744073709551615})") + "\n",
                                  std::string(R"({"path":1,"size":0})") + "\n", std::string(100'000, 'x')}) {
    CAPTURE(text.substr(0, 50));
    CHECK_FALSE(unpack_files(pack(text)));
  }
  std::string many;
  for (size_t i = 0; i <= launcher::kMostArchiveFiles; ++i) {
    many += header("a", 0);
  }
  CHECK_FALSE(unpack_files(pack(many)));
  // A few kilobytes that unpack to much more than allowed.
  const std::string bomb = pack(std::string(1'000'000, '\0'));
  CHECK_FALSE(unpack(bomb, 999'999));
  CHECK(unpack(bomb, 1'000'000));
}

TEST_CASE("unpacking writes below the directory only, and through no link") {
  const auto scratch = base::TemporaryDirectory::create("xpurun-archive-");
  REQUIRE(scratch);
  const std::string directory = scratch->path() + "/nodes/n1";
  REQUIRE(unpack_into(directory, pack_files({{"run.json", "old"}, {"dumps/1/x", "y"}})));
  REQUIRE(unpack_into(directory, pack_files({{"run.json", "new"}})));
  CHECK(read(directory + "/run.json") == "new");
  CHECK(read(directory + "/dumps/1/x") == "y");
  const std::string outside = scratch->path() + "/outside";
  REQUIRE(base::make_dirs(outside));
  REQUIRE(::symlink(outside.c_str(), (directory + "/link").c_str()) == 0);
  CHECK_FALSE(unpack_into(directory, pack_files({{"link/x", "y"}})));
  CHECK_FALSE(base::file_exists(outside + "/x"));
  // A link in the place of a file is replaced, not followed.
  REQUIRE(base::write_file_atomic(outside + "/target", "kept"));
  REQUIRE(::symlink((outside + "/target").c_str(), (directory + "/file").c_str()) == 0);
  REQUIRE(unpack_into(directory, pack_files({{"file", "z"}})));
  CHECK(read(outside + "/target") == "kept");
}

TEST_CASE("of a dump travel the files of a report, and the rest on request") {
  const auto scratch = base::TemporaryDirectory::create("xpurun-archive-");
  REQUIRE(scratch);
  const std::string run = scratch->path();
  REQUIRE(base::make_dirs(run + "/dumps/1-hang/flight_recorder"));
  REQUIRE(base::make_dirs(run + "/dumps/0-other"));
  REQUIRE(base::make_dirs(run + "/ranks/0"));
  for (const char* name : {"run.json", "secret", "dumps/1-hang/dump.json", "dumps/1-hang/rank-0.stacks.json",
                           "dumps/1-hang/rank-0.snapshot", "dumps/1-hang/flight_recorder/rank_0",
                           "dumps/0-other/dump.json", "ranks/0/stdout.log"}) {
    REQUIRE(base::write_file_atomic(run + "/" + name, name));
  }
  REQUIRE(::symlink("/etc/hostname", (run + "/dumps/1-hang/gpu.json").c_str()) == 0);
  const auto names = [&](bool all, size_t& left_out) {
    const auto files =
        unpack_files(pack_dump({.run_directory = run, .dump = "dumps/1-hang", .all = all}, left_out));
    std::vector<std::string> out;
    for (const ArchiveFile& file : *files) {
      CHECK(file.bytes == file.path);
      out.push_back(file.path);
    }
    return out;
  };
  size_t left_out = 0;
  CHECK(names(false, left_out) == std::vector<std::string>{"run.json", "dumps/1-hang/dump.json",
                                                           "dumps/1-hang/flight_recorder/rank_0",
                                                           "dumps/1-hang/rank-0.stacks.json"});
  CHECK(left_out == 1);
  CHECK(names(true, left_out) ==
        std::vector<std::string>{"run.json", "dumps/1-hang/dump.json", "dumps/1-hang/flight_recorder/rank_0",
                                 "dumps/1-hang/rank-0.snapshot", "dumps/1-hang/rank-0.stacks.json",
                                 "ranks/0/stdout.log"});
  CHECK(unpack_files(pack_dump({.run_directory = run, .dump = "../x"}, left_out))->size() == 1);
  // The calls at the end of a job that has ended.
  REQUIRE(base::write_file_atomic(run + "/collectives.json", "collectives.json"));
  CHECK(names(false, left_out)[1] == "collectives.json");
  REQUIRE(base::write_file_atomic(run + "/mismatch.json", "mismatch.json"));
  CHECK(names(false, left_out)[2] == "mismatch.json");
}
