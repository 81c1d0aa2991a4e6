// Numbers and tags of event files, for the encoder and the reader. docs/events.md is the specification.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace xpurun::model::records {

// The first byte of a record. Values below kNotAnEvent are events; their bits:
inline constexpr uint8_t kSourceMask = 7;
inline constexpr uint8_t kHostBegin = 1 << 3;
inline constexpr uint8_t kSameStream = 1 << 4;    // same stream as the entry's previous event
inline constexpr uint8_t kNextSequence = 1 << 5;  // sequence number follows the entry's previous event
inline constexpr uint8_t kFirstOfStep = 1 << 6;
inline constexpr uint8_t kNotAnEvent = 1 << 7;
inline constexpr uint8_t kOp = 0x80;
inline constexpr uint8_t kCommunicator = 0x81;
inline constexpr uint8_t kLost = 0x82;
inline constexpr uint8_t kClocks = 0x83;
inline constexpr uint8_t kHow = 0x84;

// Seven bits per byte, lowest first; at most ten bytes.
void put_varint(std::string& out, uint64_t n);
// Small numbers of either sign take few bytes.
void put_signed(std::string& out, int64_t n);
// `bytes` bytes, lowest first.
void put_fixed(std::string& out, uint64_t n, size_t bytes);
void put_text(std::string& out, std::string_view text);

// Takes a varint; false if the text ends inside it.
inline bool take_varint(std::string_view& in, uint64_t& n) {
  n = 0;
  for (unsigned shift = 0; shift < 64 && !in.empty(); shift += 7) {
    const auto byte = static_cast<uint8_t>(in.front());
    in.remove_prefix(1);
    n |= uint64_t{byte & 0x7fu} << shift;
    if ((byte & 0x80) == 0) {
      return true;
    }
  }
  return false;
}

// Takes numbers from the front of a body. A number behind the end of the body is 0, because an older writer
// did not know the field. ok() turns false if the body ends inside a number.
class Fields {
 public:
  explicit Fields(std::string_view body) : rest_(body) {}

  uint64_t varint() {
    uint64_t n = 0;
    if (!rest_.empty()) {
      ok_ = take_varint(rest_, n) && ok_;
    }
    return n;
  }
  int64_t signed_varint() {
    const uint64_t n = varint();
    return static_cast<int64_t>((n >> 1) ^ (0 - (n & 1)));
  }
  uint64_t fixed(size_t bytes);
  std::string_view text();
  // A varint below `limit`; a larger one counts as damage.
  uint64_t below(uint64_t limit) {
    const uint64_t n = varint();
    ok_ = ok_ && n < limit;
    return n;
  }
  bool ok() const { return ok_; }

 private:
  std::string_view rest_;
  bool ok_ = true;
};

// False if fewer than `bytes` bytes are left; then nothing is consumed.
bool take_fixed(std::string_view& in, size_t bytes, uint64_t& n);

}  // namespace xpurun::model::records
