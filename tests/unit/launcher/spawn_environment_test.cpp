#include "common/base/os/io.h"
#include "common/base/os/temporary_directory.h"
#include "launcher/spawn/environment.h"
#include "launcher/spawn/install_paths.h"
#include "launcher/spawn/preload_plan.h"

#include <doctest/doctest.h>

#include <filesystem>

using namespace xpurun::launcher;
using Env = std::vector<std::string>;

namespace {

constexpr auto kAuto = NcclProfiler::automatic;
constexpr auto kAlways = NcclProfiler::always;
constexpr auto kNever = NcclProfiler::never;
const std::string kLibrary = "/x/libxpurun_preload.so";
// Configuration files of this host must not affect the test.
const std::string kNoHome = "NCCL_CONF_FILE=/nonexistent";

}  // namespace

TEST_CASE("NCCL's profiler plugin") {
  const auto with = [](const Env& env, NcclProfiler when, Timed timing) {
    return with_nccl_profiler(env, kLibrary, when, timing);
  };
  const Env plain = {kNoHome};
  const Env ours = {kNoHome, "XPURUN_RUN_PROFILER=auto:", "NCCL_PROFILER_PLUGIN=" + kLibrary};
  CHECK(with(plain, kAuto, Timed::no) == plain);
  CHECK(with(plain, kAuto, Timed::yes) == ours);
  CHECK(with(plain, kNever, Timed::yes) == plain);
  CHECK(with(plain, kAlways, Timed::no) ==
        Env{kNoHome, "XPURUN_RUN_PROFILER=always:", "NCCL_PROFILER_PLUGIN=" + kLibrary});
  CHECK(with_nccl_profiler(plain, "/" + std::string(300, 'x'), kAuto, Timed::yes) == plain);

  const Env theirs = {kNoHome, "NCCL_PROFILER_PLUGIN=inspector"};
  const Env both = {kNoHome, "XPURUN_RUN_PROFILER=auto:inspector", "NCCL_PROFILER_PLUGIN=" + kLibrary};
  CHECK(with(theirs, kAuto, Timed::no) == theirs);
  CHECK(with(theirs, kAuto, Timed::yes) == both);
  const Env none = {kNoHome, "NCCL_PROFILER_PLUGIN=None"};
  CHECK(with(none, kAuto, Timed::yes) == none);
  CHECK(with(none, kAlways, Timed::yes).at(1) == "XPURUN_RUN_PROFILER=always:None");

  // Under another xpurun: the outer xpurun's setting is undone, not chained.
  CHECK(with(both, kAuto, Timed::yes) == both);
  CHECK(with(both, kNever, Timed::yes) == theirs);
  CHECK(with(ours, kNever, Timed::yes) == plain);
}

TEST_CASE("NCCL's profiler plugin, set in NCCL's own file") {
  const auto dir = xpurun::base::TemporaryDirectory::create("nccl-conf");
  REQUIRE(dir);
  const std::string path = dir->path() + "/nccl.conf";
  REQUIRE(xpurun::base::write_file_atomic(path, "# a comment\nNCCL_DEBUG=WARN\nNCCL_PROFILER_PLUGIN=mine\n"));
  const Env env = {"NCCL_CONF_FILE=" + path};
  CHECK(with_nccl_profiler(env, kLibrary, kAuto, Timed::yes).at(1) == "XPURUN_RUN_PROFILER=auto:mine");
}

TEST_CASE("the preload library comes first, and others keep their order") {
  CHECK(with_preload(Env{"A=1"}, "/x/libp.so") == Env{"A=1", "LD_PRELOAD=/x/libp.so"});
  CHECK(with_preload(Env{"LD_PRELOAD=/a.so /b.so:/c.so", "A=1"}, "/x/libp.so") ==
        Env{"A=1", "LD_PRELOAD=/x/libp.so:/a.so:/b.so:/c.so"});
  CHECK(with_preload(Env{"LD_PRELOAD="}, "/x/libp.so") == Env{"LD_PRELOAD=/x/libp.so"});
}

