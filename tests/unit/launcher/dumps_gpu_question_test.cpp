#include "common/base/os/io.h"
#include "launcher/dumps/gpu_question.h"

#include <doctest/doctest.h>

#include <array>

using namespace xpurun;
using namespace xpurun::launcher;
using model::GpuStacks;
using report::CallFault;
using report::CallFinding;

namespace {

CallFinding fault_of_rank_1(CallFault fault) {
  CallFinding out;
  out.fault = fault;
  out.accused = {1};
  out.waiting = {0, 2};
  return out;
}

}  // namespace

TEST_CASE("gpu question: without an explanation by the calls every rank is asked") {
  CHECK(gpu_question(GpuStacks::automatic, std::nullopt, 0, false) == GpuStacks::automatic);
  CHECK(gpu_question(GpuStacks::automatic, fault_of_rank_1(CallFault::size), base::kNoRank, false) ==
        GpuStacks::automatic);
}

TEST_CASE("gpu question: different calls need no answer of a GPU") {
  for (const CallFault fault : {CallFault::operation, CallFault::root, CallFault::type, CallFault::size,
                                CallFault::swapped, CallFault::message, CallFault::order}) {
    CHECK(gpu_question(GpuStacks::automatic, fault_of_rank_1(fault), 0, false) == GpuStacks::never);
    CHECK(gpu_question(GpuStacks::automatic, fault_of_rank_1(fault), 1, false) == GpuStacks::never);
  }
}

TEST_CASE("gpu question: of a missing rank only that rank's kernels matter") {
  for (const CallFault fault : {CallFault::not_entered, CallFault::not_sent, CallFault::not_received}) {
    CHECK(gpu_question(GpuStacks::automatic, fault_of_rank_1(fault), 0, false) == GpuStacks::never);
    CHECK(gpu_question(GpuStacks::automatic, fault_of_rank_1(fault), 1, false) == GpuStacks::automatic);
  }
}

TEST_CASE("gpu question: work that the GPUs have not ended needs the kernels of all") {
  for (const CallFault fault :
       {CallFault::not_launched, CallFault::queued, CallFault::not_finished, CallFault::all_entered}) {
    CHECK(gpu_question(GpuStacks::automatic, fault_of_rank_1(fault), 0, false) == GpuStacks::automatic);
    CHECK(gpu_question(GpuStacks::automatic, fault_of_rank_1(fault), 1, false) == GpuStacks::automatic);
  }
}

TEST_CASE("gpu question: always and never do not depend on the calls") {
  CHECK(gpu_question(GpuStacks::always, fault_of_rank_1(CallFault::size), 0, false) == GpuStacks::always);
  CHECK(gpu_question(GpuStacks::never, std::nullopt, 0, false) == GpuStacks::never);
}

TEST_CASE("gpu question: ranks that share a GPU are not asked unless the user wants it") {
  CHECK(gpu_question(GpuStacks::automatic, std::nullopt, 0, true) == GpuStacks::never);
  CHECK(gpu_question(GpuStacks::always, std::nullopt, 0, true) == GpuStacks::always);
}

TEST_CASE("gpu question: a GPU is shared if the driver lists another process on it") {
  CHECK_FALSE(shares_gpu({}, 10));
  CHECK_FALSE(shares_gpu({{10}, {11}}, 10));
  CHECK(shares_gpu({{10, 77}, {11}}, 10));
  CHECK_FALSE(shares_gpu({{10, 77}, {11}}, 11));
  CHECK(shares_gpu({{10}, {10, 11}}, 10));  // the rank uses both
  // The driver numbers the processes of a container otherwise.
  CHECK(shares_gpu({{4010, 4077}, {4011}}, 11));
  CHECK_FALSE(shares_gpu({{4010}, {4011}}, 10));
}

TEST_CASE("gpu question: the GPUs are the numbered device files") {
  REQUIRE(base::make_dirs("devices"));
  for (const char* name : {"nvidia0", "nvidia1", "nvidia12", "nvidiactl", "nvidia-uvm", "null"}) {
    REQUIRE(base::write_file_atomic(std::string("devices/") + name, ""));
  }
  CHECK(gpus_of_host("devices") == 3);
  CHECK(gpus_of_host("no-devices") == 0);
}
