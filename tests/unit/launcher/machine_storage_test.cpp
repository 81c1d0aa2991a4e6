#include "launcher/machine/machine_helper.h"
#include "launcher/machine/storage.h"
#include "tests/unit/launcher/fake_host.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <sys/syscall.h>

using namespace xpurun;
using namespace xpurun::launcher;
using model::MachineFact;
using model::MachineReading;
using test::FakeHost;
using test::value_of;

namespace {

constexpr std::string_view kMounts =
    "27 1 254:0 / / rw - ext4 /dev/vda rw\n"
    "28 27 0:25 / /data rw - nfs4 10.0.0.7:/ds rw\n"
    "29 27 0:26 / /dev/shm rw - tmpfs tmpfs rw\n"
    "30 27 0:27 / /proc rw - proc proc rw\n";

void add_process(FakeHost& host, base::Pid pid, char state, int64_t call, const std::string& path) {
  std::string stat = fmt::format("{} (python3) {} 1", pid, state);
  for (int field = 5; field <= 52; ++field) {
    stat += " 0";
  }
  const std::string directory = fmt::format("{}/", pid);
  host.proc(directory + "stat", stat)
      .proc(directory + "syscall", fmt::format("{} 0x5 0x7f00 0x1000 0x0 0x0 0x0 0x7ffe 0x7f01", call))
      .proc(directory + "mountinfo", std::string(kMounts))
      .link(fmt::format("proc/{}/fd/5", pid), path);
}

}  // namespace

TEST_CASE("storage waits: a process in a call to a disk or a server") {
  FakeHost host;
  add_process(host, 11, 'D', SYS_read, "/data/x");
  add_process(host, 12, 'S', SYS_fsync, "/data/y");
  add_process(host, 13, 'S', SYS_read, "/home/z");     // a FIFO, say
  add_process(host, 14, 'D', SYS_read, "/dev/shm/z");  // memory
  add_process(host, 15, 'S', SYS_read, "socket:[4711]");
  add_process(host, 16, 'R', SYS_read, "/data/x");
  const auto proc = host.files().proc();
  const auto read = storage_wait(proc, 11);
  REQUIRE(read);
  CHECK(read->call == "read() of /data/x");
  CHECK(model::file_system_words(read->file_system) == "/data (nfs4 10.0.0.7:/ds)");
  REQUIRE(storage_wait(proc, 12));
  CHECK(storage_wait(proc, 12)->call == "fsync() of /data/y");
  for (const base::Pid pid : {13, 14, 15, 16, 99}) {
    CAPTURE(pid);
    CHECK_FALSE(storage_wait(proc, pid));
  }
}

TEST_CASE("storage waits: the times of a rank and its helpers are added up by mount") {
  FakeHost host;
  add_process(host, 11, 'S', SYS_futex, "/x");
  add_process(host, 21, 'D', SYS_read, "/data/x");
  add_process(host, 22, 'D', SYS_read, "/data/y");
  host.proc("11/task/11/children", "21 22");
  StorageWaits waits;
  waits.sample(host.files(), {{.rank = 4, .local_rank = 0, .pid = 11}}, 1);
  waits.sample(host.files(), {{.rank = 4, .local_rank = 0, .pid = 11}}, 1.5);
  MachineReading reading;
  waits.read(reading);
  REQUIRE(reading.values.size() == 1);  // two helpers wait once
  CHECK(reading.values[0].fact == MachineFact::storage_wait);
  CHECK(reading.values[0].object == "/data");
  CHECK(reading.values[0].rank == 4);
  CHECK(reading.values[0].value == doctest::Approx(2.5e6));
  CHECK(reading.values[0].detail == "read() of /data/x, /data (nfs4 10.0.0.7:/ds)");
}

