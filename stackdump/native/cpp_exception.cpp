#include "stackdump/native/cpp_exception.h"

#include "common/base/strings.h"
#include "common/model/secrets/redact.h"
#include "stackdump/native/dynamic_symbol.h"
#include "stackdump/native/symbolizer.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>
#include <unordered_set>
#include <vector>

namespace xpurun::stackdump {

namespace {

// _Unwind_Exception::exception_class, as bytes in memory: vendor and language, then 0.
constexpr uint64_t kGnu = 0x474e5543432b2b00;   // "GNUCC++\0"
constexpr uint64_t kLlvm = 0x434c4e47432b2b00;  // "CLNGC++\0"

// struct __cxa_exception ends with the _Unwind_Exception, and the thrown object follows. Distances are from
// the _Unwind_Exception, x86-64.
constexpr uint64_t kTypeBefore = 80;
constexpr uint64_t kHandlersBefore = 40;  // handlerCount: negative during a rethrow
constexpr uint64_t kObjectAfter = 32;
// The reference count is at the very beginning. It is also the first part that the allocator overwrites after
// the last reference is gone.
constexpr uint64_t kGnuReferencesBefore = 96;
constexpr uint64_t kLlvmReferencesBefore = 88;
constexpr int32_t kMostReferences = 1024;

constexpr uint64_t kMostStack = 64 << 10;  // abort(), terminate() and __cxa_throw() need less
constexpr int32_t kMostHandlers = 64;
constexpr size_t kMaxTypeName = 1024;
constexpr size_t kMaxText = 16 << 10;
constexpr int kMostBases = 16;
constexpr uint64_t kMostObject = 128;  // bytes of an exception to search for a string

constexpr std::string_view kException = "St9exception";
constexpr std::string_view kTorchError = "N3c105ErrorE";

bool is_type_name(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '.';
  });
}

bool is_text(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    return static_cast<unsigned char>(c) >= 0x20 || c == '\n' || c == '\t' || c == '\r';
  });
}

class ExceptionReader {
 public:
  explicit ExceptionReader(RemoteMemory& memory) : memory_(memory) {}

  std::optional<CppException> at(Addr header) {
    const uint64_t language = memory_.value<uint64_t>(header).value_or(0);
    const int32_t handlers = memory_.value<int32_t>(header - kHandlersBefore).value_or(0);
    if ((language != kGnu && language != kLlvm) || handlers == 0 || handlers < -kMostHandlers ||
        handlers > kMostHandlers) {
      return std::nullopt;
    }
    const int32_t references =
        memory_.value<int32_t>(header - (language == kGnu ? kGnuReferencesBefore : kLlvmReferencesBefore))
            .value_or(0);
    if (references < 1 || references > kMostReferences) {
      return std::nullopt;
    }
    const Addr type = pointer(header - kTypeBefore);
    const std::string name = name_of(type);
    if (name.empty()) {
      return std::nullopt;
    }
    return CppException{.type = readable(name),
                        .message = model::redact_text(message_of(header + kObjectAfter, type, name))};
  }

 private:
  struct Base {
    std::string name;
    Addr object = 0;
  };

  Addr pointer(Addr a) { return memory_.value<uint64_t>(a).value_or(0); }

  // The mangled name in a std::type_info; empty if none. '*' marks a name that is compared by address.
  std::string name_of(Addr type) {
    std::string name = memory_.c_string(pointer(type + 8), kMaxTypeName).value_or("");
    if (name.starts_with('*')) {
      name.erase(0, 1);
    }
    return is_type_name(name) ? name : std::string();
  }

  static std::string readable(const std::string& mangled) {
    // A type alone is no symbol, but the name of its type_info is.
    constexpr std::string_view kPrefix = "typeinfo name for ";
    const std::string out = demangle("_ZTS" + mangled);
    return out.starts_with(kPrefix) ? out.substr(kPrefix.size()) : mangled;
  }

  // The type, then its base classes. After its name, the type_info of a class with one base
  // (__si_class_type_info) holds the address of the base's type_info; with several bases
  // (__vmi_class_type_info) it holds flags and a count.
  std::vector<Base> bases_of(Addr object, Addr type) {
    std::vector<std::pair<Addr, Addr>> waiting{{object, type}};
    std::vector<Base> out;
    while (!waiting.empty() && out.size() < kMostBases) {
      const auto [at, info] = waiting.back();
      waiting.pop_back();
      std::string name = name_of(info);
      if (name.empty()) {
        continue;
      }
      const bool root = name == kException;
      out.push_back({.name = std::move(name), .object = at});
      const auto counts = memory_.value<std::array<uint32_t, 2>>(info + 16);
      if (root || !counts) {
        continue;
      }
      if ((*counts)[0] > 0xff || (*counts)[1] > kMostBases || (*counts)[1] == 0) {
        waiting.emplace_back(at, pointer(info + 16));
        continue;
      }
      for (uint32_t i = (*counts)[1]; i-- > 0;) {
        const int64_t flags = memory_.value<int64_t>(info + 24 + 16 * i + 8).value_or(1);
        if ((flags & 1) == 0) {  // not virtual
          waiting.emplace_back(at + static_cast<uint64_t>(flags >> 8), pointer(info + 24 + 16 * i));
        }
      }
    }
    return out;
  }

