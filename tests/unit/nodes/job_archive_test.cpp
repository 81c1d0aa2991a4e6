// What all nodes have sent, handed to a node that has not judged: seen from there, and as hostile input.
#include "launcher/nodes/agent/protocol/job_archive.h"

#include "common/base/os/io.h"
#include "common/base/os/temporary_directory.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <unistd.h>

using namespace xpurun;
using namespace xpurun::nodes;
using namespace xpurun::launcher;

namespace {

constexpr int64_t kMillisecond = 1'000'000;

// As n0 has gathered it: n3 has not answered, the node of rank 4 never came.
GatheredMessage gathered() {
  return {
      .request = "n0-1",
      .nodes = {{.node = "n0", .host = "h0", .uncertainty_ns = 0, .dump = "dumps/1-hang"},
                {.node = "n1",
                 .host = "h1",
                 .node_rank = 1,
                 .ranks = {2, 3},
                 .offset_ns = 50 * kMillisecond,
                 .uncertainty_ns = 2 * kMillisecond,
                 .directory = "nodes/n1",
                 .dump = "dumps/2-hang"},
                {.node = "n2",
                 .host = "h2",
                 .node_rank = 2,
                 .offset_ns = -20 * kMillisecond,
                 .uncertainty_ns = kMillisecond,
                 .directory = "nodes/n2",
                 .dump = "dumps/1-hang"},
                {.node = "n3", .node_rank = 3, .status = NodeStatus::silent, .reason = "no answer for 20 s"},
                {.node_rank = 4, .status = NodeStatus::cut_off, .reason = "the node has never joined"}}};
}

std::string archive_of(const GatheredMessage& list, std::vector<ArchiveFile> files) {
  files.insert(files.begin(), {"gathered", to_line(FromHelper(list))});
  return pack_files(files);
}

const JobReader kReader{.self = "n1", .judge = "n0"};

}  // namespace

TEST_CASE("job archive: clocks and directories are those that the reader sees") {
  const auto job = read_job(
      kReader, archive_of(gathered(), {{"n0/run.json", "a"}, {"n1/run.json", "own"}, {"n2/dumps/1/x", "c"}}));
  REQUIRE(job);
  REQUIRE(job->files.size() == 2);
  CHECK(job->files[0].path == "n0/run.json");
  CHECK(job->files[1].path == "n2/dumps/1/x");
  const auto& nodes = job->gathered.nodes;
  REQUIRE(nodes.size() == 5);
  CHECK(nodes[0].directory == "nodes/n0");
  CHECK(nodes[0].offset_ns == -50 * kMillisecond);
  CHECK(nodes[0].uncertainty_ns == 2 * kMillisecond);
  CHECK(nodes[1].directory.empty());
  CHECK(nodes[1].offset_ns == 0);
  CHECK(nodes[1].uncertainty_ns == 0);
  CHECK(nodes[1].dump == "dumps/2-hang");
  CHECK(nodes[2].directory == "nodes/n2");
  CHECK(nodes[2].offset_ns == -70 * kMillisecond);
  CHECK(nodes[2].uncertainty_ns == 3 * kMillisecond);
  CHECK(nodes[3].directory.empty());
  CHECK(nodes[3].status == NodeStatus::silent);
  CHECK(nodes[3].uncertainty_ns == -1);
  CHECK(nodes[4].reason == "the node has never joined");
}

TEST_CASE("job archive: clocks whose difference cannot be, or was not measured, are unknown") {
  GatheredMessage list = gathered();
  list.nodes[2].offset_ns = INT64_MIN;
  auto job = read_job(kReader, archive_of(list, {}));
  REQUIRE(job);
  CHECK(job->gathered.nodes[2].uncertainty_ns == -1);
  CHECK(job->gathered.nodes[2].offset_ns == 0);
  list.nodes[1].uncertainty_ns = -1;
  job = read_job(kReader, archive_of(list, {}));
  REQUIRE(job);
  CHECK(job->gathered.nodes[0].uncertainty_ns == -1);
}

