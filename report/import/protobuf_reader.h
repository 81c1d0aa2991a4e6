// ProtobufReader: walks the fields of one protobuf message in memory. Never reads outside it; ok() turns
// false where the bytes end in the middle of a field or make no sense.
#pragma once

#include <cstdint>
#include <string_view>

namespace xpurun::report {

class ProtobufReader {
 public:
  explicit ProtobufReader(std::string_view bytes) : rest_(bytes), size_(bytes.size()) {}

  // Goes to the next field; false at the end or where the bytes are damaged.
  bool next() {
    uint64_t tag = 0;
    if (rest_.empty() || !ok_ || !varint(tag)) {
      return false;
    }
    number_ = static_cast<uint32_t>(tag >> 3);
    is_bytes_ = false;
    value_ = 0;
    bytes_ = {};
    switch (tag & 7) {
      case 0:
        return varint(value_);
      case 1:
        return skip(8);
      case 2: {
        uint64_t length = 0;
        if (!varint(length) || length > rest_.size()) {
          return ok_ = false;
        }
        is_bytes_ = true;
        bytes_ = rest_.substr(0, length);
        return skip(length);
      }
      case 5:
        return skip(4);
      default:
        return ok_ = false;
    }
  }

  uint32_t number() const { return number_; }
  bool is_bytes() const { return is_bytes_; }
  uint64_t value() const { return value_; }          // of a varint field
  std::string_view bytes() const { return bytes_; }  // of a string or message field
  bool ok() const { return ok_; }
  size_t position() const { return size_ - rest_.size(); }

 private:
  bool varint(uint64_t& out) {
    out = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      if (rest_.empty()) {
        return ok_ = false;
      }
      const auto byte = static_cast<uint8_t>(rest_.front());
      rest_.remove_prefix(1);
      out |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) {
        return true;
      }
    }
    return ok_ = false;
  }
  bool skip(uint64_t n) {
    if (n > rest_.size()) {
      return ok_ = false;
    }
    rest_.remove_prefix(n);
    return true;
  }

  std::string_view rest_;
  size_t size_;
  uint32_t number_ = 0;
  uint64_t value_ = 0;
  std::string_view bytes_;
  bool is_bytes_ = false;
  bool ok_ = true;
};

}  // namespace xpurun::report
