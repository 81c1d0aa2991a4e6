// A reader of protobuf for untrusted bytes: a field whose value has another form than its number promises is
// damage and throws. protozero's own reader asserts that the caller has looked at the form.
#pragma once

#include <cstdint>
#include <protozero/pbf_reader.hpp>
#include <string>

namespace xpurun::report {

class CheckedPbf : public protozero::pbf_reader {
 public:
  using protozero::pbf_reader::pbf_reader;
  CheckedPbf() = default;

  bool get_bool() { return varint().pbf_reader::get_bool(); }
  int32_t get_int32() { return varint().pbf_reader::get_int32(); }
  uint32_t get_uint32() { return varint().pbf_reader::get_uint32(); }
  int64_t get_int64() { return varint().pbf_reader::get_int64(); }
  uint64_t get_uint64() { return varint().pbf_reader::get_uint64(); }
  uint64_t get_fixed64() { return of(protozero::pbf_wire_type::fixed64).pbf_reader::get_fixed64(); }
  double get_double() { return of(protozero::pbf_wire_type::fixed64).pbf_reader::get_double(); }
  protozero::data_view get_view() { return bytes().pbf_reader::get_view(); }
  std::string get_string() { return bytes().pbf_reader::get_string(); }
  CheckedPbf get_message() { return CheckedPbf(bytes().pbf_reader::get_view()); }
  auto get_packed_uint64() { return bytes().pbf_reader::get_packed_uint64(); }

 private:
  CheckedPbf& varint() { return of(protozero::pbf_wire_type::varint); }
  CheckedPbf& bytes() { return of(protozero::pbf_wire_type::length_delimited); }
  CheckedPbf& of(protozero::pbf_wire_type form) {
    if (wire_type() != form) {
      throw protozero::unknown_pbf_wire_type_exception();
    }
    return *this;
  }
};

}  // namespace xpurun::report
