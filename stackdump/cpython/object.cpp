#include "stackdump/cpython/object.h"

#include <cstring>

namespace xpurun::stackdump {

namespace {

constexpr size_t kMaxLineTable = size_t{1} << 20;
constexpr int64_t kMaxCopies = 16384;  // copies of a code object's bytecode, at most one per thread

void append_utf8(std::string& out, uint32_t c) {
  // Surrogates (os.fsdecode) and values from torn reads have no form in UTF-8.
  if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) {
    c = 0xfffd;
  }
  const auto tail = [&](unsigned shift) { out += static_cast<char>(0x80 | (c >> shift & 0x3f)); };
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xc0 | c >> 6);
    tail(0);
  } else if (c < 0x10000) {
    out += static_cast<char>(0xe0 | c >> 12);
    tail(6);
    tail(0);
  } else {
    out += static_cast<char>(0xf0 | c >> 18);
    tail(12);
    tail(6);
    tail(0);
  }
}

// A pointer to a _PyCodeArray (co_tlbc, in free-threaded builds from 3.14 on): a count and that number of
// addresses, some of them null.
std::vector<Addr> read_copies(RemoteMemory& memory, Addr array) {
  const auto count = array == 0 ? std::nullopt : memory.value<int64_t>(array);
  if (!count || *count <= 0 || *count > kMaxCopies) {
    return {};
  }
  std::vector<Addr> out(static_cast<size_t>(*count));
  return memory.read(array + 8, std::as_writable_bytes(std::span(out))) ? out : std::vector<Addr>();
}

}  // namespace

std::optional<std::string> read_unicode(RemoteMemory& memory, Addr object, const Offsets& o, size_t limit) {
  const auto length = memory.value<int64_t>(object + o.unicode_length);
  const auto state = memory.value<uint32_t>(object + o.unicode_state);
  if (object == 0 || !length || !state || *length < 0 || static_cast<uint64_t>(*length) > limit) {
    return std::nullopt;
  }
  const uint32_t flags = *state >> o.unicode_kind_shift;
  const size_t kind = flags & 7;  // bytes per character
  const bool compact = (flags >> 3 & 1) != 0;
  const bool ascii = (flags >> 4 & 1) != 0;
  if (kind != 1 && kind != 2 && kind != 4) {
    return std::nullopt;
  }
  Addr data = object + (ascii ? o.unicode_ascii_data : o.unicode_compact_data);
  if (!compact) {  // legacy strings, <= 3.11: a pointer follows the header
    data = memory.value<uint64_t>(object + o.unicode_compact_data).value_or(0);
  }
  const auto raw = memory.bytes(data, static_cast<size_t>(*length) * kind);
  if (!raw || data == 0) {
    return std::nullopt;
  }
  std::string out;
  for (size_t i = 0; i < raw->size(); i += kind) {
    uint32_t c = 0;
    std::memcpy(&c, raw->data() + i, kind);
    append_utf8(out, c);
  }
  return out;
}

std::optional<std::string> read_bytes_object(RemoteMemory& memory, Addr object, const Offsets& o,
                                             size_t limit) {
  const auto size = memory.value<int64_t>(object + o.bytes_size);
  if (object == 0 || !size || *size < 0 || static_cast<uint64_t>(*size) > limit) {
    return std::nullopt;
  }
  return memory.bytes(object + o.bytes_data, static_cast<size_t>(*size));
}

std::optional<CodeObject> read_code_object(RemoteMemory& memory, Addr object, const Offsets& o) {
  const auto raw = memory.bytes(object, o.code_size);
  if (object == 0 || !raw) {
    return std::nullopt;
  }
  const auto bytes = std::as_bytes(std::span(*raw));
  const auto pointer = [&](uint32_t offset) { return field<uint64_t>(bytes, offset).value_or(0); };
  const auto name = read_unicode(memory, pointer(o.code_name), o);
  const auto filename = read_unicode(memory, pointer(o.code_filename), o);
  if (!name || name->empty()) {
    return std::nullopt;  // not a code object, or no longer: an interpreter that ends frees it
  }
  CodeObject out;
  out.name = *name;
  out.filename = filename.value_or("?");
  out.first_line = field<int32_t>(bytes, o.code_firstlineno).value_or(0);
  out.line_table = read_bytes_object(memory, pointer(o.code_linetable), o, kMaxLineTable).value_or("");
  if (o.code_instructions != kAbsent) {
    out.instructions = object + o.code_instructions;
  }
  if (o.code_tlbc != kAbsent) {
    out.copies = read_copies(memory, memory.value<uint64_t>(object + o.code_tlbc).value_or(0));
  }
  return out;
}

}  // namespace xpurun::stackdump
