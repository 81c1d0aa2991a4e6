#include "common/model/timing/event_records.h"

namespace xpurun::model::records {

void put_varint(std::string& out, uint64_t n) {
  for (; n >= 0x80; n >>= 7) {
    out += static_cast<char>(n | 0x80);
  }
  out += static_cast<char>(n);
}

void put_signed(std::string& out, int64_t n) {
  // Zigzag: small negative numbers stay short too.
  put_varint(out, (static_cast<uint64_t>(n) << 1) ^ static_cast<uint64_t>(n >> 63));
}

void put_fixed(std::string& out, uint64_t n, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) {
    out += static_cast<char>(n >> (8 * i));
  }
}

void put_text(std::string& out, std::string_view text) {
  put_varint(out, text.size());
  out += text;
}

bool take_fixed(std::string_view& in, size_t bytes, uint64_t& n) {
  if (in.size() < bytes) {
    return false;
  }
  n = 0;
  for (size_t i = 0; i < bytes; ++i) {
    n |= uint64_t{static_cast<uint8_t>(in[i])} << (8 * i);
  }
  in.remove_prefix(bytes);
  return true;
}

uint64_t Fields::fixed(size_t bytes) {
  uint64_t n = 0;
  if (rest_.empty()) {
    return 0;
  }
  ok_ = take_fixed(rest_, bytes, n) && ok_;
  return n;
}

std::string_view Fields::text() {
  const uint64_t size = varint();
  if (size > rest_.size()) {
    ok_ = false;
    return {};
  }
  const std::string_view out = rest_.substr(0, size);
  rest_.remove_prefix(size);
  return out;
}

}  // namespace xpurun::model::records
