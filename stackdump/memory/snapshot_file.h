// The file format of a snapshot: the data copied from a process, for unwinding and naming later or elsewhere.
// docs/snapshot.md describes the format. Reading treats the file as untrusted: sizes are checked before
// anything is allocated, and a checksum covers all of it.
#pragma once

#include "common/base/result.h"
#include "stackdump/memory/remote_memory.h"

#include <map>
#include <string>

namespace xpurun::stackdump {

inline constexpr uint32_t kSnapshotVersion = 1;

struct SnapshotContent {
  std::string meta;                   // JSON
  std::map<Addr, std::string> pages;  // each SnapshotMemory::kPageSize bytes long, at a multiple of that
};

enum class SnapshotStorage { compressed, plain };  // plain: for tests, and if compression fails
std::string encode_snapshot(const SnapshotContent& content,
                            SnapshotStorage storage = SnapshotStorage::compressed);
// `max_size` limits the memory that the content may take, in bytes.
base::Result<SnapshotContent> decode_snapshot(std::string_view file, size_t max_size = size_t{512} << 20);

}  // namespace xpurun::stackdump
