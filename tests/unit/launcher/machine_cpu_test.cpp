// Who had the CPUs of a rank: context switches, looks at /proc, whose the processes are.
#include "launcher/machine/cpu/cpu_looks.h"
#include "launcher/machine/cpu/cpu_switches.h"
#include "launcher/machine/cpu/cpu_takers.h"
#include "launcher/machine/cpu/cpu_watch.h"
#include "tests/unit/launcher/fake_host.h"

#include <doctest/doctest.h>

#include <cstring>
#include <linux/perf_event.h>
#include <vector>

using namespace xpurun;
using namespace xpurun::launcher;
using model::CpuRelation;
using test::FakeHost;

namespace {

constexpr base::Pid kJob = 100;
constexpr base::Pid kRankPid = 110;
constexpr base::Pid kOtherPid = 111;
constexpr base::Pid kHog = 200;
constexpr int64_t kSec = 1'000'000'000;

// A line of /proc/PID/stat: a process that has used `ticks` and ran on `cpu` last.
std::string process_line(base::Pid pid, const std::string& comm, base::Pid parent, int ticks, int cpu,
                         char state = 'R') {
  std::string out = fmt::format("{} ({}) {} {}", pid, comm, state, parent);
  for (int field = 5; field <= 52; ++field) {
    out += field == 14   ? fmt::format(" {}", ticks)
           : field == 20 ? " 1"
           : field == 39 ? fmt::format(" {}", cpu)
                         : " 0";
  }
  return out;
}

void put(FakeHost& host, base::Pid pid, const std::string& comm, base::Pid parent, int ticks, int cpu) {
  host.proc(fmt::format("{}/stat", pid), process_line(pid, comm, parent, ticks, cpu))
      .proc(fmt::format("{0}/task/{0}/stat", pid), process_line(pid, comm, parent, ticks, cpu));
}

void delayed(FakeHost& host, base::Pid pid, int64_t ns) {
  host.proc(fmt::format("{0}/task/{0}/schedstat", pid), fmt::format("5 {} 7\n", ns));
}

// Records of a ring buffer.
class Records {
 public:
  Records& leaves(int pid, int next, uint64_t at) {
    begin(PERF_RECORD_SWITCH_CPU_WIDE, PERF_RECORD_MISC_SWITCH_OUT, 24 + sizeof(perf_event_header));
    number<int32_t>(next).number<int32_t>(next).number<int32_t>(pid).number<int32_t>(pid);
    return number<uint64_t>(at);
  }
  Records& lost() {
    begin(PERF_RECORD_LOST, 0, 16 + sizeof(perf_event_header));
    return number<uint64_t>(1).number<uint64_t>(9);
  }
  Records& named(int pid, const char (&name)[8]) {
    begin(PERF_RECORD_COMM, 0, 16 + sizeof(perf_event_header));
    number<int32_t>(pid).number<int32_t>(pid);
    const auto* bytes = reinterpret_cast<const std::byte*>(name);
    bytes_.insert(bytes_.end(), bytes, bytes + 8);
    return *this;
  }
  Records& forked(int pid, int parent) {
    begin(PERF_RECORD_FORK, 0, 8 + sizeof(perf_event_header));
    return number<int32_t>(pid).number<int32_t>(parent);
  }
  Records& cut(size_t bytes) {
    bytes_.resize(bytes_.size() - bytes);
    return *this;
  }
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  template <typename T>
  Records& number(T value) {
    std::byte raw[sizeof(T)];
    std::memcpy(raw, &value, sizeof(T));
    bytes_.insert(bytes_.end(), raw, raw + sizeof(T));
    return *this;
  }
  void begin(uint32_t type, uint16_t misc, size_t size) {
    number<uint32_t>(type).number<uint16_t>(misc).number<uint16_t>(static_cast<uint16_t>(size));
  }

  std::vector<std::byte> bytes_;
};

}  // namespace

