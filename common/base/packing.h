// Data packed for files and pages: gzip and CRC-32 by zlib, and base64 (RFC 4648).
#pragma once

#include "common/base/result.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace xpurun::base {

// Empty if zlib fails, which happens only when memory runs out.
std::string gzip(std::string_view bytes);
// Fails if the bytes are not exactly one gzip stream, or if the result exceeds `limit` bytes.
Result<std::string> gunzip(std::string_view packed, size_t limit);

// IEEE 802.3, as gzip and .gnu_debuglink use it. Of less than 4 GiB.
uint32_t crc32(std::string_view bytes);

// One gzip stream, packed piece by piece. Not thread-safe.
class GzipStream {
 public:
  using Sink = std::function<void(std::string_view)>;

  // `level` as zlib's: 1 is fast, 9 packs most.
  explicit GzipStream(int level);
  ~GzipStream();
  GzipStream(const GzipStream&) = delete;
  GzipStream& operator=(const GzipStream&) = delete;

  // False if memory has run out; nothing else may then be called.
  bool ready() const { return z_ != nullptr; }
  // Passes what is ready to `sink`, in pieces.
  void add(std::string_view bytes, const Sink& sink);
  // The end of the stream; nothing may be added after it.
  void finish(const Sink& sink);

 private:
  struct Zlib;
  void pack(std::string_view bytes, int flush, const Sink& sink);

  std::unique_ptr<Zlib> z_;
};

std::string base64(std::string_view bytes);
// Skips line breaks.
Result<std::string> from_base64(std::string_view text);

}  // namespace xpurun::base
