// CoreFile: an ELF core file of a Linux x86-64 process. Reads with pread(2), because core files are large and
// another process may truncate them. The content is untrusted.
#pragma once

#include "common/base/os/fd.h"
#include "common/base/result.h"
#include "stackdump/core/core_notes.h"

#include <string>
#include <vector>

namespace xpurun::stackdump {

// Memory of the process. Bytes after the dumped ones were not written or are cut off.
struct CoreSegment {
  AddrRange range;
  uint64_t offset = 0;  // in the core file
  uint64_t wanted = 0;  // bytes that the writer of the file meant to dump, from range.lo on
  uint64_t dumped = 0;  // bytes that are in the file
  bool readable = false;
  bool writable = false;
  bool executable = false;
};

class CoreFile {
 public:
  // E-CORE if this is not a core file, or an unreadable one.
  static base::Result<CoreFile> open(const std::string& path);
  // The same for an open file; `path` is for messages.
  static base::Result<CoreFile> from_fd(base::UniqueFd fd, const std::string& path);

  // All of `into`, or false.
  bool read(uint64_t offset, std::span<std::byte> into) const;

  const std::vector<CoreSegment>& segments() const { return segments_; }  // ascending
  // The segment at an address, or null.
  const CoreSegment* find(Addr a) const;
  const CoreNotes& notes() const { return notes_; }
  // Bytes of memory that the file should have and that are missing at its end.
  uint64_t cut_off() const;
  // UTC time of the last write to the file.
  int64_t written_ns() const { return written_ns_; }

 private:
  explicit CoreFile(base::UniqueFd fd) : fd_(std::move(fd)) {}
  base::Status parse(const std::string& path);

  base::UniqueFd fd_;
  uint64_t size_ = 0;
  int64_t written_ns_ = 0;
  std::vector<CoreSegment> segments_;
  CoreNotes notes_;
};

}  // namespace xpurun::stackdump