TEST_CASE("switches: the time between two switches is the process's that leaves") {
  SwitchSums sums(1000 * kSec);
  sums.take(0, Records()
                   .leaves(7, 8, 1000 * kSec + kSec / 2)  // 7 has run since the begin
                   .leaves(8, 0, 1000 * kSec + kSec)
                   .leaves(0, 7, 1000 * kSec + 3 * kSec / 2)  // idle
                   .bytes());
  sums.take(3, Records().leaves(9, 7, 1000 * kSec + kSec).bytes());
  const CpuTimes times = sums.until(1002 * kSec);
  CHECK(times.on(7, {0}) == doctest::Approx(1.0));  // 0.5 s, and the last 0.5 s
  CHECK(times.on(8, {0}) == doctest::Approx(0.5));
  CHECK(times.on(7, {0, 3}) == doctest::Approx(2.0));
  CHECK(times.on(9, {3}) == doctest::Approx(1.0));
  CHECK(times.on(9, {0}) == 0);
  CHECK(times.seconds.count(0) == 0);
}

TEST_CASE("switches: after lost records nobody is blamed for the gap") {
  SwitchSums sums(kSec);
  sums.take(0, Records().leaves(7, 8, 2 * kSec).lost().leaves(9, 7, 5 * kSec).bytes());
  const CpuTimes times = sums.until(6 * kSec);
  CHECK(times.on(8, {0}) == 0);
  CHECK(times.on(9, {0}) == 0);
  CHECK(times.on(7, {0}) == doctest::Approx(2.0));
}

TEST_CASE("switches: names and parents of processes that have ended, and records that are cut off") {
  SwitchSums sums(kSec);
  sums.take(0, Records().forked(30, 20).named(30, "cc1plus").leaves(30, 0, 2 * kSec).bytes());
  sums.take(0, Records().leaves(5, 6, 3 * kSec).cut(5).bytes());
  const CpuTimes times = sums.until(3 * kSec);
  CHECK(times.seen.at(30).command == "cc1plus");
  CHECK(times.seen.at(30).parent == 20);
  CHECK(times.on(30, {0}) == doctest::Approx(1.0));
  CHECK(times.on(5, {0}) == 0);
}

TEST_CASE("switches: a process is named while it lives, and one that nobody knows blames nobody") {
  FakeHost host;
  put(host, 7, "short", kJob, 0, 0);
  SwitchSums sums(kSec);
  sums.take(0, Records().leaves(7, 8, 2 * kSec).leaves(8, 0, 3 * kSec).bytes());
  sums.name_new(host.files().proc());
  const CpuTimes times = sums.until(3 * kSec);
  CHECK(times.seen.at(7).command == "short");
  FakeHost later;  // both have ended
  put(later, kRankPid, "python3", 1, 0, 0);
  CpuTakers takers(later.files().proc(), kJob, {{.rank = 0, .local_rank = 0, .pid = kRankPid}}, times);
  const auto found = takers.of({.rank = 0, .pid = kRankPid, .cpus = {0}, .watched_s = 2, .ready_s = 1});
  REQUIRE(found.size() == 1);
  CHECK(found[0].pid == 7);
  CHECK(found[0].relation == CpuRelation::job);
}

TEST_CASE("looks: the time of a thread belongs to the CPU that it was seen on") {
  FakeHost host;
  put(host, kHog, "stress-ng", 1, 1000, 2);
  put(host, 201, "sleeper", 1, 5, 2);
  CpuLooks looks(host.files().proc(), 10 * kSec);
  looks.look(10 * kSec + kSec / 2, kSec);
  CHECK(looks.covered_s(10 * kSec + kSec / 2) == 0);
  put(host, kHog, "stress-ng", 1, 1095, 2);
  looks.look(11 * kSec, kSec);
  put(host, kHog, "stress-ng", 1, 1095 + 40, 2);
  looks.look(11 * kSec + kSec / 2, kSec);
  put(host, kHog, "stress-ng", 1, 1095 + 70, 3);
  put(host, 201, "sleeper", 1, 50, 2);  // was idle when the processes were chosen
  looks.look(12 * kSec, kSec);
  CHECK(looks.covered_s(12 * kSec) == doctest::Approx(1.0));
  const double tick = base::ticks_to_s(1);
  CHECK(looks.times().on(kHog, {2}) == doctest::Approx(40 * tick));
  CHECK(looks.times().on(kHog, {2, 3}) == doctest::Approx(70 * tick));
  CHECK(looks.times().on(201, {2}) == 0);
  CHECK(looks.times().seen.at(kHog).command == "stress-ng");
}

