#include "commands/burn/burned_device.h"

#include "common/base/hash.h"
#include "common/model/timing/cuda_types.h"

#include <fmt/format.h>

#include <algorithm>

namespace xpurun::launcher {

namespace {

constexpr size_t kLargeGpu = size_t{8} << 30;
constexpr size_t kMostCopy = size_t{1} << 30;
constexpr size_t kMostHashed = size_t{64} << 20;
constexpr unsigned kNoData = 0x5a5a5a5a;

// bf16 into fp32, with a sum as long as the memory allows: the longer, the more of the time is computing.
report::MatmulProblem burn_problem(size_t memory_bytes) {
  using namespace model::cuda_types;
  const int64_t side = memory_bytes >= kLargeGpu ? 4096 : 1024;
  const int64_t depth = 4 * side;
  report::MatmulProblem out;
  out.transpose_a = 1;
  out.m = side;
  out.n = side;
  out.k = depth;
  out.a = {kR16BF, depth, side};
  out.b = {kR16BF, depth, side};
  out.c = {kR32F, side, side};
  out.d = out.c;
  out.compute = kBurnCompute;
  out.scale_type = kR32F;
  out.accumulate = true;
  return out;
}

}  // namespace

base::Result<std::unique_ptr<BurnedDevice>> BurnedDevice::open(const vendor::Driver& driver,
                                                               const vendor::Blas& blas, const vendor::Lt& lt,
                                                               int index) {
  std::unique_ptr<BurnedDevice> out(new BurnedDevice);
  XPURUN_TRY_ASSIGN(out->gpu_, Gpu::open(driver, index));
  Gpu& gpu = *out->gpu_;
  XPURUN_TRY_ASSIGN(out->libraries_, MatmulLibraries::open(gpu, blas, lt));
  out->problem_ = burn_problem(gpu.facts().memory_bytes);
  XPURUN_TRY_ASSIGN(out->operands_, make_operands(gpu, out->problem_));
  XPURUN_TRY_ASSIGN(out->call_, out->libraries_->prepare(out->problem_, out->operands_));
  XPURUN_TRY_ASSIGN(out->seen_, HostBuffer::allocate(gpu, std::min(out->operands_.d.bytes(), kMostHashed)));
  return out;
}

BurnedDevice::~BurnedDevice() {
  if (gpu_ != nullptr) {
    gpu_->make_current();  // for the memory that goes
  }
}

double BurnedDevice::flop() const {
  return 2.0 * static_cast<double>(problem_.m) * static_cast<double>(problem_.n) *
         static_cast<double>(problem_.k);
}

base::Status BurnedDevice::check(int error, const char* doing) const {
  return error == 0 ? base::Status() : base::fail(fmt::format("{}: {}", doing, gpu_->words(error)));
}

base::Status BurnedDevice::clear_sum() {
  gpu_->make_current();
  return check(gpu_->driver().fill(operands_.d.address(), 0, operands_.d.bytes() / 4, gpu_->stream()),
               "clearing a matrix");
}

base::Result<uint64_t> BurnedDevice::hash_of(const GpuBuffer& buffer) {
  gpu_->make_current();
  const size_t bytes = std::min(buffer.bytes(), seen_.bytes().size());
  XPURUN_TRY(
      check(gpu_->driver().copy_out_async(seen_.bytes().data(), buffer.address(), bytes, gpu_->stream()),
            "copying data"));
  XPURUN_TRY(gpu_->wait());
  return base::hash_bytes(seen_.bytes().first(bytes));
}

base::Result<uint64_t> BurnedDevice::hash_of_sum() {
  return hash_of(operands_.d);
}

base::Result<uint64_t> BurnedDevice::hash_of_copy() {
  return hash_of(to_);
}

base::Result<uint64_t> BurnedDevice::hash_of_source() {
  return hash_of(from_);
}

base::Status BurnedDevice::prepare_copies(const std::vector<std::byte>& block) {
  gpu_->make_current();
  call_.reset();
  operands_ = MatmulOperands();
  const size_t bytes = std::min(gpu_->facts().memory_bytes / 8, kMostCopy) / 4096 * 4096;
  XPURUN_TRY_ASSIGN(from_, gpu_->allocate(bytes));
  XPURUN_TRY_ASSIGN(to_, gpu_->allocate(bytes));
  return gpu_->fill(from_, block);
}

base::Status BurnedDevice::copy_inside() {
  return check(gpu_->driver().copy_async(to_.address(), from_.address(), from_.bytes(), gpu_->stream()),
               "copying data");
}

base::Status BurnedDevice::copy_in(const HostBuffer& from) {
  return check(
      gpu_->driver().copy_in_async(to_.address(), from.bytes().data(), from.bytes().size(), gpu_->stream()),
      "copying data");
}

base::Status BurnedDevice::copy_out(const HostBuffer& to) {
  return check(
      gpu_->driver().copy_out_async(to.bytes().data(), from_.address(), to.bytes().size(), gpu_->stream()),
      "copying data");
}

base::Status BurnedDevice::copy_to(BurnedDevice& other) {
  const size_t bytes = std::min(from_.bytes(), other.to_.bytes());
  return check(gpu_->driver().copy_peer(other.to_.address(), other.gpu_->context(), from_.address(),
                                        gpu_->context(), bytes, gpu_->stream()),
               "copying data to another GPU");
}

base::Status BurnedDevice::clear_copy() {
  gpu_->make_current();
  XPURUN_TRY(
      check(gpu_->driver().fill(to_.address(), kNoData, to_.bytes() / 4, gpu_->stream()), "clearing memory"));
  return gpu_->wait();
}

}  // namespace xpurun::launcher
