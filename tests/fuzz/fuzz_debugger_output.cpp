// Input: output of gdb and cuda-gdb, including symbol names.
#include "stackdump/debuggers/cuda_gdb.h"
#include "stackdump/debuggers/gdb_stacks.h"
#include "stackdump/native/symbolizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace xpurun::stackdump;
  const std::string text(reinterpret_cast<const char*>(data), size);
  parse_gdb_backtrace(text);
  parse_cuda_kernels(text);
  shorten(text);
  demangle("_Z" + text);
  return 0;
}
