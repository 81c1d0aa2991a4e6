// The archive of what a node sends after a dump: for each file one line of JSON {"path","size"} and the
// bytes, all of it packed by zstd. The reader trusts nothing: paths are relative without "..", only new plain
// files are written, numbers and sizes are limited (node_limits.h). Blocking file operations: not for the
// thread of the event loop.
#pragma once

#include "common/base/result.h"
#include "launcher/nodes/node_limits.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace xpurun::nodes {

struct ArchiveFile {
  std::string path;  // relative to the run directory
  std::string bytes;
};

std::string pack_files(const std::vector<ArchiveFile>& files);
// `most`: bytes, unpacked.
base::Result<std::vector<ArchiveFile>> unpack_files(std::string_view archive,
                                                    size_t most = launcher::kMostUnpackedBytes);
// Whether such a path may be written below a directory.
bool safe_path(std::string_view path);

struct ArchiveContent {
  std::string run_directory;
  std::string dump;  // relative; may be empty
  bool all = false;  // snapshots and logs too
};
// run.json and the files of the dump that a report needs. Files that cannot be read, or are beyond a limit,
// are left out; `left_out` counts them.
std::string pack_dump(const ArchiveContent& content, size_t& left_out);
std::vector<ArchiveFile> files_of_dump(const ArchiveContent& content, size_t& left_out);

// Writes the files below `directory`. Files that an earlier archive of the same node has left there are
// replaced.
base::Status unpack_into(const std::string& directory, std::string_view archive);
base::Status write_files(const std::string& directory, const std::vector<ArchiveFile>& files);

}  // namespace xpurun::nodes
