#include "launcher/commands/gather_dumps.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <initializer_list>

namespace fs = std::filesystem;
using xpurun::launcher::GatheredDumps;

TEST_CASE("dumps of several directories come together") {
  for (const char* file : {"a/dumps/1-hang/rank-0.stacks.json", "a/dumps/1-hang/dump.json",
                           "b/rank-1.stacks.json", "b/notes.txt", "a/run.json"}) {
    fs::create_directories(fs::path(file).parent_path());
    std::ofstream(file) << file;
  }
  std::string path;
  {
    const auto gathered = GatheredDumps::create({"a", "b"});
    REQUIRE(gathered);
    path = gathered->path();
    CHECK(fs::is_regular_file(path + "/0/dumps/1-hang/rank-0.stacks.json"));
    CHECK(fs::is_regular_file(path + "/0/dumps/1-hang/dump.json"));
    CHECK(fs::is_regular_file(path + "/1/rank-1.stacks.json"));
    CHECK_FALSE(fs::exists(path + "/0/run.json"));
    CHECK_FALSE(fs::exists(path + "/1/notes.txt"));
    CHECK(gathered->original_names(path + "/1/rank-1.stacks.json: broken") == "b/rank-1.stacks.json: broken");
    CHECK(gathered->original_names("no stacks below " + path) == "no stacks below 2 directories");
  }
  CHECK_FALSE(fs::exists(path));
  CHECK(fs::exists("a/dumps/1-hang/rank-0.stacks.json"));
  CHECK_FALSE(GatheredDumps::create({"a", "gone"}));
}
