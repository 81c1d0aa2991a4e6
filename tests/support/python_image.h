// Recorded memory of a Python process: exactly the bytes that the reader read, so that the reader
// can be tested without an interpreter of that version. docs/stackdump.md describes the recording.
#pragma once

#include "common/base/result.h"
#include "stackdump/cpython/frames.h"
#include "stackdump/cpython/locate.h"

#include <map>

namespace xpurun::stackdump {

struct MemoryImage {
  PythonImage python;
  Addr runtime = 0;
  std::map<Addr, std::string> ranges;  // by first address; they do not overlap

  std::string pack() const;  // compressed
  static base::Result<MemoryImage> unpack(std::string_view file);
};

// Reads from another memory and keeps the bytes.
class RecordingMemory : public RemoteMemory {
 public:
  explicit RecordingMemory(RemoteMemory& from) : from_(from) {}
  bool read(Addr addr, std::span<std::byte> into) override;
  std::map<Addr, std::string> ranges() const;

 private:
  RemoteMemory& from_;
  std::map<Addr, std::string> reads_;
};

class ImageMemory : public RemoteMemory {
 public:
  explicit ImageMemory(const MemoryImage& image) : image_(image) {}
  bool read(Addr addr, std::span<std::byte> into) override;
  size_t reads = 0;

 private:
  const MemoryImage& image_;
};

// The complete result of a reading as text: threads with their names, frames, local variables.
std::string read_everything(RemoteMemory& memory, const PythonImage& python, Addr runtime);

}  // namespace xpurun::stackdump