TEST_CASE("control groups: version 2, version 1, and the root") {
  CHECK(control_group("0::/user.slice/a\n") == "/user.slice/a");
  CHECK(control_group("9:name=systemd:/\n4:memory:/box\n0::/\n") == "/box");
  CHECK(control_group("4:memory:/box\n0::/v2\n") == "/v2");
  CHECK(control_group("0::/\n").empty());
  CHECK(control_group("").empty());
}

TEST_CASE("takers: strangers, ranks, the rank's own and the job's processes are told apart") {
  FakeHost host;
  put(host, kJob, "xpurun", 1, 0, 0);
  put(host, 105, "torchrun", kJob, 0, 0);
  put(host, kRankPid, "python3", 105, 0, 0);
  put(host, kOtherPid, "python3", 105, 0, 0);
  put(host, 112, "pt_data_worker", kRankPid, 0, 0);
  put(host, 113, "pt_data_worker", kOtherPid, 0, 0);
  put(host, kHog, "stress-ng", 1, 0, 0);
  put(host, 201, "stress-ng", 1, 0, 0);
  put(host, 202, "node9rank", 1, 0, 0);
  host.proc("200/cgroup", "0::/user.slice\n").proc("201/cgroup", "0::/user.slice\n");
  const std::string rendezvous("MASTER_ADDR=a\0MASTER_PORT=29500\0", 33);
  host.proc("110/environ", rendezvous).proc("202/environ", rendezvous);
  CpuTimes times;
  times.seconds = {{kRankPid, {{0, 0.1}}}, {105, {{0, 0.1}}},  {kOtherPid, {{0, 0.15}}},
                   {112, {{0, 0.2}}},      {113, {{1, 1.9}}},  {kHog, {{0, 0.5}}},
                   {201, {{0, 0.3}}},      {202, {{0, 0.12}}}, {203, {{0, 0.01}}}};
  const std::vector<WatchedRank> ranks = {{.rank = 0, .local_rank = 0, .pid = kRankPid},
                                          {.rank = 1, .local_rank = 1, .pid = kOtherPid}};
  CpuTakers takers(host.files().proc(), kJob, ranks, times);
  const auto found =
      takers.of({.rank = 0, .pid = kRankPid, .cpus = {0}, .watched_s = 2, .ready_s = 1.5, .unseen_s = 0.1});
  REQUIRE(found.size() == 4);
  CHECK(found[0].relation == CpuRelation::stranger);
  CHECK(found[0].pid == kHog);
  CHECK(found[0].command == "stress-ng");
  CHECK(found[0].group == "/user.slice");
  CHECK(found[0].processes == 2);
  CHECK(found[0].share() == doctest::Approx(0.4));
  CHECK(found[0].ready_s == 1.5);
  CHECK(found[1].relation == CpuRelation::own);
  CHECK(found[1].pid == 112);
  CHECK(found[2].relation == CpuRelation::other_rank);
  CHECK(found[2].owner == 1);
  CHECK(found[2].pid == kOtherPid);
  CHECK(found[3].relation == CpuRelation::job);  // of another xpurun in the same rendezvous
  CHECK(found[3].pid == 202);
}

TEST_CASE("takers: time that no visible process explains") {
  FakeHost host;
  put(host, kRankPid, "python3", 1, 0, 0);
  const CpuTimes times;
  CpuTakers takers(host.files().proc(), kJob, {{.rank = 0, .local_rank = 0, .pid = kRankPid}}, times);
  const auto found =
      takers.of({.rank = 0, .pid = kRankPid, .cpus = {0, 1}, .watched_s = 2, .ready_s = 1, .unseen_s = 3});
  REQUIRE(found.size() == 1);
  CHECK(found[0].relation == CpuRelation::unseen);
  CHECK(found[0].pid == 0);
  CHECK(found[0].share() == doctest::Approx(0.75));
}

