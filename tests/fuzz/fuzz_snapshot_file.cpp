// Snapshot files. The checksum would keep almost everything out, so the content is wrapped in a valid file
// first.
#include "stackdump/process_dump.h"
#include "stackdump/snapshot/snapshot_file.h"
#include "stackdump/symbols/symbol_cache.h"

#include <algorithm>

using namespace xpurun::stackdump;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  constexpr size_t kLimit = size_t{16} << 20;
  static_cast<void>(decode_snapshot(text, kLimit));
  decode_symbols(std::string(text), "ab");
  // Description, then pages, divided at the last NUL byte if there is one.
  const size_t end = std::min(text.rfind('\0'), text.size());
  SnapshotContent content;
  content.meta = std::string(text.substr(0, end));
  for (size_t at = end; at < text.size(); at += SnapshotMemory::kPageSize) {
    content.pages[0x1000 * (1 + content.pages.size())] =
        std::string(text.substr(at, SnapshotMemory::kPageSize));
  }
  auto dump = ProcessDump::load(encode_snapshot(content), {.sysroot = "/nowhere"});
  if (dump) {
    ResolveSettings settings;
    settings.line_budget_ns = 0;
    (*dump)->resolve(settings);
  }
  return 0;
}
