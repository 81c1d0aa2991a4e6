#include "common/base/os/mapping.h"

#include "common/base/os/io.h"

#include <fmt/format.h>

#include <sys/mman.h>
#include <sys/stat.h>
#include <utility>

namespace xpurun::base {

Mapping::~Mapping() {
  if (data_ != nullptr) {
    ::munmap(data_, size_);
  }
}

Mapping::Mapping(Mapping&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

Result<Mapping> Mapping::open_file(const std::string& path) {
  XPURUN_TRY_ASSIGN(UniqueFd fd, open_read(path));
  struct stat st {};
  if (::fstat(fd.get(), &st) != 0) {
    return fail_errno(fmt::format("cannot stat {}", path));
  }
  Mapping m;
  // mmap() of length 0 fails with EINVAL.
  if (st.st_size == 0) {
    return m;
  }
  void* p = ::mmap(nullptr, static_cast<size_t>(st.st_size), PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (p == MAP_FAILED) {
    return fail_errno(fmt::format("cannot map {}", path));
  }
  m.data_ = p;
  m.size_ = static_cast<size_t>(st.st_size);
  return m;
}

void Mapping::forget_pages() const {
  if (data_ != nullptr) {
    ::madvise(data_, size_, MADV_DONTNEED);
  }
}

}  // namespace xpurun::base