TEST_CASE("cpu watch: nothing is looked at while the ranks get their CPUs") {
  FakeHost host;
  put(host, kRankPid, "python3", 1, 0, 0);
  put(host, kHog, "stress-ng", 1, 0, 0);
  host.proc("110/status", "Cpus_allowed_list:\t0\n").proc("self/ns/pid", "");
  const std::vector<WatchedRank> ranks = {{.rank = 3, .local_rank = 0, .pid = kRankPid}};
  CpuWatch watch({.job = kJob, .switches = false});
  for (int second = 2; second < 20; second += 2) {
    delayed(host, kRankPid, 1'000'000 * second);  // 1 ms a second
    put(host, kHog, "stress-ng", 1, 200 * second, 0);
    CHECK(watch.turn(host.files().proc(), ranks, second * kSec) == 2000);
  }
  model::MachineReading reading;
  watch.read(reading);
  CHECK(reading.intruders.empty());
  REQUIRE(test::value_of(reading, model::MachineFact::no_cpu, "cpus 0") != nullptr);
  CHECK(test::value_of(reading, model::MachineFact::no_cpu, "cpus 0")->value == doctest::Approx(16'000));
}

TEST_CASE("cpu watch: who has the CPUs of a rank that is ready, and for how long it is ready") {
  FakeHost host;
  put(host, kRankPid, "python3", 1, 0, 0);
  put(host, kHog, "stress-ng", 1, 0, 0);
  host.proc("110/status", "Cpus_allowed_list:\t0\n");
  const std::vector<WatchedRank> ranks = {{.rank = 3, .local_rank = 0, .pid = kRankPid}};
  CpuWatch watch({.job = kJob, .switches = false});
  const int ticks_a_second = static_cast<int>(1 / base::ticks_to_s(1));
  model::MachineReading reading;
  int windows = 0;
  for (int tenth = 20; tenth < 100; ++tenth) {  // the rank is ready for 60 % of the time
    const base::MonoNs now = tenth * kSec / 10;
    delayed(host, kRankPid, 6 * now / 10);
    put(host, kHog, "stress-ng", 1, ticks_a_second * tenth * 9 / 100, 0);
    windows += watch.turn(host.files().proc(), ranks, now) < 1000 ? 1 : 0;
  }
  watch.read(reading);
  CHECK(windows > 0);
  REQUIRE_FALSE(reading.intruders.empty());
  const model::Intruder& hog = reading.intruders.front();
  CHECK(hog.rank == 3);
  CHECK(hog.pid == kHog);
  CHECK(hog.relation == CpuRelation::stranger);
  CHECK(hog.share() == doctest::Approx(0.9).epsilon(0.03));
  CHECK(hog.ready_s / hog.watched_s == doctest::Approx(0.6).epsilon(0.02));
  const auto* ready = test::value_of(reading, model::MachineFact::no_cpu, "cpus 0");
  REQUIRE(ready != nullptr);
  // Of 7.9 s, of which the last look may leave out two.
  CHECK(ready->value >= 0.6 * 5.9e6);
  CHECK(ready->value <= 0.6 * 7.9e6);
  model::MachineReading next;
  watch.read(next);
  CHECK(next.intruders.empty());
}

TEST_CASE("run delay: the sum of all threads, and the thread that waited longest since the last look") {
  FakeHost host;
  host.proc("110/task/110/schedstat", "1 1000 1").proc("110/task/115/schedstat", "1 5000 1");
  RunDelay delay(kRankPid, host.files().proc());
  auto look = delay.look();
  REQUIRE(look);
  CHECK(look->all_ns == 6000);
  CHECK(look->worst_ns == 0);
  host.proc("110/task/110/schedstat", "1 1500 1").proc("110/task/115/schedstat", "1 7000 1");
  host.proc("110/task/116/schedstat", "1 9000 1");  // a new thread brings its past
  look = delay.look();
  REQUIRE(look);
  CHECK(look->all_ns == 17500);
  CHECK(look->worst_ns == 2000);
  CHECK_FALSE(RunDelay(kHog, host.files().proc()).look());
}
