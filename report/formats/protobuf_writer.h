// ProtobufWriter: builds one protobuf message, field by field.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace xpurun::report {

class ProtobufWriter {
 public:
  // Zero is the default of every proto3 number and is left out.
  void number(uint32_t field, uint64_t value) {
    if (value != 0) {
      varint(uint64_t{field} << 3);
      varint(value);
    }
  }
  void bytes(uint32_t field, std::string_view value) {
    varint(uint64_t{field} << 3 | 2);
    varint(value.size());
    out_ += value;
  }
  void message(uint32_t field, const ProtobufWriter& m) { bytes(field, m.out_); }
  void packed(uint32_t field, const std::vector<uint64_t>& values) {
    ProtobufWriter list;
    for (uint64_t v : values) {
      list.varint(v);
    }
    bytes(field, list.out_);
  }
  const std::string& text() const { return out_; }

 private:
  void varint(uint64_t v) {
    while (v >= 0x80) {
      out_ += static_cast<char>(v | 0x80);
      v >>= 7;
    }
    out_ += static_cast<char>(v);
  }
  std::string out_;
};

}  // namespace xpurun::report
