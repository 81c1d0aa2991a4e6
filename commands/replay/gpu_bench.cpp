#include "commands/replay/gpu_bench.h"

#include "common/base/hash.h"
#include "common/wire/event_pair.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace xpurun::launcher {

namespace {

// Time for the host to launch a collective on all GPUs before the first one begins.
constexpr int kOverwritesBeforeCollective = 8;

base::Status check(int status, const char* function) {
  return status == 0 ? base::Status() : base::fail(fmt::format("{} fails with error {}", function, status));
}

}  // namespace

GpuMatmulBench::GpuMatmulBench(Gpu& gpu, MatmulLibraries& libraries)
    : gpu_(gpu), libraries_(libraries), reader_(gpu.facts().bus_id) {}

base::Status GpuMatmulBench::prepare(const report::MatmulProblem& problem) {
  gpu_.make_current();
  call_.reset();
  operands_ = MatmulOperands();
  XPURUN_TRY(gpu_.overwrite_cache(1));
  XPURUN_TRY_ASSIGN(operands_, make_operands(gpu_, problem));
  XPURUN_TRY_ASSIGN(call_, libraries_.prepare(problem, operands_));
  const auto measured = static_cast<double>(
      wire::matmul_pair_ns(gpu_.facts().compute_major, static_cast<uint8_t>(problem.a.type)));
  pair_ns_ = std::max(measured, gpu_.empty_pair_ns());
  return {};
}

base::Result<std::vector<double>> GpuMatmulBench::repeat(int calls, int overwrites) {
  for (int i = 0; i < calls; ++i) {
    XPURUN_TRY(gpu_.overwrite_cache(overwrites));
    XPURUN_TRY(gpu_.begin(static_cast<size_t>(i)));
    XPURUN_TRY(call_->run());
    XPURUN_TRY(gpu_.end(static_cast<size_t>(i)));
  }
  clock_ = reader_.read();
  XPURUN_TRY(gpu_.wait());
  std::vector<double> out;
  for (int i = 0; i < calls; ++i) {
    XPURUN_TRY_ASSIGN(const double ns, gpu_.elapsed_ns(static_cast<size_t>(i)));
    out.push_back(std::max(ns - pair_ns_, 0.0));
  }
  return out;
}

base::Result<std::unique_ptr<GpuCollectiveBench>> GpuCollectiveBench::open(const vendor::Driver& driver,
                                                                           const vendor::Nccl& nccl) {
  XPURUN_TRY_ASSIGN(const int count, Gpu::count(driver));
  if (count < 2) {
    return base::fail("collectives need two GPUs, this machine has one");
  }
  std::unique_ptr<GpuCollectiveBench> out(new GpuCollectiveBench(nccl));
  std::vector<int> devices;
  for (int i = 0; i < count; ++i) {
    XPURUN_TRY_ASSIGN(std::unique_ptr<Gpu> gpu, Gpu::open(driver, i));
    out->places_.push_back({.gpu = std::move(gpu)});
    devices.push_back(i);
  }
  std::vector<void*> comms(devices.size());
  XPURUN_TRY(check(nccl.init_all(comms.data(), count, devices.data()), "ncclCommInitAll"));
  for (size_t i = 0; i < comms.size(); ++i) {
    out->places_[i].comm = comms[i];
  }
  return out;
}

GpuCollectiveBench::~GpuCollectiveBench() {
  for (Place& place : places_) {
    place.gpu->make_current();
    place.send = GpuBuffer();
    place.receive = GpuBuffer();
    if (place.comm != nullptr) {
      nccl_.destroy(place.comm);
    }
  }
}

std::string GpuCollectiveBench::version() const {
  int version = 0;
  return nccl_.version(&version) == 0
             ? fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100)
             : std::string();
}

base::Status GpuCollectiveBench::prepare(const report::CollectiveProblem& problem) {
  problem_ = problem;
  for (Place& place : places_) {
    place.gpu->make_current();
    place.send = GpuBuffer();
    place.receive = GpuBuffer();
    XPURUN_TRY_ASSIGN(place.send, place.gpu->allocate(problem.send_bytes));
    XPURUN_TRY_ASSIGN(place.receive, place.gpu->allocate(problem.receive_bytes));
    // Numbers around one in every floating-point type; their value does not matter to NCCL's speed.
    XPURUN_TRY(place.gpu->fill(place.send, std::vector<std::byte>(4096, std::byte{0x3f})));
    XPURUN_TRY(place.gpu->overwrite_cache(1));
  }
  return {};
}

int GpuCollectiveBench::call(const Place& place) const {
  const report::CollectiveProblem& p = problem_;
  const void* send = place.send.pointer();
  void* receive = place.receive.pointer();
  void* stream = place.gpu->stream();
  switch (p.api) {
    case wire::Api::ncclAllGather:
      return nccl_.all_gather(send, receive, p.count, p.type, place.comm, stream);
    case wire::Api::ncclReduceScatter:
      return nccl_.reduce_scatter(send, receive, p.count, p.type, p.reduction, place.comm, stream);
    case wire::Api::ncclReduce:
      return nccl_.reduce(send, receive, p.count, p.type, p.reduction, 0, place.comm, stream);
    case wire::Api::ncclBroadcast:
    case wire::Api::ncclBcast:
      return nccl_.broadcast(send, receive, p.count, p.type, 0, place.comm, stream);
    default:
      return nccl_.all_reduce(send, receive, p.count, p.type, p.reduction, place.comm, stream);
  }
}

base::Result<std::vector<uint64_t>> GpuCollectiveBench::hashes(size_t most) {
  std::vector<uint64_t> out;
  for (const Place& place : places_) {
    place.gpu->make_current();
    std::vector<std::byte> bytes(std::min(most, place.receive.bytes()));
    XPURUN_TRY(check(place.gpu->driver().copy_out_async(bytes.data(), place.receive.address(), bytes.size(),
                                                        place.gpu->stream()),
                     "cuMemcpyDtoHAsync"));
    XPURUN_TRY(place.gpu->wait());
    out.push_back(base::hash_bytes(bytes));
  }
  return out;
}

base::Status GpuCollectiveBench::launch() {
  XPURUN_TRY(check(nccl_.group_start(), "ncclGroupStart"));
  for (const Place& place : places_) {
    XPURUN_TRY(check(call(place), "a collective of NCCL"));
  }
  return check(nccl_.group_end(), "ncclGroupEnd");
}

base::Result<std::vector<double>> GpuCollectiveBench::repeat(int calls) {
  for (int i = 0; i < calls; ++i) {
    for (const Place& place : places_) {
      place.gpu->make_current();
      XPURUN_TRY(place.gpu->overwrite_cache(kOverwritesBeforeCollective));
      XPURUN_TRY(place.gpu->begin(static_cast<size_t>(i)));
    }
    XPURUN_TRY(launch());
    for (const Place& place : places_) {
      place.gpu->make_current();
      XPURUN_TRY(place.gpu->end(static_cast<size_t>(i)));
    }
  }
  std::vector<double> out(static_cast<size_t>(calls), std::numeric_limits<double>::max());
  for (const Place& place : places_) {
    place.gpu->make_current();
    XPURUN_TRY(place.gpu->wait());
    for (size_t i = 0; i < out.size(); ++i) {
      XPURUN_TRY_ASSIGN(const double ns, place.gpu->elapsed_ns(i));
      out[i] = std::min(out[i], std::max(ns - place.gpu->empty_pair_ns(), 1.0));
    }
  }
  return out;
}

}  // namespace xpurun::launcher
