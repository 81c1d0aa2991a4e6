// Files that the job wrote outside of the run directory. They are read once, when the run has ended, and kept
// in the run directory, so that a later report, or a report on another host, has the same content.
#pragma once

#include "common/model/run_dir.h"
#include "common/model/run_manifest.h"

#include <cstdint>
#include <optional>
#include <string>

namespace xpurun::report {

struct JobFile {
  std::string path;                // as the job named it
  std::string kept;                // of the copy, relative to the run directory
  int64_t end = -1;                // the part before this offset counts; -1: all of it
  size_t most = size_t{64} << 10;  // bytes, from the end
};

// The text with secrets masked; nothing if it cannot be read within a second, or if the file was changed
// after the run.
std::optional<std::string> read_job_file(const model::RunDir& dir, const model::RunManifest& run,
                                         const JobFile& file);

// The last bytes of a regular file before `end`. Blocks as long as the file system does.
std::optional<std::string> end_of_file(const std::string& path, int64_t end, size_t most,
                                       int64_t newest_wall_ns);

}  // namespace xpurun::report
