#include "launcher/evidence/evidence_job.h"

#include "common/base/os/io.h"
#include "common/base/os/temporary_directory.h"
#include "common/model/evidence/evidence_manifest.h"
#include "common/model/evidence/gpu_state.h"
#include "common/model/evidence/kernel_events.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <sys/stat.h>
#include <sys/wait.h>

using namespace xpurun;
using namespace xpurun::launcher;
using model::EvidenceSource;
using model::EvidenceStatus;

namespace {

std::string from_environment(const char* name) {
  const char* value = std::getenv(name);
  REQUIRE(value != nullptr);
  return value;
}

struct Place {
  base::TemporaryDirectory directory = *base::TemporaryDirectory::create("xpurun-evidence");
  std::string dir = directory.path();
};

// Seconds from the limit to the kill. A helper that ends itself is never killed here, however slow its start.
constexpr double kNoKillS = 600;

// Runs a job to its end and returns how often it reported.
int collect(const EvidenceRequest& request, const std::string& program, double kill_after_limit_s = kNoKillS,
            bool reap_helpers = true) {
  auto loop = EventLoop::create();
  REQUIRE(loop);
  sigset_t mask;
  sigemptyset(&mask);
  int reported = 0;
  base::Pid helper = 0;
  EvidenceJob job({.loop = *loop,
                   .signal_mask = mask,
                   .started = [&](base::Pid pid) { helper = pid; },
                   .program = program,
                   .kill_after_limit_s = kill_after_limit_s});
  job.start(request, [&] {
    ++reported;
    loop->stop();
  });
  CHECK(job.busy());
  std::function<void()> reap = [&] {
    int status = 0;
    if (reap_helpers && helper > 0 && ::waitpid(helper, &status, WNOHANG) == helper) {
      CHECK(job.helper_ended(helper, base::WaitStatus(status)));
      helper = 0;
    }
    loop->after(0.005, reap);
  };
  reap();
  REQUIRE(loop->run());
  CHECK_FALSE(job.busy());
  if (helper > 0) {
    int status = 0;
    ::waitpid(helper, &status, 0);
  }
  return reported;
}

model::EvidencePart part(const std::string& dir, EvidenceSource source) {
  const auto manifest = model::load_evidence_manifest(dir + "/evidence.json");
  REQUIRE(manifest);
  for (const model::EvidencePart& p : manifest->parts) {
    if (p.source == source) {
      return p;
    }
  }
  FAIL("the source is not in the manifest");
  return {};
}

}  // namespace

TEST_CASE("evidence: the words of the helper") {
  const EvidenceRequest request{.directory = "/d",
                                .ranks = {{.rank = 3, .pid = 17}},
                                .limit_s = 1.5,
                                .since_us = 9,
                                .nvml = "",
                                .kernel_only = true};
  const auto parsed = parse_evidence_words(evidence_words(request));
  REQUIRE(parsed);
  CHECK(parsed->directory == "/d");
  CHECK(parsed->limit_s == 1.5);
  CHECK(parsed->since_us == 9);
  CHECK(parsed->kernel_only);
  REQUIRE(parsed->ranks.size() == 1);
  CHECK(parsed->ranks[0].rank == 3);
  CHECK(parsed->ranks[0].pid == 17);
  CHECK_FALSE(parse_evidence_words({std::string(kEvidenceRole), "/d"}));
  CHECK_FALSE(parse_evidence_words({std::string(kEvidenceRole), "/d", "1", "1", "", "all", "3"}));
  CHECK_FALSE(parse_evidence_words({std::string(kEvidenceRole), "/d", "x", "1", ""}));
}

TEST_CASE("evidence: the helper writes the data of every source") {
  const Place place;
  CHECK(collect({.directory = place.dir,
                 .ranks = {{.rank = 0, .pid = ::getpid()}},
                 .limit_s = 20,
                 .since_us = 0,
                 .nvml = from_environment("XPURUN_FAKE_NVML")},
                from_environment("XPURUN_PROGRAM")) == 1);
  CHECK(part(place.dir, EvidenceSource::gpu).status == EvidenceStatus::ok);
  const auto gpus = model::load_gpu_state(place.dir + "/gpu.json");
  REQUIRE(gpus);
  CHECK(gpus->devices.size() == 2);
  CHECK(part(place.dir, EvidenceSource::flight_recorder).status == EvidenceStatus::absent);
  const auto kernel = part(place.dir, EvidenceSource::kernel_log);
  CHECK((kernel.status == EvidenceStatus::ok) ==
        model::load_kernel_events(place.dir + "/kernel.json").has_value());
}

TEST_CASE("evidence: a blocked driver loses only its own part, and the limit holds") {
  const Place place;
  ::setenv("FAKE_NVML", "hang", 1);
  CHECK(collect({.directory = place.dir,
                 .ranks = {},
                 .limit_s = 3,
                 .since_us = 0,
                 .nvml = from_environment("XPURUN_FAKE_NVML")},
                from_environment("XPURUN_PROGRAM")) == 1);
  ::unsetenv("FAKE_NVML");
  const auto gpu = part(place.dir, EvidenceSource::gpu);
  CHECK(gpu.status == EvidenceStatus::timeout);
  CHECK(gpu.reason == "the time limit came first");
  CHECK(part(place.dir, EvidenceSource::kernel_log).status != EvidenceStatus::timeout);
  CHECK_FALSE(base::file_exists(place.dir + "/gpu.json"));
}

TEST_CASE("evidence: a missing GPU library is no failure") {
  const Place place;
  CHECK(
      collect(
          {.directory = place.dir, .ranks = {}, .limit_s = 20, .since_us = 0, .nvml = "libno-such-nvml.so.1"},
          from_environment("XPURUN_PROGRAM")) == 1);
  CHECK(part(place.dir, EvidenceSource::gpu).status == EvidenceStatus::absent);
}

TEST_CASE("evidence: a helper that does not end is given up after the limit") {
  const Place place;
  const std::string script = place.dir + "/helper";
  REQUIRE(base::write_file_atomic(script, "#!/bin/sh\nexec sleep 1000\n"));
  REQUIRE(::chmod(script.c_str(), 0700) == 0);
  CHECK(collect({.directory = place.dir, .ranks = {}, .limit_s = 0.1, .since_us = 0, .nvml = ""}, script, 0.1,
                false) == 1);
}

TEST_CASE("evidence: a helper that cannot be started is reported from the loop") {
  const Place place;
  CHECK(collect({.directory = place.dir, .ranks = {}, .limit_s = 20, .since_us = 0, .nvml = ""},
                place.dir + "/none") == 1);
}