TEST_CASE("space: how full the file systems are that the ranks write to") {
  SpaceReader reader([](const std::string& path) -> std::optional<FreeSpace> {
    return path.starts_with("/data")
               ? FreeSpace{.bytes = 1000, .free_bytes = 30, .inodes = 100, .free_inodes = 1}
               : FreeSpace{.bytes = 1000, .free_bytes = 900};
  });
  MachineReading reading;
  reader.read(std::string(kMounts), {"/data/run", "/data/other", "/home", "/dev/shm", "/proc/self", "x"}, 10,
              reading);
  REQUIRE(value_of(reading, MachineFact::space, "/data") != nullptr);
  CHECK(value_of(reading, MachineFact::space, "/data")->value == doctest::Approx(0.97));
  CHECK(value_of(reading, MachineFact::space, "/data")
            ->detail.find("/data/run, on /data (nfs4 10.0.0.7:/ds)") != std::string::npos);
  CHECK(value_of(reading, MachineFact::inodes, "/data")->value == doctest::Approx(0.99));
  CHECK(value_of(reading, MachineFact::space, "/")->value == doctest::Approx(0.1));
  CHECK(value_of(reading, MachineFact::inodes, "/") == nullptr);
  CHECK(value_of(reading, MachineFact::space, "/dev/shm") != nullptr);
  CHECK(value_of(reading, MachineFact::space, "/proc") == nullptr);
}

TEST_CASE("space: a file system that does not answer holds up no other, and is not asked again") {
  struct Gate {
    std::mutex mutex;
    std::condition_variable opened;
    bool open = false;
    std::atomic<int> asked = 0;
  };
  const auto gate = std::make_shared<Gate>();
  SpaceReader reader([gate](const std::string& path) -> std::optional<FreeSpace> {
    if (path.starts_with("/data")) {
      ++gate->asked;
      std::unique_lock lock(gate->mutex);
      gate->opened.wait(lock, [&] { return gate->open; });
    }
    return FreeSpace{.bytes = 10, .free_bytes = 5};
  });
  const std::vector<std::string> paths = {"/data", "/home"};
  for (int i = 0; i < 2; ++i) {
    MachineReading reading;
    reader.read(std::string(kMounts), paths, 0.05, reading);
    REQUIRE(value_of(reading, MachineFact::mount_silent, "/data") != nullptr);
    CHECK(value_of(reading, MachineFact::mount_silent, "/data")->value == 1);
    CHECK(value_of(reading, MachineFact::space, "/data") == nullptr);
  }
  CHECK(gate->asked == 1);
  {
    const std::lock_guard lock(gate->mutex);
    gate->open = true;
    gate->opened.notify_all();
  }
  MachineReading reading;
  reader.read(std::string(kMounts), paths, 60, reading);
  REQUIRE(value_of(reading, MachineFact::space, "/data") != nullptr);
  CHECK(value_of(reading, MachineFact::mount_silent, "/data")->value == 0);
}

TEST_CASE("space: where a process writes") {
  FakeHost host;
  host.link("proc/11/cwd", "/home/u")
      .proc("11/environ", std::string("TMPDIR=/scratch\0", 16))
      .link("proc/11/fd/3", "/ckpt/step-10/model.pt")
      .proc("11/fdinfo/3", "pos:\t0\nflags:\t0100001\n")
      .link("proc/11/fd/4", "/data/shard")
      .proc("11/fdinfo/4", "pos:\t0\nflags:\t0100000\n")
      .link("proc/11/fd/5", "/dev/null")
      .proc("11/fdinfo/5", "pos:\t0\nflags:\t0100002\n");
  const auto places = written_places(host.files().proc(), 11);
  CHECK(places == std::vector<std::string>{"/home/u", "/scratch", "/ckpt/step-10"});
}

TEST_CASE("machine helper: the ranks on its input") {
  const std::vector<WatchedRank> ranks = {{.rank = 0, .local_rank = 0, .pid = 11},
                                          {.rank = 9, .local_rank = -1, .pid = 12}};
  CHECK(ranks_line(ranks) == "0:0:11 9:-1:12\n");
  CHECK(ranks_from(ranks_line(ranks)) == ranks);
  CHECK(ranks_from("\n").empty());
  CHECK(ranks_from("0:0:0 a:0:1 1:1 -1:0:5 1:0:99999999999\n").empty());
}
