#include "launcher/stacks/core_process.h"

#include <doctest/doctest.h>

using namespace xpurun;
using namespace xpurun::launcher;

namespace {

CoreProcess process(base::Pid pid, base::Pid parent, const std::string& rank, const std::string& host = "a",
                    const std::string& python = "3.12.1") {
  CoreProcess out{.parent = parent, .environment = {{"HOSTNAME", host}}};
  if (!rank.empty()) {
    out.environment.insert({{"RANK", rank}, {"LOCAL_RANK", rank}, {"WORLD_SIZE", "4"}});
  }
  out.stacks.pid = pid;
  out.stacks.python_version = python;
  return out;
}

}  // namespace

TEST_CASE("ranks of core files come from the environment; a child of a rank with its rank is a worker") {
  std::vector<CoreProcess> all = {process(10, 1, "2"),  process(11, 10, "2"), process(12, 10, "2", "b"),
                                  process(13, 10, "3"), process(14, 1, ""),   process(15, 10, "2", "a", "")};
  identify(all);
  const auto role = [&](size_t i) { return all[i].stacks.role; };
  CHECK(all[0].stacks.rank == 2);
  CHECK(all[0].stacks.local_rank == 2);
  CHECK(all[0].stacks.host == "a");
  CHECK(role(0) == model::ProcessRole::rank);
  CHECK(role(1) == model::ProcessRole::worker);
  CHECK(role(2) == model::ProcessRole::rank);  // the parent's number on another host
  CHECK(role(3) == model::ProcessRole::rank);
  CHECK(all[3].stacks.rank == 3);
  CHECK(role(4) == model::ProcessRole::other);
  CHECK(all[4].stacks.rank == base::kNoRank);
  CHECK(role(5) == model::ProcessRole::other);  // what a rank in Python has started
}

TEST_CASE("ranks of core files: a program without Python") {
  std::vector<CoreProcess> all = {process(10, 1, "1", "a", ""), process(11, 10, "1", "a", ""),
                                  process(12, 11, "1", "a", ""), process(13, 1, "2", "a", "")};
  all[0].stacks.cmdline = {"/bin/bash", "run.sh"};
  all[1].stacks.cmdline = {"./simulate"};
  all[2].stacks.cmdline = {"./helper"};
  all[3].stacks.cmdline = {"-sh"};
  identify(all);
  CHECK(all[0].stacks.role == model::ProcessRole::other);  // a shell that passes the environment on
  CHECK(all[1].stacks.role == model::ProcessRole::rank);
  CHECK(all[1].stacks.rank == 1);
  CHECK(all[2].stacks.role == model::ProcessRole::other);
  CHECK(all[3].stacks.role == model::ProcessRole::other);
}

TEST_CASE("ranks of core files: RANK alone is enough") {
  std::vector<CoreProcess> all = {process(10, 1, ""), process(11, 1, ""), process(12, 1, "", "a", "")};
  all[0].environment["RANK"] = "5";
  all[1].environment["RANK"] = "five";
  all[2].environment["RANK"] = "6";  // of a program in C++
  identify(all);
  CHECK(all[2].stacks.rank == 6);
  CHECK(all[0].stacks.rank == 5);
  CHECK(all[0].stacks.role == model::ProcessRole::rank);
  CHECK(all[1].stacks.rank == base::kNoRank);
}
