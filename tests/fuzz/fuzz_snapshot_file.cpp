// Input: snapshot files and files of the symbol cache. Checksums would reject almost every input, so the
// content is
// wrapped in a valid file first: a description, which begins with a brace, with pages after the last NUL
// byte if any; or, after an 's', two numbers and entries of symbols; or any content of a snapshot
// file.
#include "common/base/hash.h"
#include "stackdump/memory/snapshot_file.h"
#include "stackdump/native/symbol_cache.h"
#include "stackdump/process_dump.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

using namespace xpurun::stackdump;

namespace {

constexpr std::string_view kBuildId = "ab";

template <typename T>
void put(std::string& file, size_t at, T value) {
  std::memcpy(file.data() + at, &value, sizeof value);
}

void read_symbols(std::string_view text) {
  // Magic, checksum, number of entries, size of the build id.
  std::string file = "XPSYM03\n" + std::string(16, '\0') + std::string(kBuildId);
  put(file, 20, uint32_t{kBuildId.size()});
  if (text.size() >= 2) {
    put(file, 16, static_cast<uint32_t>(static_cast<unsigned char>(text[0])));
    put(file, 20, static_cast<uint32_t>(static_cast<unsigned char>(text[1]) % 4));
    file += text.substr(2);
  }
  put(file, 8, xpurun::base::hash_text(std::string_view(file).substr(24)));
  const std::vector<SymbolRange> ranges = decode_symbols(file, std::string(kBuildId));
  if (!ranges.empty() && encode_symbols(ranges, std::string(kBuildId)) != file) {
    std::abort();
  }
}

void read_content(std::string_view text) {
  // Magic, version, flags, size, checksum.
  std::string file = "XPURUNSN" + std::string(24, '\0') + std::string(text);
  put(file, 8, kSnapshotVersion);
  put(file, 16, uint64_t{text.size()});
  put(file, 24, xpurun::base::hash_text(text));
  static_cast<void>(decode_snapshot(file));
  static_cast<void>(decode_snapshot(text));
}

void read_process(std::string_view text) {
  const size_t end = std::min(text.rfind('\0'), text.size());
  SnapshotContent content;
  content.meta = std::string(text.substr(0, end));
  for (size_t at = end; at < text.size(); at += SnapshotMemory::kPageSize) {
    content.pages[0x1000 * (1 + content.pages.size())] =
        std::string(text.substr(at, SnapshotMemory::kPageSize));
  }
  // Creating a compressor costs more than everything else.
  const auto storage = text.size() % 64 == 0 ? SnapshotStorage::compressed : SnapshotStorage::plain;
  auto dump = ProcessDump::load(encode_snapshot(content, storage), {.sysroot = "/nowhere"});
  if (dump) {
    ResolveSettings settings;
    settings.line_budget_ns = 0;
    (*dump)->resolve(settings);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (text.starts_with('{')) {
    read_process(text);
  } else if (text.starts_with('s')) {
    read_symbols(text.substr(1));
  } else {
    read_content(text);
  }
  return 0;
}