  std::string message_of(Addr object, Addr type, const std::string& name) {
    if (name == "PKc" || name == "Pc") {
      return text_at(pointer(object)).value_or("");
    }
    if (name.find("basic_stringIcSt11char_traitsIcESaIcEE") != std::string::npos) {
      return string_at(object).value_or("");
    }
    const std::vector<Base> bases = bases_of(object, type);
    const auto base = [&](std::string_view wanted) {
      const auto it =
          std::find_if(bases.begin(), bases.end(), [&](const Base& b) { return b.name == wanted; });
      return it == bases.end() ? Addr{0} : it->object;
    };
    if (base(kException) == 0) {
      return {};
    }
    if (const Addr error = base(kTorchError); error != 0) {
      return string_at(error + 8).value_or("");  // its what() would add a backtrace
    }
    if (auto text = text_at(what_of(object))) {
      return *text;
    }
    for (const std::string_view with_text : {"St13runtime_error", "St11logic_error"}) {
      if (const Addr error = base(with_text); error != 0) {
        return text_at(pointer(error + 8)).value_or("");
      }
    }
    for (uint64_t i = 8; i < kMostObject; i += 8) {
      if (auto text = string_at(object + i); text && !text->empty()) {
        return *text;
      }
    }
    return {};
  }

  // The string that what() of the object returns, if the function is one load and a return, as in most
  // exception classes. The code is decoded and never run. 0 for any other function.
  Addr what_of(Addr object) {
    constexpr uint64_t kSlot = 2 * 8;  // after the two destructors
    Addr code = pointer(pointer(object) + kSlot);
    auto bytes = code == 0 ? std::nullopt : memory_.bytes(code, 16);
    if (!bytes) {
      return 0;
    }
    std::string_view rest = *bytes;
    if (rest.starts_with("\xf3\x0f\x1e\xfa")) {  // endbr64
      rest.remove_prefix(4);
      code += 4;
    }
    const auto shift8 = static_cast<uint64_t>(static_cast<int64_t>(static_cast<int8_t>(rest[3])));
    int32_t shift32 = 0;
    __builtin_memcpy(&shift32, rest.data() + 3, sizeof(shift32));
    const auto wide = static_cast<uint64_t>(static_cast<int64_t>(shift32));
    constexpr char kReturn = '\xc3';
    if (rest.starts_with("\x48\x8b\x47") && rest[4] == kReturn) {  // mov rax, [rdi + 8 bits]
      return pointer(object + shift8);
    }
    if (rest.starts_with("\x48\x8b\x87") && rest[7] == kReturn) {  // mov rax, [rdi + 32 bits]
      return pointer(object + wide);
    }
    if (rest.starts_with("\x48\x8d\x47") && rest[4] == kReturn) {  // lea rax, [rdi + 8 bits]
      return object + shift8;
    }
    if (rest.starts_with("\x48\x8d\x05") && rest[7] == kReturn) {  // lea rax, [rip + 32 bits]
      return code + 7 + wide;
    }
    return 0;
  }

  std::optional<std::string> text_at(Addr a) {
    auto text = a == 0 ? std::nullopt : memory_.c_string(a, kMaxText);
    return text && is_text(*text) ? text : std::nullopt;
  }

  // Reads a std::string (libstdc++): address and length; short texts are inside the object.
  std::optional<std::string> string_at(Addr a) {
    const auto parts = memory_.value<std::array<uint64_t, 2>>(a);
    if (!parts || (*parts)[0] == 0 || (*parts)[1] > kMaxText ||
        ((*parts)[1] < 16) != ((*parts)[0] == a + 16)) {
      return std::nullopt;
    }
    auto text = memory_.bytes((*parts)[0], (*parts)[1]);
    return text && is_text(*text) && memory_.value<char>((*parts)[0] + (*parts)[1]) == '\0' ? text
                                                                                            : std::nullopt;
  }

  RemoteMemory& memory_;
};

}  // namespace

std::optional<CppException> find_cpp_exception(RemoteMemory& memory, AddrRange stack) {
  const uint64_t size = std::min(stack.size(), kMostStack) & ~uint64_t{15};
  const auto words = size == 0 ? std::nullopt : memory.bytes(stack.lo, size);
  if (!words) {
    return std::nullopt;
  }
  ExceptionReader reader(memory);
  std::unordered_set<Addr> seen;
  for (uint64_t at = 0; at < size; at += 8) {
    Addr word = 0;
    __builtin_memcpy(&word, words->data() + at, sizeof(word));
    // Header and object have malloc()'s alignment and are never on a stack.
    if (word < 4096 || word % 16 != 0 || word >> 47 != 0 || (word >= stack.lo && word < stack.hi)) {
      continue;
    }
    // The word may point to the header or to the thrown object.
    for (const Addr header : {word, word - kObjectAfter}) {
      if (seen.insert(header).second) {
        if (auto found = reader.at(header)) {
          return found;
        }
      }
    }
  }
  return std::nullopt;
}

std::optional<CppException> find_abort_message(RemoteMemory& memory, const ProcMaps& maps) {
  constexpr Addr kTextAfter = 4;  // the size of the text comes first
  constexpr std::string_view kAssertion = "Assertion `";
  for (const Mapping& m : maps.all()) {
    const std::string_view name = base::base_name(m.path);
    if (m.offset != 0 || !(name.starts_with("libc.so") || name.starts_with("libc-2"))) {
      continue;
    }
    const auto symbol = find_dynamic_symbol(memory, m.lo, "__abort_msg");
    const Addr text = symbol ? memory.value<Addr>(symbol->address).value_or(0) : 0;
    std::string message = text == 0 ? "" : memory.c_string(text + kTextAfter, kMaxText).value_or("");
    message.erase(std::min(message.find('\n'), message.size()));
    if (const size_t at = message.find(kAssertion); at != std::string::npos) {
      message.erase(0, at);  // program, file, line and function are in the stack
    }
    return message.empty() || !is_text(message)
               ? std::nullopt
               : std::optional(CppException{.type = model::redact_text(message), .message = {}});
  }
  return std::nullopt;
}

}  // namespace xpurun::stackdump
