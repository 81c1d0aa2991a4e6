#include "stackdump/cpython/offsets/debug_offsets.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <span>

namespace xpurun::stackdump {

namespace {

constexpr std::array<char, 8> kCookie = {'x', 'd', 'e', 'b', 'u', 'g', 'p', 'y'};
constexpr uint32_t kFreeThreadedHead = 16;          // growth of sizeof(PyObject) in a free-threaded build
constexpr uint64_t kMaxOffset = uint64_t{1} << 22;  // sizeof(PyInterpreterState) is about 400 KiB

// Positions of the entries in _Py_DebugOffsets, in 8-byte words. CPython documents the table for debuggers,
// but moves its entries with each minor version.
struct TableLayout {
  int minor;
  size_t words;
  size_t interpreters_head;
  size_t interp_id, interp_next, interp_threads_head, interp_gc, interp_modules, interp_sysdict,
      interp_ceval_gil, gil_state, gil_locked, gil_holder;
  size_t thread_size, thread_next, thread_interp, thread_current_frame, thread_id, thread_native_id,
      thread_chunk;
  size_t frame_size, frame_previous, frame_executable, frame_instr, frame_locals, frame_owner, frame_tlbc;
  size_t code_filename, code_qualname, code_linetable, code_firstlineno, code_argcount, code_local_names,
      code_local_kinds, code_adaptive, code_tlbc;
  size_t object_type, type_name, type_flags, tuple_items, list_items, dict_keys, dict_values, float_value,
      long_tag, long_digits;
  size_t bytes_size, bytes_data, unicode_state, unicode_length, unicode_ascii_size, gc_collecting;
};

constexpr TableLayout kLayouts[] = {
    {.minor = 13,
     .words = 73,
     .interpreters_head = 5,
     .interp_id = 7,
     .interp_next = 8,
     .interp_threads_head = 9,
     .interp_gc = 10,
     .interp_modules = 11,
     .interp_sysdict = 12,
     .interp_ceval_gil = 14,
     .gil_state = 15,
     .gil_locked = 17,
     .gil_holder = 18,
     .thread_size = 19,
     .thread_next = 21,
     .thread_interp = 22,
     .thread_current_frame = 23,
     .thread_id = 24,
     .thread_native_id = 25,
     .thread_chunk = 26,
     .frame_size = 28,
     .frame_previous = 29,
     .frame_executable = 30,
     .frame_instr = 31,
     .frame_locals = 32,
     .frame_owner = 33,
     .frame_tlbc = 0,
     .code_filename = 35,
     .code_qualname = 37,
     .code_linetable = 38,
     .code_firstlineno = 39,
     .code_argcount = 40,
     .code_local_names = 41,
     .code_local_kinds = 42,
     .code_adaptive = 43,
     .code_tlbc = 0,
     .object_type = 45,
     .type_name = 47,
     .type_flags = 49,
     .tuple_items = 51,
     .list_items = 54,
     .dict_keys = 57,
     .dict_values = 58,
     .float_value = 60,
     .long_tag = 62,
     .long_digits = 63,
     .bytes_size = 65,
     .bytes_data = 66,
     .unicode_state = 68,
     .unicode_length = 69,
     .unicode_ascii_size = 70,
     .gc_collecting = 72},
    {.minor = 14,
     .words = 84,
     .interpreters_head = 5,
     .interp_id = 7,
     .interp_next = 8,
     .interp_threads_head = 9,
     .interp_gc = 11,
     .interp_modules = 12,
     .interp_sysdict = 13,
     .interp_ceval_gil = 15,
     .gil_state = 16,
     .gil_locked = 18,
     .gil_holder = 19,
     .thread_size = 22,
     .thread_next = 24,
     .thread_interp = 25,
     .thread_current_frame = 26,
     .thread_id = 27,
     .thread_native_id = 28,
     .thread_chunk = 29,
     .frame_size = 31,
     .frame_previous = 32,
     .frame_executable = 33,
     .frame_instr = 34,
     .frame_locals = 35,
     .frame_owner = 36,
     .frame_tlbc = 38,
     .code_filename = 40,
     .code_qualname = 42,
     .code_linetable = 43,
     .code_firstlineno = 44,
     .code_argcount = 45,
     .code_local_names = 46,
     .code_local_kinds = 47,
     .code_adaptive = 48,
     .code_tlbc = 49,
     .object_type = 51,
     .type_name = 53,
     .type_flags = 55,
     .tuple_items = 57,
     .list_items = 60,
     .dict_keys = 67,
     .dict_values = 68,
     .float_value = 70,
     .long_tag = 72,
     .long_digits = 73,
     .bytes_size = 75,
     .bytes_data = 76,
     .unicode_state = 78,
     .unicode_length = 79,
     .unicode_ascii_size = 80,
     .gc_collecting = 82},
    {.minor = 15,
     .words = 96,
     .interpreters_head = 5,
     .interp_id = 7,
     .interp_next = 8,
     .interp_threads_head = 9,
     .interp_gc = 11,
     .interp_modules = 12,
     .interp_sysdict = 13,
     .interp_ceval_gil = 15,
     .gil_state = 16,
     .gil_locked = 18,
     .gil_holder = 19,
     .thread_size = 22,
     .thread_next = 24,
     .thread_interp = 25,
     .thread_current_frame = 26,
     .thread_id = 30,
     .thread_native_id = 31,
     .thread_chunk = 32,
     .frame_size = 39,
     .frame_previous = 40,
     .frame_executable = 41,
     .frame_instr = 42,
     .frame_locals = 43,
     .frame_owner = 44,
     .frame_tlbc = 46,
     .code_filename = 48,
     .code_qualname = 50,
     .code_linetable = 51,
     .code_firstlineno = 52,
     .code_argcount = 53,
     .code_local_names = 54,
     .code_local_kinds = 55,
     .code_adaptive = 56,
     .code_tlbc = 57,
     .object_type = 59,
     .type_name = 61,
     .type_flags = 63,
     .tuple_items = 69,
     .list_items = 72,
     .dict_keys = 79,
     .dict_values = 80,
     .float_value = 82,
     .long_tag = 84,
     .long_digits = 85,
     .bytes_size = 87,
     .bytes_data = 88,
     .unicode_state = 90,
     .unicode_length = 91,
     .unicode_ascii_size = 92,
     .gc_collecting = 95},
};

// Reads entries of the table, and notes an implausible one.
class TableEntries {
 public:
  explicit TableEntries(std::span<const std::byte> table) : table_(table) {}

