// Recorded memory of a Python process: exactly the bytes that the reader read, so that what it makes of them
// can be tested where no interpreter of that version is. docs/HACKING.md tells how to record.
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

// Reads from another memory and keeps what was read.
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

// Everything that can be read, as text: threads with their names, frames, local variables.
std::string read_everything(RemoteMemory& memory, const PythonImage& python, Addr runtime);

}  // namespace xpurun::stackdump
