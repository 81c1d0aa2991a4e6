#include "common/model/stacks/file_system.h"
#include "tests/unit/diagnosis/job.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace xpurun;
using namespace xpurun::report;
using namespace xpurun::report::testing;
using model::Verdict;

namespace {

Stack in_read() {
  return {py("load_shard", "/home/u/train.py", 31, "f.read")};
}

model::ThreadStack blocked(char state = 'D') {
  model::ThreadStack t;
  t.state = state;
  t.syscall = "read";
  t.target = "/data/x";
  t.file_system = {.mount = "/data", .type = "nfs4", .source = "10.0.0.7:/ds", .unanswered = 3};
  return t;
}

void block(model::ThreadStack& t, const model::ThreadStack& how) {
  t.state = how.state;
  t.syscall = how.syscall;
  t.target = how.target;
  t.file_system = how.file_system;
  t.wchan = how.wchan;
}

bool ends_with_storage(const Verdict& v) {
  return v.sentence.find(
             "read() of /data/x waits for the file system /data (nfs4 10.0.0.7:/ds), whose server "
             "has not answered 3 requests") != std::string::npos;
}

}  // namespace

TEST_CASE("storage: a wait for a disk or a server, and waits that only look like one") {
  model::ThreadStack t = blocked();
  CHECK(model::waits_for_storage(t));
  t.state = 'S';  // FUSE and NFS can be waited for interruptibly
  CHECK(model::waits_for_storage(t));
  t.wchan = "wait_for_partner";  // the other end of a FIFO
  CHECK_FALSE(model::waits_for_storage(t));
  t = blocked('S');
  t.file_system = {.mount = "/", .type = "ext4", .source = "/dev/sda1"};
  CHECK_FALSE(model::waits_for_storage(t));
  t.state = 'D';
  CHECK(model::waits_for_storage(t));
  t.lock = {.kind = "flock", .path = "/data/x", .pids = {7}};
  CHECK_FALSE(model::waits_for_storage(t));
  t = blocked();
  t.file_system = {.mount = "/dev/shm", .type = "tmpfs", .source = "tmpfs"};
  CHECK_FALSE(model::waits_for_storage(t));
  t.file_system = {};
  CHECK_FALSE(model::waits_for_storage(t));
}

TEST_CASE("storage: the verdict of a hang names call, file, mount and server") {
  for (const char state : {'D', 'S'}) {
    CAPTURE(state);
    Job job(4);
    job.all(in_all_reduce()).rank(2, in_read(), 41).kernel_state(2, state).hang_dump();
    block(job.stacks_of(2).threads.front(), blocked(state));
    const Verdict v = diagnose(job.facts);
    CHECK(v.ranks == model::RankSet{2});
    CHECK_MESSAGE(ends_with_storage(v), v.sentence);
    CHECK(v.sentence.find("for 41 s") != std::string::npos);
    CHECK(v.next.command == "timeout 5 stat -f /data");
  }
}

TEST_CASE("storage: a thread that waits in memory adds nothing") {
  Job job(4);
  job.all(in_all_reduce()).rank(2, in_read(), 41).hang_dump();
  const Verdict v = diagnose(job.facts);
  CHECK(v.sentence.find("file system") == std::string::npos);
}

TEST_CASE("storage: the worker that a rank waits for") {
  constexpr base::Pid kWorker = 812;
  Job job(4);
  job.all(in_all_reduce()).rank(2, in_dataloader(), 41).worker(2, in_read()).hang_dump();
  job.seen(2).helpers = {{.pid = kWorker, .name = "python3", .python = true, .awaited = true, .still_s = 41}};
  auto& stacks = job.facts.stacks;
  const auto worker = std::find_if(stacks.begin(), stacks.end(),
                                   [](const auto& s) { return s.role == model::ProcessRole::worker; });
  REQUIRE(worker != stacks.end());
  worker->pid = kWorker;
  block(worker->threads.front(), blocked());
  const Verdict v = diagnose(job.facts);
  CHECK(v.ranks == model::RankSet{2});
  CHECK_MESSAGE(v.sentence.find("read() of /data/x in pid 812 waits for the file system /data (nfs4 "
                                "10.0.0.7:/ds)") != std::string::npos,
                v.sentence);
}

TEST_CASE("storage: a job that ended well while a file system was full") {
  const auto judged = [](double used) {
    Job job(2);
    job.ended(exited(0));
    model::MachineHistory machine;
    for (int i = 0; i < 3; ++i) {
      machine.add({.values = {{.fact = model::MachineFact::space,
                               .object = "/ckpt",
                               .value = i == 0 ? 0.5 : used,
                               .detail = "0 B of 30 GiB are free in /ckpt (ext4)"}},
                   .places = {},
                   .use = {}},
                  i * INT64_C(5'000'000'000));
    }
    job.facts.machines = {machine};
    return diagnose(job.facts);
  };
  const Verdict full = judged(1);
  CHECK(full.id == "none.finished");
  CHECK_MESSAGE(full.sentence.ends_with("; /ckpt is 100 % full (0 B of 30 GiB are free in /ckpt (ext4))"),
                full.sentence);
  CHECK(full.next.text.find("could not write") != std::string::npos);
  CHECK(judged(0.97).sentence.find("full") == std::string::npos);
}