  uint32_t operator()(size_t word) {
    const uint64_t v = field<uint64_t>(table_, word * 8).value_or(kMaxOffset);
    sane_ = sane_ && v < kMaxOffset;
    return static_cast<uint32_t>(v);
  }
  bool are_sane() const { return sane_; }

 private:
  std::span<const std::byte> table_;
  bool sane_ = true;
};

const TableLayout* layout_of(int minor) {
  const auto* found = std::find_if(std::begin(kLayouts), std::end(kLayouts),
                                   [minor](const TableLayout& l) { return l.minor == minor; });
  return found == std::end(kLayouts) ? nullptr : found;
}

void read_interpreter(const TableLayout& layout, TableEntries& at, Offsets& o) {
  o.runtime_interpreters = at(layout.interpreters_head);
  o.interp_id = at(layout.interp_id);
  o.interp_next = at(layout.interp_next);
  o.interp_threads = at(layout.interp_threads_head);
  o.interp_gil = at(layout.interp_ceval_gil);
  o.interp_gc_collecting = at(layout.interp_gc) + at(layout.gc_collecting);
  o.interp_modules = at(layout.interp_modules);
  o.interp_sysdict = at(layout.interp_sysdict);
  // These two offsets count from the interpreter state, which contains its own GIL at gil_state.
  o.gil_holder = at(layout.gil_holder) - at(layout.gil_state);
  o.gil_locked = at(layout.gil_locked) - at(layout.gil_state);
}

void read_thread(const TableLayout& layout, TableEntries& at, Offsets& o) {
  o.thread_next = at(layout.thread_next);
  o.thread_interp = at(layout.thread_interp);
  o.thread_id = at(layout.thread_id);
  o.thread_native_id = at(layout.thread_native_id);
  // Not in the table: exc_info, dict, gilstate_counter and async_exc precede thread_id since 3.8.
  o.thread_handled = o.thread_id - 32;
  o.thread_chunk = at(layout.thread_chunk);
  o.thread_frame = at(layout.thread_current_frame);
  o.thread_size = at(layout.thread_size);
}

void read_frame(const TableLayout& layout, TableEntries& at, Offsets& o) {
  o.frame_previous = at(layout.frame_previous);
  o.frame_code = at(layout.frame_executable);
  o.frame_instr = at(layout.frame_instr);
  o.frame_locals = at(layout.frame_locals);
  o.frame_globals = o.frame_code + 24;  // not in the table: function and previous frame lie in between
  o.frame_boundary = at(layout.frame_owner);
  o.frame_size = at(layout.frame_size);
  o.frame_tagged = o.minor >= 14;
}

void read_code(const TableLayout& layout, bool free_threaded, TableEntries& at, Offsets& o) {
  o.code_firstlineno = at(layout.code_firstlineno);
  o.code_filename = at(layout.code_filename);
  o.code_name = at(layout.code_qualname);
  o.code_linetable = at(layout.code_linetable);
  o.code_argument_count = at(layout.code_argcount);
  o.code_local_names = at(layout.code_local_names);
  o.code_local_kinds = at(layout.code_local_kinds);
  o.code_instructions = at(layout.code_adaptive);
  o.code_size = o.code_instructions;
  if (free_threaded && layout.code_tlbc != 0) {
    o.frame_tlbc = at(layout.frame_tlbc);
    o.code_tlbc = at(layout.code_tlbc);
  }
}

void read_objects(const TableLayout& layout, TableEntries& at, Offsets& o) {
  o.object_type = at(layout.object_type);
  o.type_name = at(layout.type_name);
  o.type_flags = at(layout.type_flags);
  o.tuple_items = at(layout.tuple_items);
  o.list_items = at(layout.list_items);
  o.dict_keys = at(layout.dict_keys);
  o.dict_values = at(layout.dict_values);
  o.float_value = at(layout.float_value);
  o.long_size = at(layout.long_tag);
  o.long_digits = at(layout.long_digits);
  o.bytes_size = at(layout.bytes_size);
  o.bytes_data = at(layout.bytes_data);
  o.unicode_state = at(layout.unicode_state);
  o.unicode_length = at(layout.unicode_length);
  o.unicode_ascii_data = at(layout.unicode_ascii_size);
  o.unicode_compact_data = o.unicode_ascii_data + 16;  // utf8_length and utf8 follow
}

void adapt_to_free_threads(Offsets& o) {
  // Offsets that the table lacks. They shift with the size of the common object header (PyObject), which is
  // larger in free-threaded builds.
  for (uint32_t* offset : {&o.type_basicsize, &o.type_dictoffset, &o.type_cached_keys, &o.module_dict,
                           &o.dict_used, &o.sequence_size, &o.set_used, &o.cell_content, &o.code_constants,
                           &o.code_names, &o.exception_args, &o.exception_traceback, &o.traceback_next,
                           &o.traceback_frame, &o.traceback_instr, &o.traceback_line, &o.frame_of_object}) {
    *offset += kFreeThreadedHead;
  }
  o.managed_dict = 8;
  o.unicode_kind_shift = o.minor >= 14 ? 8 : 2;
}

bool are_plausible(const Offsets& o) {
  constexpr uint32_t kMaxRead = 8192;  // of one object
  const auto is_size = [](uint32_t size) { return size > 0 && size <= kMaxRead; };
  return is_size(o.thread_size) && is_size(o.frame_size) && is_size(o.code_size) &&
         o.bytes_data <= kMaxRead && o.unicode_compact_data <= kMaxRead;
}

}  // namespace

std::optional<SelfDescription> read_self_description(RemoteMemory& memory, Addr runtime) {
  const auto head = memory.value<std::array<uint64_t, 3>>(runtime);
  if (!head || std::memcmp(head->data(), kCookie.data(), kCookie.size()) != 0) {
    return std::nullopt;
  }
  return SelfDescription{.version = static_cast<uint32_t>((*head)[1]), .free_threaded = (*head)[2] != 0};
}

base::Result<Offsets> read_debug_offsets(RemoteMemory& memory, Addr runtime, const SelfDescription& about) {
  const int minor = static_cast<int>(about.version >> 16 & 0xff);
  const TableLayout* layout = layout_of(minor);
  if (layout == nullptr) {
    return base::fail(fmt::format("the memory layout of Python 3.{} is not known", minor));
  }
  const auto bytes = memory.bytes(runtime, layout->words * 8);
  if (!bytes) {
    return base::fail("cannot read the offset table of CPython");
  }
  TableEntries at(std::as_bytes(std::span(*bytes)));
  Offsets o;
  o.minor = minor;
  read_interpreter(*layout, at, o);
  read_thread(*layout, at, o);
  read_frame(*layout, at, o);
  read_code(*layout, about.free_threaded, at, o);
  read_objects(*layout, at, o);
  o.type_cached_keys = minor >= 15 ? 888 : 880;
  if (about.free_threaded) {
    adapt_to_free_threads(o);
  }
  if (!at.are_sane() || !are_plausible(o)) {
    return base::fail("the offset table of CPython is implausible");
  }
  return o;
}

}  // namespace xpurun::stackdump
