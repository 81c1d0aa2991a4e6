#include "common/base/os/temporary_directory.h"
#include "launcher/options/command_advice.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

using namespace xpurun;
using namespace xpurun::launcher;

namespace {

using Words = std::vector<std::string>;
namespace fs = std::filesystem;

// A working directory with one program in PATH.
class CommandAdviceScene {
 public:
  CommandAdviceScene() : before_(fs::current_path()), path_(std::getenv("PATH")) {
    fs::current_path(dir_.path());
    fs::create_directory("bin");
    std::ofstream("bin/torchrun") << "#!/bin/sh\n";
    fs::permissions("bin/torchrun", fs::perms::owner_all);
    ::setenv("PATH", (dir_.path() + "/bin").c_str(), 1);
  }
  ~CommandAdviceScene() {
    ::setenv("PATH", path_.c_str(), 1);
    fs::current_path(before_);
  }
  CommandAdviceScene(const CommandAdviceScene&) = delete;
  CommandAdviceScene& operator=(const CommandAdviceScene&) = delete;

 private:
  base::TemporaryDirectory dir_ = *base::TemporaryDirectory::create("xpurun-advice");
  fs::path before_;
  std::string path_;
};

base::Error advice(const Words& argv, const char* id = "E-NOT-FOUND") {
  return explain_failure({.what = "cannot run it", .id = id}, argv);
}

}  // namespace

TEST_CASE("a command that cannot be run is explained") {
  const CommandAdviceScene scene;
  SUBCASE("a misspelt program") {
    const base::Error e = advice({"trochrun", "train.py", "a b"});
    CHECK(e.cause == "there is no such program; did you mean torchrun?");
    CHECK(e.hint == "xpurun -- torchrun train.py 'a b'");
  }
  SUBCASE("a misspelt subcommand") {
    CHECK(advice({"doctr"}).hint == "xpurun help doctor");
  }
  SUBCASE("a command line in quotes") {
    CHECK(advice({"torchrun train.py"}).hint == "xpurun -- torchrun train.py");
    CHECK(advice({"nothing known"}).cause.empty());
  }
  SUBCASE("an option of torchrun") {
    CHECK(advice({"--nnodes=2", "train.py"}).hint == "xpurun -- torchrun --nnodes=2 train.py");
  }
  SUBCASE("a file without its interpreter") {
    std::ofstream("train.py") << "";
    std::ofstream("train.sh") << "";
    CHECK(advice({"train.py", "--lr", "1"}).hint == "xpurun -- python3 train.py --lr 1");
    CHECK(advice({"train.sh"}).hint == "xpurun -- ./train.sh");
  }
  SUBCASE("a directory") {
    fs::create_directory("job");
    CHECK(advice({"job"}).id == "E-NOT-EXECUTABLE");
    CHECK(advice({"./job"}, "E-NOT-EXECUTABLE").hint == "ls ./job");
    std::ofstream("job/train.py") << "";
    CHECK(advice({"job"}).hint == "xpurun -- python3 job/train.py");
    std::ofstream("job/__main__.py") << "";
    CHECK(advice({"job"}).hint == "xpurun -- python3 job");
  }
  SUBCASE("nothing like it") {
    CHECK(advice({"qqqqqqqqqqqqq"}).hint.empty());
    CHECK(advice({""}).hint.empty());
  }
}

TEST_CASE("an option of xpurun behind the command is noticed") {
  CHECK(misplaced_option({"python3", "train.py", "--on-hang", "kill"}) == "--on-hang");
  CHECK(misplaced_option({"python3", "train.py", "--hang-timeout=3"}) == "--hang-timeout");
  SUBCASE("what other programs have as well is not") {
    CHECK(misplaced_option({"torchrun", "--node-rank", "0", "--out", "x"}).empty());
    CHECK(misplaced_option({"sh", "--", "--on-hang"}).empty());
    CHECK(misplaced_option({"--on-hang"}).empty());
  }
}
