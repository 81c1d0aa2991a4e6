#include "launcher/os/sealed_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

namespace xpurun::launcher {

base::Result<SealedMemory> SealedMemory::create(const char* name, size_t bytes, const std::string& what) {
  SealedMemory out;
  out.fd_ = base::UniqueFd(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!out.fd_ || ::ftruncate(out.fd_.get(), static_cast<off_t>(bytes)) != 0) {
    return base::fail_errno("cannot create " + what);
  }
  if (::fcntl(out.fd_.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return base::fail_errno("cannot seal " + what);
  }
  void* mapped = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, out.fd_.get(), 0);
  if (mapped == MAP_FAILED) {
    return base::fail_errno("cannot map " + what);
  }
  out.data_ = mapped;
  out.bytes_ = bytes;
  return out;
}

SealedMemory::SealedMemory(SealedMemory&& other) noexcept
    : fd_(std::move(other.fd_)), data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}

SealedMemory& SealedMemory::operator=(SealedMemory&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

SealedMemory::~SealedMemory() {
  if (data_ != nullptr) {
    ::munmap(data_, bytes_);
  }
}

}  // namespace xpurun::launcher
