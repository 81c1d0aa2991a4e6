#include "launcher/evidence/flight_recorder.h"

#include "common/base/os/io.h"
#include "common/base/os/temporary_directory.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <string>
#include <sys/stat.h>
#include <unistd.h>

using namespace xpurun;
using namespace xpurun::launcher;
using model::EvidenceStatus;

namespace {

std::string real_dump() {
  const char* root = std::getenv("XPURUN_TEST_SOURCE");
  REQUIRE(root != nullptr);
  auto text =
      base::read_file(fmt::format("{}/tests/data/flight_recorder/torch-2.11/nccl_trace_rank_0", root));
  REQUIRE(text);
  return *text;
}

void put(const std::string& path, const std::string& text) {
  REQUIRE(base::write_file_atomic(path, text));
}

// Rank 3 with pid 4711 in its own directory, which replaces /proc and the run directory.
struct Rank {
  base::TemporaryDirectory place = *base::TemporaryDirectory::create("xpurun-flight");
  std::string dir = place.path();

  Rank() {
    REQUIRE(base::make_dirs(dir + "/4711"));
    put(dir + "/4711/environ", fmt::format("HOME=/h{0}TORCH_NCCL_DEBUG_INFO_PIPE_FILE={1}/p{0}"
                                           "TORCH_NCCL_DEBUG_INFO_TEMP_FILE={1}/d{0}",
                                           '\0', dir));
  }
  std::string pipe() const { return dir + "/p3.pipe"; }
  // Opened as torch does.
  base::UniqueFd listen() const {
    REQUIRE(::mkfifo(pipe().c_str(), 0600) == 0);
    return base::UniqueFd(::open(pipe().c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  }
  FlightResult force(const std::function<bool()>& wait) const {
    return force_flight_dumps({{.rank = 3, .pid = 4711}}, dir + "/out", wait, dir);
  }
  bool arrived() const { return base::file_exists(dir + "/out/rank_3"); }
};

bool asked(const base::UniqueFd& pipe) {
  char c = 0;
  return ::read(pipe.get(), &c, 1) == 1 && c == '1';
}

}  // namespace

TEST_CASE("flight recorder: the dump is requested through the rank's pipe and copied") {
  const Rank rank;
  put(rank.dir + "/d3", "an older dump");
  const base::UniqueFd pipe = rank.listen();
  int round = 0;
  const FlightResult result = rank.force([&] {
    if (round++ == 0) {
      CHECK(asked(pipe));
      CHECK_FALSE(rank.arrived());
      // As torch writes: in place, and in several steps.
      put(rank.dir + "/d3", real_dump().substr(0, 2000));
    } else {
      CHECK_FALSE(rank.arrived());
      put(rank.dir + "/d3", real_dump());
    }
    return round < 10;
  });
  CHECK(result.status == EvidenceStatus::ok);
  CHECK(result.reason.empty());
  CHECK(round == 2);
  CHECK(*base::read_file(rank.dir + "/out/rank_3") == real_dump());
}

TEST_CASE("flight recorder: an older dump does not count, and the limit ends the wait") {
  const Rank rank;
  put(rank.dir + "/d3", real_dump());
  const base::UniqueFd pipe = rank.listen();
  int rounds = 0;
  const FlightResult result = rank.force([&] { return ++rounds < 4; });
  CHECK(rounds == 4);
  CHECK(result.status == EvidenceStatus::timeout);
  CHECK(result.reason == "rank 3: no dump came in time");
  CHECK_FALSE(rank.arrived());
}

TEST_CASE("flight recorder: a rank that ends is not waited for") {
  const Rank rank;
  const base::UniqueFd pipe = rank.listen();
  int rounds = 0;
  const FlightResult result = rank.force([&] {
    std::filesystem::remove_all(rank.dir + "/4711");
    return ++rounds < 100;
  });
  CHECK(rounds == 1);
  CHECK(result.status == EvidenceStatus::failed);
  CHECK(result.reason == "rank 3: it has ended");
}

TEST_CASE("flight recorder: a dump that would run code is refused and not kept") {
  const Rank rank;
  const base::UniqueFd pipe = rank.listen();
  const FlightResult result = rank.force([&] {
    put(rank.dir + "/d3",
        "\x80\x02"
        "cos\nsystem\n.");
    return false;
  });
  CHECK(result.status == EvidenceStatus::timeout);
  CHECK(result.reason == "rank 3: opcode GLOBAL is refused: only plain values are read at byte 2");
  CHECK_FALSE(rank.arrived());
}

TEST_CASE("flight recorder: a pipe without a reader, no pipe, and a file in its place") {
  const auto never = [] {
    FAIL("nobody was asked");
    return false;
  };
  const Rank rank;
  CHECK(rank.force(never).reason == "rank 3: its pipe does not exist: no NCCL process group yet");
  { const base::UniqueFd closed_at_once = rank.listen(); }
  CHECK(rank.force(never).reason == "rank 3: nobody reads its pipe");
  REQUIRE(::unlink(rank.pipe().c_str()) == 0);
  put(rank.pipe(), "");
  const FlightResult result = rank.force(never);
  CHECK(result.status == EvidenceStatus::failed);
  CHECK(result.reason == "rank 3: its pipe is not a pipe");
}

TEST_CASE("flight recorder: ranks without a recorder, and ranks that have ended") {
  const Rank rank;
  const auto never = [] { return false; };
  put(rank.dir + "/4711/environ", std::string("HOME=/h\0RANK=3\0", 15));
  CHECK(rank.force(never).status == EvidenceStatus::absent);
  CHECK(force_flight_dumps({{.rank = 0, .pid = 99}}, rank.dir + "/out", never, rank.dir).status ==
        EvidenceStatus::absent);
}

TEST_CASE("flight recorder: paths by the names of all torch releases") {
  const FlightPaths old = flight_paths({"TORCH_NCCL_DEBUG_INFO_PIPE_FILE=/p_", "HOME=/home/me"}, 12);
  CHECK(old.pipe == "/p_12.pipe");
  const auto has = [&](const char* file) {
    return std::find(old.files.begin(), old.files.end(), file) != old.files.end();
  };
  CHECK(has("/tmp/nccl_trace_rank_12"));
  CHECK(has("/home/me/.cache/torch/comm_lib_trace_rank_12"));
  const FlightPaths both =
      flight_paths({"TORCH_NCCL_DEBUG_INFO_PIPE_FILE=/p_", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE=/old_",
                    "TORCH_FR_DUMP_TEMP_FILE=/new_"},
                   0);
  CHECK(both.files == std::vector<std::string>{"/new_0"});
  CHECK(flight_paths({"TORCH_NCCL_DEBUG_INFO_PIPE_FILE="}, 0).pipe.empty());
  CHECK(flight_paths({}, 0).pipe.empty());
}

TEST_CASE("flight recorder: switching it on leaves the user's own variables alone") {
  const auto place = base::TemporaryDirectory::create("xpurun-flight");
  REQUIRE(place);
  const std::string dir = place->path() + "/fr";
  const auto env = with_flight_recorder({"A=b", "TORCH_FR_BUFFER_SIZE=77"}, dir);
  const auto has = [&](const std::string& variable) {
    return std::find(env.begin(), env.end(), variable) != env.end();
  };
  CHECK(has("A=b"));
  CHECK(has("TORCH_FR_BUFFER_SIZE=77"));
  CHECK_FALSE(has("TORCH_NCCL_TRACE_BUFFER_SIZE=2000"));
  CHECK(has("TORCH_NCCL_DUMP_ON_TIMEOUT=1"));
  CHECK(has("TORCH_NCCL_DEBUG_INFO_TEMP_FILE=" + dir + "/rank_"));
  CHECK(has("TORCH_NCCL_DEBUG_INFO_PIPE_FILE=" + dir + "/rank_"));
  CHECK(has("TORCH_NCCL_TRACE_BUFFER_SIZE=2000") == false);
  // An unwritable directory changes nothing.
  CHECK(with_flight_recorder({"A=b"}, "/proc/none/fr").size() == 1);
}
