#include "common/model/stacks/file_system.h"

#include <doctest/doctest.h>

using namespace xpurun::model;

namespace {

constexpr std::string_view kMounts =
    "27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n"
    "28 27 0:25 / /data rw,relatime shared:7 master:1 - nfs4 10.0.0.7:/ds rw,vers=4.2\n"
    "29 28 0:26 / /data/my\\040cache rw - fuse.sshfs me@store:/c rw\n"
    "30 27 0:27 / /dev/shm rw - tmpfs tmpfs rw\n"
    "31 27 0:28 / /stack rw - ext4 /dev/vdb rw\n"
    "32 27 0:29 / /stack rw - fuse none rw\n"
    "damaged line\n";

}  // namespace

TEST_CASE("file system: the longest mount point of a path, and the last one mounted there") {
  const FileSystem nfs = file_system_of(kMounts, "/data/train/x.bin");
  CHECK(nfs.mount == "/data");
  CHECK(nfs.type == "nfs4");
  CHECK(nfs.source == "10.0.0.7:/ds");
  CHECK(file_system_words(nfs) == "/data (nfs4 10.0.0.7:/ds)");
  CHECK(file_system_of(kMounts, "/data").type == "nfs4");
  CHECK(file_system_of(kMounts, "/database/x").type == "ext4");
  CHECK(file_system_of(kMounts, "/data/my cache/x").source == "me@store:/c");
  CHECK(file_system_words(file_system_of(kMounts, "/stack/x")) == "/stack (fuse)");
  CHECK(file_system_of(kMounts, "x").empty());
  CHECK(file_system_of("", "/x").empty());
}

TEST_CASE("file system: who answers the requests") {
  CHECK(is_served(file_system_of(kMounts, "/data/x")));
  CHECK(is_served(file_system_of(kMounts, "/data/my cache/x")));
  CHECK(is_served(file_system_of(kMounts, "/stack/x")));
  CHECK_FALSE(is_served(file_system_of(kMounts, "/x")));
  CHECK_FALSE(is_virtual(file_system_of(kMounts, "/x")));
  CHECK(is_virtual(file_system_of(kMounts, "/dev/shm/x")));
  CHECK(is_virtual(FileSystem{}));
}

TEST_CASE("file system: requests without an answer, from mountstats") {
  constexpr std::string_view kStats =
      "device /dev/vda mounted on / with fstype ext4\n"
      "device 10.0.0.7:/ds mounted on /data with fstype nfs4 statvers=1.1\n"
      "\topts:\trw,vers=4.2\n"
      "\txprt:\ttcp 846 0 2 0 15 100 91 0 2000 0 2 5 9\n"
      "\txprt:\ttcp 847 0 2 0 15 50 47 0 2000 0 2 5 9\n"
      "device 10.0.0.8:/home mounted on /home with fstype nfs4 statvers=1.1\n"
      "\txprt:\ttcp 846 0 2 0 15 7 7 0 2000 0 2 5 9\n";
  CHECK(unanswered_requests(kStats, "/data") == 12);
  CHECK(unanswered_requests(kStats, "/home") == 0);
  CHECK(unanswered_requests(kStats, "/") == -1);
  CHECK(unanswered_requests("device x mounted on /data\n\txprt:\ttcp 1 2", "/data") == -1);
}
