#include "stackdump/memory/snapshot_file.h"

#include "common/base/bytes.h"
#include "common/base/hash.h"
#include "stackdump/memory/snapshot_memory.h"

#include <fmt/format.h>
#include <zstd.h>

#include <cstring>

namespace xpurun::stackdump {

namespace {

constexpr char kSnapshotMagic[8] = {'X', 'P', 'U', 'R', 'U', 'N', 'S', 'N'};
constexpr uint32_t kCompressed = 1;  // flag: the content is one zstd frame
constexpr int kLevel = 1;
constexpr size_t kPage = SnapshotMemory::kPageSize;

struct SnapshotHeader {
  char magic[8];
  uint32_t version;
  uint32_t flags;
  uint64_t size;      // of the content before compression
  uint64_t checksum;  // XXH3 of everything after the header
};

base::Result<SnapshotContent> parse(std::string_view in) {
  SnapshotContent out;
  uint64_t meta_size = 0;
  if (!base::take_bytes(in, meta_size) || meta_size > in.size()) {
    return base::fail("the snapshot is damaged (description)");
  }
  out.meta = std::string(in.substr(0, meta_size));
  in.remove_prefix(meta_size);
  uint64_t count = 0;
  if (!base::take_bytes(in, count) || count > in.size() / (sizeof(Addr) + kPage) ||
      in.size() != count * (sizeof(Addr) + kPage)) {
    return base::fail("the snapshot is damaged (pages)");
  }
  std::string_view data = in.substr(count * sizeof(Addr));
  for (uint64_t i = 0; i < count; ++i) {
    Addr a = 0;
    base::take_bytes(in, a);
    if (a % kPage != 0) {
      return base::fail("the snapshot is damaged (page address)");
    }
    out.pages.emplace(a, data.substr(i * kPage, kPage));
  }
  return out;
}

}  // namespace

std::string encode_snapshot(const SnapshotContent& content, SnapshotStorage storage) {
  std::string raw;
  base::append_bytes(raw, uint64_t{content.meta.size()});
  raw += content.meta;
  base::append_bytes(raw, uint64_t{content.pages.size()});
  for (const auto& [a, page] : content.pages) {
    base::append_bytes(raw, a);
  }
  for (const auto& [a, page] : content.pages) {
    raw.append(page, 0, kPage);
    raw.append(kPage - std::min(page.size(), kPage), '\0');
  }
  SnapshotHeader h{};
  std::memcpy(h.magic, kSnapshotMagic, sizeof kSnapshotMagic);
  h.version = kSnapshotVersion;
  h.size = raw.size();
  std::string stored;
  if (storage == SnapshotStorage::compressed) {
    stored.resize(ZSTD_compressBound(raw.size()));
    const size_t n = ZSTD_compress(stored.data(), stored.size(), raw.data(), raw.size(), kLevel);
    stored.resize(ZSTD_isError(n) == 0 ? n : 0);
  }
  if (stored.empty()) {
    stored = std::move(raw);
  } else {
    h.flags = kCompressed;
  }
  h.checksum = base::hash_text(stored);
  std::string out;
  base::append_bytes(out, h);
  return out + stored;
}

base::Result<SnapshotContent> decode_snapshot(std::string_view file, size_t max_size) {
  SnapshotHeader h{};
  if (!base::take_bytes(file, h) || std::memcmp(h.magic, kSnapshotMagic, sizeof kSnapshotMagic) != 0) {
    return base::fail("not an xpurun snapshot");
  }
  if (h.version != kSnapshotVersion) {
    return base::fail(
        fmt::format("the snapshot has format {}, this xpurun reads format {}", h.version, kSnapshotVersion));
  }
  if (h.checksum != base::hash_text(file)) {
    return base::fail("the snapshot is damaged or was cut short (checksum)");
  }
  if (h.size > max_size) {
    return base::fail("the snapshot is too large");
  }
  if ((h.flags & kCompressed) == 0) {
    return parse(file);
  }
  // The size in the frame is checked before memory for the claimed size is allocated.
  if (ZSTD_getFrameContentSize(file.data(), file.size()) != h.size) {
    return base::fail("the snapshot is damaged (size)");
  }
  std::string raw(h.size, '\0');
  if (ZSTD_decompress(raw.data(), raw.size(), file.data(), file.size()) != h.size) {
    return base::fail("the snapshot is damaged (compression)");
  }
  return parse(raw);
}

}  // namespace xpurun::stackdump
