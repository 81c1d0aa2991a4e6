#include "launcher/nodes/agent/secret.h"

#include "common/base/os/io.h"
#include "common/base/os/random.h"
#include "common/base/os/temporary_directory.h"

#include <doctest/doctest.h>

#include <sys/stat.h>
#include <unistd.h>

using namespace xpurun;
using namespace xpurun::nodes;

TEST_CASE("the secret file is private, and is read for its own run only") {
  const auto scratch = base::TemporaryDirectory::create("xpurun-secret-");
  REQUIRE(scratch);
  const std::string path = scratch->path() + "/secret";
  CHECK_FALSE(read_secret(path, "job", {})->has_value());
  REQUIRE(write_secret(path, {.run = "job", .url = "nats://h:1", .token = "t"}));
  struct stat info {};
  REQUIRE(::stat(path.c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0600);
  const auto read = read_secret(path, "job", {});
  REQUIRE((read && read->has_value()));
  CHECK((*read)->url == "nats://h:1");
  CHECK((*read)->token == "t");
  CHECK_FALSE(read_secret(path, "another job", {})->has_value());
  // A job of the same name that runs elsewhere.
  REQUIRE(write_secret(path, {.run = "job", .mark = {.port = "29500"}, .url = "nats://h:1", .token = "t"}));
  CHECK(read_secret(path, "job", {.port = "29500"})->has_value());
  CHECK_FALSE(read_secret(path, "job", {.port = "29501"})->has_value());
  // Another job's file stays.
  remove_secret(path, {.run = "job", .token = "another"});
  CHECK(read_secret(path, "job", {})->has_value());
  remove_secret(path, {.run = "job", .token = "t"});
  CHECK_FALSE(read_secret(path, "job", {})->has_value());
  for (const char* text : {"", "{}", "[]", R"({"schema":"xpurun.nats/1","run":"job"})",
                           R"({"schema":"xpurun.nats/1","run":3})"}) {
    REQUIRE(base::write_file_atomic(path, text));
    CHECK_FALSE(read_secret(path, "job", {}));
  }
  REQUIRE(write_secret(path, {.run = "job", .url = "nats://h:1", .token = "t"}));
  REQUIRE(::chmod(path.c_str(), 0640) == 0);
  CHECK_FALSE(read_secret(path, "job", {}));
  REQUIRE(::chmod(path.c_str(), 0600) == 0);
  const std::string link = scratch->path() + "/link";
  REQUIRE(::symlink(path.c_str(), link.c_str()) == 0);
  CHECK_FALSE(read_secret(link, "job", {}));
}

TEST_CASE("the secret lies beside the run directory under the name of the run") {
  CHECK(default_secret_file("/a/b/", "job") == "/a/.xpurun-nats-job.json");
  CHECK(default_secret_file("/a/b", "../x") == "/a/.xpurun-nats-%2E%2E%2Fx.json");
}

TEST_CASE("tokens and numbers are not the same twice") {
  CHECK(base::random_token()->size() == 32);
  CHECK(*base::random_token() != *base::random_token());
  CHECK(*base::random_number() != *base::random_number());
}