TEST_CASE("the preload library comes after a sanitizer's runtime, which must be first") {
  CHECK(with_preload(Env{"LD_PRELOAD=/usr/lib/libasan.so.8:/b.so"}, "/x/libp.so") ==
        Env{"LD_PRELOAD=/usr/lib/libasan.so.8:/b.so:/x/libp.so"});
  CHECK(with_preload(Env{"LD_PRELOAD=/l/libclang_rt.asan-x86_64.so"}, "/x/libp.so") ==
        Env{"LD_PRELOAD=/l/libclang_rt.asan-x86_64.so:/x/libp.so"});
  CHECK(with_preload(Env{"LD_PRELOAD=/asan/libjemalloc.so"}, "/x/libp.so") ==
        Env{"LD_PRELOAD=/x/libp.so:/asan/libjemalloc.so"});
}

TEST_CASE("a library whose path LD_PRELOAD cannot hold is preloaded through a link") {
  const auto dir = xpurun::base::TemporaryDirectory::create("preload-path");
  REQUIRE(dir);
  CHECK(*preloadable_path("/x/libp.so", dir->path()) == "/x/libp.so");
  for (const std::string library : {"/a b/libp.so", "/a:b/libp.so", "/$LIB/libp.so"}) {
    const auto path = preloadable_path(library, dir->path());
    REQUIRE(path);
    CHECK(path->find_first_of(" :$") == std::string::npos);
    CHECK(path->ends_with("/libp.so"));
    CHECK(std::filesystem::read_symlink(*path) == library);
    CHECK(*preloadable_path(library, dir->path()) == *path);
    // Another user's link is not used.
    REQUIRE(std::filesystem::remove(*path));
    std::filesystem::create_symlink("/elsewhere.so", *path);
    CHECK_FALSE(preloadable_path(library, dir->path()));
  }
  CHECK_FALSE(preloadable_path("/a b/libp.so", "/also with space"));
  CHECK_FALSE(preloadable_path("/a b/libp.so", dir->path() + "/missing"));
  // A directory that others can write to is not used either.
  const auto path = preloadable_path("/c d/libp.so", dir->path());
  REQUIRE(path);
  std::filesystem::permissions(std::filesystem::path(*path).parent_path(), std::filesystem::perms::all);
  CHECK_FALSE(preloadable_path("/c d/libp.so", dir->path()));
}

TEST_CASE("xpurun inside xpurun does not preload twice") {
  CHECK(with_preload(Env{"LD_PRELOAD=/old/libp.so:/a.so"}, "/x/libp.so") ==
        Env{"LD_PRELOAD=/x/libp.so:/a.so"});
}

TEST_CASE("a variable is replaced, not repeated, and a longer name is another variable") {
  CHECK(with_variable(Env{"AB=1", "A=2"}, "A", "3") == Env{"AB=1", "A=3"});
}

TEST_CASE("programs outside the job lose the preload library and xpurun's variables") {
  CHECK(without_preload({"A=b", "LD_PRELOAD=/x/libxpurun_preload.so", "XPURUN_RUN=1:2", "XPURUN_NAME=n",
                         "NCCL_PROFILER_PLUGIN=/x/libxpurun_preload.so"}) ==
        std::vector<std::string>{"A=b", "XPURUN_NAME=n"});
  CHECK(without_preload({"LD_PRELOAD=/a.so /x/libxpurun_preload.so:/b.so", "NCCL_PROFILER_PLUGIN=mine"}) ==
        std::vector<std::string>{"LD_PRELOAD=/a.so:/b.so", "NCCL_PROFILER_PLUGIN=mine"});
}

TEST_CASE("glibc decides on the build of the preload library") {
  constexpr std::string_view kSplit = "libxpurun_preload.so.glibc-2.28";
  constexpr std::string_view kOne = "libxpurun_preload.so";
  CHECK(preload_file_name("2.28") == kSplit);
  CHECK(preload_file_name("2.33.9000") == kSplit);
  CHECK(preload_file_name("2.34") == kOne);
  CHECK(preload_file_name("2.100") == kOne);
  CHECK(preload_file_name("3.1") == kOne);
  CHECK(preload_file_name("") == kOne);
}