TEST_CASE("job archive: damaged and hostile archives are refused") {
  struct Row {
    const char* about;
    std::function<std::string()> archive;
  };
  const auto with_list = [](void (*change)(GatheredMessage&)) {
    return [change] {
      GatheredMessage list = gathered();
      change(list);
      return archive_of(list, {{"n0/run.json", "x"}});
    };
  };
  const auto with_file = [](const char* path) {
    return [path] { return archive_of(gathered(), {{path, "x"}}); };
  };
  const Row rows[] = {
      {"nothing", [] { return std::string(); }},
      {"random bytes", [] { return std::string("(\xb5/\xfd random"); }},
      {"cut short",
       [] {
         const std::string whole = archive_of(gathered(), {{"n0/run.json", std::string(1000, 'x')}});
         return whole.substr(0, whole.size() - 1);
       }},
      {"no list",
       [] {
         return pack_files({{"n0/run.json", "x"}});
       }},
      {"a list of another kind",
       [] {
         return pack_files({{"gathered", to_line(FromHelper(NodesMessage{}))}});
       }},
      {"a list that is no JSON",
       [] {
         return pack_files({{"gathered", "[[[["}});
       }},
      {"this node is not in the list",
       with_list([](GatheredMessage& m) { m.nodes.erase(m.nodes.begin() + 1); })},
      {"the judge is not in the list", with_list([](GatheredMessage& m) { m.nodes[0].node = "nx"; })},
      {"a name twice", with_list([](GatheredMessage& m) { m.nodes[2].node = "n0"; })},
      {"a name that is a path", with_list([](GatheredMessage& m) { m.nodes[2].node = "../n2"; })},
      {"a name with a dot first", with_list([](GatheredMessage& m) { m.nodes[2].node = ".."; })},
      {"a dump elsewhere", with_list([](GatheredMessage& m) { m.nodes[2].dump = "/etc"; })},
      {"a rank that cannot be", with_list([](GatheredMessage& m) { m.nodes[2].ranks = {-1}; })},
      {"a node rank that cannot be", with_list([](GatheredMessage& m) { m.nodes[2].node_rank = -1; })},
      {"an endless reason", with_list([](GatheredMessage& m) { m.nodes[2].reason.assign(10'000, 'x'); })},
      {"a file of no node", with_file("n9/run.json")},
      {"a file beside the nodes", with_file("run.json")},
      {"a file in the place of a node", with_file("n0")},
      {"a file elsewhere", with_file("n0/../../../x")},
      {"an absolute path", with_file("/n0/run.json")},
  };
  for (const Row& row : rows) {
    CAPTURE(row.about);
    CHECK_FALSE(read_job(kReader, row.archive()));
  }
}

TEST_CASE("job archive: what one node packs, another has below nodes/") {
  const auto scratch = base::TemporaryDirectory::create("xpurun-job-");
  REQUIRE(scratch);
  const std::string from = scratch->path() + "/n0";
  const std::string to = scratch->path() + "/n1";
  for (const char* name :
       {"run.json", "dumps/1-hang/dump.json", "dumps/1-hang/rank-0.snapshot", "nodes/n1/run.json",
        "nodes/n2/run.json", "nodes/n2/dumps/1-hang/rank-4.stacks.json"}) {
    const std::string path = from + "/" + name;
    REQUIRE(base::make_dirs(path.substr(0, path.rfind('/'))));
    REQUIRE(base::write_file_atomic(path, name));
  }
  REQUIRE(base::make_dirs(to));
  REQUIRE(base::write_file_atomic(to + "/run.json", "own"));
  const std::string archive = pack_job({.run_directory = from, .node = "n0", .gathered = gathered()});
  SUBCASE("plain") {
    const auto list = unpack_job(to, kReader, archive);
    REQUIRE(list);
    CHECK(list->nodes[2].directory == "nodes/n2");
    CHECK(base::read_file(to + "/nodes/n0/dumps/1-hang/dump.json").value_or("") == "dumps/1-hang/dump.json");
    CHECK(base::read_file(to + "/nodes/n2/dumps/1-hang/rank-4.stacks.json").value_or("") ==
          "nodes/n2/dumps/1-hang/rank-4.stacks.json");
    CHECK(base::read_file(to + "/run.json").value_or("") == "own");
    CHECK_FALSE(base::file_exists(to + "/nodes/n1"));
    CHECK_FALSE(base::file_exists(to + "/nodes/n0/dumps/1-hang/rank-0.snapshot"));
    CHECK_FALSE(base::file_exists(to + "/nodes/gathered"));
  }
  SUBCASE("a link in the place of the directory") {
    const std::string outside = scratch->path() + "/outside";
    REQUIRE(base::make_dirs(outside));
    REQUIRE(::symlink(outside.c_str(), (to + "/nodes").c_str()) == 0);
    CHECK_FALSE(unpack_job(to, kReader, archive));
    CHECK_FALSE(base::file_exists(outside + "/n0"));
  }
}
