#include "preload/heap/python_frames.h"

#include "preload/heap/live_set.h"

#include <dlfcn.h>
#include <string.h>

namespace xpurun::preload {

namespace {

constexpr uint8_t kFirstShimOwner = 3;  // frames without Python code
constexpr uint64_t kTagBits = 3;
constexpr uint32_t kMostShims = 64;  // in a row with Python's frames
constexpr size_t kMostName = 400;    // bytes

// Functions that only read.
using ThreadState = void* (*)();
using IsFinalizing = int (*)();
using LineOf = int (*)(void* code, int offset);

ThreadState g_own = nullptr;  // of this thread
IsFinalizing g_is_finalizing = nullptr;
LineOf g_line_of = nullptr;
const void* g_code_type = nullptr;

template <typename T>
T at(uint64_t object, uint32_t offset) {
  T out;
  memcpy(&out, reinterpret_cast<const void*>(object + offset), sizeof(out));
  return out;
}

uint64_t first_frame(const wire::HeapPython& python, uint64_t thread) {
  const auto frame = at<uint64_t>(thread, python.thread_frame);
  const bool by_cframe = python.chain == wire::kHeapCframeEntry || python.chain == wire::kHeapCframeShim;
  return by_cframe && frame != 0 ? at<uint64_t>(frame, python.cframe_current) : frame;
}

bool is_shim(const wire::HeapPython& python, uint64_t frame) {
  return python.chain >= wire::kHeapCframeShim &&
         at<uint8_t>(frame, python.frame_boundary) >= kFirstShimOwner;
}

HeapFrame frame_at(const wire::HeapPython& python, uint64_t frame) {
  const uint64_t code = at<uint64_t>(frame, python.frame_code) & ~(python.frame_tagged != 0 ? kTagBits : 0);
  HeapFrame out{.address = code, .instruction = -1};
  if (code == 0 || at<const void*>(code, python.object_type) != g_code_type) {
    return out;
  }
  if (python.chain == wire::kHeapFrameObjects) {
    out.instruction = at<int32_t>(frame, python.frame_instr) * static_cast<int32_t>(python.instruction_bytes);
  } else {
    const uint64_t first = code + python.code_instructions;
    out.instruction = static_cast<int32_t>(at<uint64_t>(frame, python.frame_instr) - first);
  }
  // Before the first instruction.
  out.instruction = out.instruction < 0 ? 0 : out.instruction;
  return out;
}

size_t put_utf8(char* out, uint32_t c) {
  if (c < 0x80) {
    out[0] = static_cast<char>(c);
    return 1;
  }
  if (c < 0x800) {
    out[0] = static_cast<char>(0xc0 | c >> 6);
    out[1] = static_cast<char>(0x80 | (c & 0x3f));
    return 2;
  }
  // Characters beyond the first plane, and surrogates, are rare in names of files and functions.
  c = c > 0xffff || (c >= 0xd800 && c < 0xe000) ? 0xfffd : c;
  out[0] = static_cast<char>(0xe0 | c >> 12);
  out[1] = static_cast<char>(0x80 | (c >> 6 & 0x3f));
  out[2] = static_cast<char>(0x80 | (c & 0x3f));
  return 3;
}

uint32_t put_string(wire::HeapSegment& shared, uint64_t object) {
  const wire::HeapPython& python = shared.python;
  if (object == 0) {
    return 0;
  }
  const uint32_t flags = at<uint32_t>(object, python.unicode_state) >> python.unicode_kind_shift;
  const auto length = at<int64_t>(object, python.unicode_length);
  const uint32_t kind = flags & 7;
  const bool is_compact = (flags >> 3 & 1) != 0;
  const bool is_ascii = (flags >> 4 & 1) != 0;
  if (!is_compact || length < 0 || (kind != 1 && kind != 2 && kind != 4)) {
    return 0;
  }
  const uint64_t data = object + (is_ascii ? python.unicode_ascii_data : python.unicode_compact_data);
  char text[kMostName + 4];
  size_t bytes = 0;
  for (int64_t i = 0; i < length && bytes < kMostName; ++i) {
    uint32_t c = 0;
    memcpy(&c, reinterpret_cast<const char*>(data) + i * kind, kind);
    bytes += put_utf8(text + bytes, c);
  }
  return put_heap_text(shared, text, bytes);
}

void* find(const char* name) {
  void* found = dlsym(RTLD_DEFAULT, name);
  if (found == nullptr) {
    dlerror();  // the program's next dlerror() must not report this failed search
  }
  return found;
}

}  // namespace

void prepare_python_frames() {
  g_is_finalizing = reinterpret_cast<IsFinalizing>(find("Py_IsFinalizing"));
  if (g_is_finalizing == nullptr) {  // before CPython 3.13
    g_is_finalizing = reinterpret_cast<IsFinalizing>(find("_Py_IsFinalizing"));
  }
  g_own = reinterpret_cast<ThreadState>(find("PyGILState_GetThisThreadState"));
  g_line_of = reinterpret_cast<LineOf>(find("PyCode_Addr2Line"));
  g_code_type = find("PyCode_Type");
}

uint32_t python_frames(const wire::HeapPython& python, HeapFrame* out, uint32_t most) {
  if (python.ready.load(std::memory_order_acquire) == 0 || g_is_finalizing == nullptr || g_own == nullptr ||
      g_line_of == nullptr || g_code_type == nullptr) {
    return 0;
  }
  // Only this thread changes its frames, and they keep their code alive: the GIL is not needed, and PyTorch
  // allocates without it. An interpreter that ends frees the states of threads that still run.
  void* own = g_is_finalizing() == 0 ? g_own() : nullptr;
  if (own == nullptr) {
    return 0;
  }
  uint32_t count = 0;
  uint64_t frame = first_frame(python, reinterpret_cast<uint64_t>(own));
  for (uint32_t seen = 0; frame != 0 && count < most && seen < most + kMostShims; ++seen) {
    if (!is_shim(python, frame)) {
      const HeapFrame found = frame_at(python, frame);
      if (found.instruction < 0) {
        break;  // no code object
      }
      out[count++] = found;
    }
    frame = at<uint64_t>(frame, python.frame_previous);
  }
  return count;
}

uint64_t python_frame_key(const wire::HeapPython& python, const HeapFrame& frame) {
  const uint64_t names =
      at<uint64_t>(frame.address, python.code_filename) ^ at<uint64_t>(frame.address, python.code_name) << 7;
  const uint64_t place =
      static_cast<uint64_t>(frame.instruction) << 32 | at<uint32_t>(frame.address, python.code_firstlineno);
  return heap_mix(heap_mix(frame.address, names), place);
}

void describe_python_frame(wire::HeapSegment& shared, const HeapFrame& frame, wire::HeapPlace& place) {
  place.address = 0;
  place.file = put_string(shared, at<uint64_t>(frame.address, shared.python.code_filename));
  place.function = put_string(shared, at<uint64_t>(frame.address, shared.python.code_name));
  place.line = g_line_of(reinterpret_cast<void*>(frame.address), frame.instruction);
}

}  // namespace xpurun::preload
