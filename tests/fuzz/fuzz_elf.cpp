// Input: ELF files: headers, notes, symbols, unwind tables, and unwinding with these tables.
#include "stackdump/memory/live_memory.h"
#include "stackdump/native/debug_files.h"
#include "stackdump/native/eh_frame.h"
#include "stackdump/native/unwinder.h"

#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

using namespace xpurun::stackdump;

namespace {

// Unwinds from some addresses in the image, as if it were mapped at its own addresses.
void unwind_in(std::span<const std::byte> file) {
  static const int fd = ::memfd_create("fuzz", MFD_CLOEXEC);
  if (::ftruncate(fd, 0) != 0 || ::pwrite(fd, file.data(), file.size(), 0) < 0) {
    return;
  }
  static const std::string sysroot = "/proc/self/fd/";
  LiveMemory none(0);
  SnapshotMemory memory(none);
  memory.freeze();
  std::vector<std::byte> page(SnapshotMemory::kPageSize);
  for (size_t i = 0; i < page.size(); ++i) {
    page[i] = file[i % file.size()];
  }
  constexpr Addr kStack = 0x7ff000;
  memory.put(kStack, page);
  memory.put(kStack + SnapshotMemory::kPageSize, page);
  std::vector<Mapping> maps(2);
  maps[0] = {.lo = 0x10000,
             .hi = 0x200000,
             .readable = true,
             .executable = true,
             .inode = 1,
             .path = '/' + std::to_string(fd)};
  maps[1] = {.lo = kStack, .hi = kStack + 2 * SnapshotMemory::kPageSize, .readable = true, .writable = true};
  ModuleList modules({.sysroot = sysroot}, ProcMaps(std::move(maps)), memory);
  NativeUnwinder unwinder(modules, memory);
  for (const uint64_t pc : {0x10040UL, 0x11000UL, 0x11010UL, 0x12345UL}) {
    Registers r;
    r.r[Registers::kRip] = pc;
    r.r[Registers::kRsp] = kStack + 256;
    r.r[Registers::kRbp] = kStack + 512;
    r.complete = true;
    unwinder.unwind(r, {kStack, kStack + 2 * SnapshotMemory::kPageSize});
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  convert_debug_frame(bytes);
  index_eh_frame(bytes, 0x1000);
  const auto image = ElfImage::from_bytes({bytes.begin(), bytes.end()}, size % 2 == 0 ? 0 : 0x7f0000000000);
  if (!image) {
    return 0;
  }
  size_t length = 0;
  image->for_each_symbol([&](const ElfSymbol& s) { length += s.name().size(); });
  image->find_symbol("main");
  image->build_id();
  image->at_vaddr(length);
  find_unwind_table(*image);
  find_debug_frame(*image);
  find_debug_file({}, "/no/such/file", *image);
  unwind_in(bytes);
  return 0;
}
