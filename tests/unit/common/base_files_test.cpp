#include "common/base/os/io.h"
#include "common/base/os/temporary_directory.h"

#include <doctest/doctest.h>

#include <atomic>
#include <csignal>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace xpurun::base;

TEST_CASE("only regular files are read in other users' directories") {
  const auto dir = TemporaryDirectory::create("files-test");
  REQUIRE(dir);
  const std::string file = dir->path() + "/file";
  REQUIRE(write_file_atomic(file, "content"));
  CHECK(read_regular_file(file).value() == "content");
  const std::string link = dir->path() + "/link";
  REQUIRE(::symlink(file.c_str(), link.c_str()) == 0);
  CHECK(read_regular_file(link).value() == "content");
  const std::string fifo = dir->path() + "/fifo";
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  const auto refused = read_regular_file(fifo);  // without a writer, open() would block forever
  REQUIRE_FALSE(refused);
  CHECK(refused.error().what.find("not a regular file") != std::string::npos);
  CHECK_FALSE(read_regular_file("/dev/zero"));
  CHECK_FALSE(read_regular_file(dir->path()));
  CHECK_FALSE(read_regular_file(file + "-none"));
  CHECK_FALSE(read_regular_file(file, 3));
}

TEST_CASE("an output directory must not be a link") {
  const auto dir = TemporaryDirectory::create("files-test");
  REQUIRE(dir);
  CHECK(make_own_dir(dir->path() + "/new"));
  CHECK(make_own_dir(dir->path() + "/new"));
  const std::string link = dir->path() + "/link";
  REQUIRE(::symlink(dir->path().c_str(), link.c_str()) == 0);
  CHECK_FALSE(make_own_dir(link));
  CHECK(make_own_dir(link + "/below"));  // only the last part is checked
}

TEST_CASE("temporary directories of killed owners are removed by the next") {
  const auto parent = TemporaryDirectory::create("files-test");
  REQUIRE(parent);
  const auto living = TemporaryDirectory::create_in(parent->path(), "owned");
  REQUIRE(living);
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const pid_t owner = ::fork();
  if (owner == 0) {
    const auto own = TemporaryDirectory::create_in(parent->path(), "owned");
    (void)write_file_atomic(own->path() + "/content", "x");
    (void)write_all(ends[1], own->path());
    ::pause();
    ::_exit(0);
  }
  std::string left(living->path().size(), '\0');
  REQUIRE(::read(ends[0], left.data(), left.size()) == static_cast<ssize_t>(left.size()));
  REQUIRE(::mkdir((parent->path() + "/owned-by-a-user").c_str(), 0700) == 0);
  { CHECK(TemporaryDirectory::create_in(parent->path(), "owned")); }
  CHECK(file_exists(left));
  ::kill(owner, SIGKILL);
  ::waitpid(owner, nullptr, 0);
  CHECK(file_exists(left));
  const auto next = TemporaryDirectory::create_in(parent->path(), "owned");
  REQUIRE(next);
  CHECK_FALSE(file_exists(left));
  CHECK(file_exists(next->path()));
  CHECK(file_exists(living->path()));
  CHECK(file_exists(parent->path() + "/owned-by-a-user"));
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST_CASE("directories made at the same moment do not count as abandoned") {
  const auto parent = TemporaryDirectory::create("cleaners-test");
  REQUIRE(parent);
  std::atomic<int> missing = 0;
  std::vector<std::thread> makers;
  for (int t = 0; t < 8; ++t) {
    makers.emplace_back([&] {
      for (int i = 0; i < 100; ++i) {
        const auto dir = TemporaryDirectory::create_in(parent->path(), "x");
        missing += !dir || !write_file_atomic(dir->path() + "/file", "text") ? 1 : 0;
      }
    });
  }
  for (std::thread& maker : makers) {
    maker.join();
  }
  CHECK(missing == 0);
}
