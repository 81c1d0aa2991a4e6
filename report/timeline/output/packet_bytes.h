// PacketBytes: packets of a Perfetto trace, written field by field. For what every event has: protozero's
// writer adds varints byte by byte to a string, and nested messages are moved when they end. Here room is
// made once for a packet, and the length of a nested message has the width that its largest size needs, known
// at its begin.
#pragma once

#include "report/timeline/output/output_file.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <protozero/types.hpp>
#include <string_view>
#include <vector>

namespace xpurun::report {

// Key of a field with its type.
constexpr uint32_t field_key(int field, protozero::pbf_wire_type type) {
  return static_cast<uint32_t>(field) << 3 | static_cast<uint32_t>(type);
}

class PacketBytes {
 public:
  static constexpr size_t kVarint = 10;  // the longest
  // `out` outlives this object.
  explicit PacketBytes(OutputFile& out) : out_(out) {}

  // Makes room for `most` bytes. The writes that follow do not check again.
  void reserve(size_t most) {
    if (most > bytes_.size() - used_) {
      make_room(most);
    }
  }

  void varint(uint64_t n) {
    char* at = &bytes_[used_];
    char* const begin = at;
    for (; n >= 0x80; n >>= 7) {
      *at++ = static_cast<char>(n | 0x80);
    }
    *at++ = static_cast<char>(n);
    used_ += static_cast<size_t>(at - begin);
  }
  void fixed64(uint64_t n) {
    static_assert(std::endian::native == std::endian::little);
    std::memcpy(&bytes_[used_], &n, sizeof n);
    used_ += sizeof n;
  }
  void bytes(std::string_view text) {
    std::memcpy(bytes_.data() + used_, text.data(), text.size());
    used_ += text.size();
  }

  // A message of at most `most` bytes, behind its key.
  struct Message {
    size_t begin = 0;  // of its content
    size_t width = 0;  // of its length
  };
  Message begin_message(size_t most) {
    const size_t width = most < 1U << 7 ? 1 : most < 1U << 14 ? 2 : most < 1U << 28 ? 4 : kVarint;
    used_ += width;
    return {used_, width};
  }
  // The length takes its whole width, so it may end in zeros, which readers accept.
  void end_message(const Message& message) {
    size_t size = used_ - message.begin;
    char* const at = &bytes_[message.begin - message.width];
    for (size_t i = 0; i + 1 < message.width; ++i) {
      at[i] = static_cast<char>(size | 0x80);
      size >>= 7;
    }
    at[message.width - 1] = static_cast<char>(size);
  }

  // Gives everything to the file.
  void flush() {
    out_.write({bytes_.data(), used_});
    used_ = 0;
  }

 private:
  static constexpr size_t kPiece = size_t{64} << 10;

  void make_room(size_t most) {
    flush();
    if (most > bytes_.size()) {
      bytes_.resize(std::max(most, kPiece));
    }
  }

  OutputFile& out_;
  std::vector<char> bytes_;
  size_t used_ = 0;
};

}  // namespace xpurun::report
