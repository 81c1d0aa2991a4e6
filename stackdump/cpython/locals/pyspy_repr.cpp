#include "stackdump/cpython/locals/pyspy_repr.h"

#include "common/model/secrets/redact.h"
#include "stackdump/cpython/dict.h"
#include "stackdump/cpython/locals/type_flags.h"
#include "stackdump/cpython/object.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <vector>

namespace xpurun::stackdump {

namespace {

// py-spy's limits.
constexpr int64_t kMostShown = 128;      // bytes of one variable
constexpr int64_t kLeastShown = 5;       // with fewer bytes left, an element is "..."
constexpr int64_t kMostRead = 4096;      // characters of a str
constexpr int64_t kMostInt = 1LL << 60;  // larger numbers are "+bigint"
constexpr size_t kMostItems = 1024;      // entries looked at in one dict
constexpr int kMostObjects = 512;        // visited for one variable; containers may contain themselves
constexpr size_t kDigits = 400;          // of a float without an exponent

// Like Rust's {}: the shortest digits, never an exponent.
template <typename T>
std::string float_text(T value) {
  if (std::isnan(value)) {
    return "NaN";
  }
  std::array<char, kDigits> out{};
  const auto end = std::to_chars(out.data(), out.data() + out.size(), value, std::chars_format::fixed);
  return {out.data(), end.ptr};
}

// The first `limit` characters of UTF-8 text; empty if the text is not longer.
std::string cut(const std::string& text, int64_t limit) {
  int64_t characters = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xc0) != 0x80 && characters++ == limit) {
      return text.substr(0, i);
    }
  }
  return {};
}

class PySpyRepr {
 public:
  PySpyRepr(RemoteMemory& memory, const Offsets& offsets) : memory_(memory), o_(offsets) {}

  // At most about `limit` bytes; nothing if memory is unreadable.
  std::optional<std::string> text(Addr object, int64_t limit) {
    if (limit <= kLeastShown || objects_-- <= 0) {
      return "...";
    }
    const auto type = type_of(memory_, object, o_);
    if (!type) {
      return std::nullopt;
    }
    if ((type->flags & kLong) != 0) {
      return int_text(object, type->name == "bool");
    }
    if ((type->flags & kUnicode) != 0) {
      return str_text(object, limit);
    }
    if ((type->flags & kDict) != 0) {
      return dict_text(object, limit - 2);
    }
    if ((type->flags & kList) != 0) {
      const auto items = memory_.value<uint64_t>(object + o_.list_items);
      return items ? elements(object, *items, '[', ']', limit - 2) : std::nullopt;
    }
    if ((type->flags & kTuple) != 0) {
      return elements(object, object + o_.tuple_items, '(', ')', limit - 2);
    }
    if (type->name == "float") {
      const auto value = memory_.value<double>(object + o_.float_value);
      return value ? std::optional(float_text(*value)) : std::nullopt;
    }
    if (type->name == "NoneType") {
      return "None";
    }
    if (auto number = numpy_text(object, type->name)) {
      return number;
    }
    return fmt::format("<{} at {:#x}>", type->name, object);
  }

 private:
  std::optional<std::string> int_text(Addr object, bool is_bool) {
    if (!memory_.value<int64_t>(object + o_.long_size)) {
      return std::nullopt;
    }
    const auto value = read_int(memory_, object, o_);
    if (!value || *value >= kMostInt || *value <= -kMostInt) {
      return "+bigint";
    }
    return is_bool ? (*value > 0 ? "True" : "False") : fmt::format("{}", *value);
  }

  std::optional<std::string> str_text(Addr object, int64_t limit) {
    const auto length = memory_.value<int64_t>(object + o_.unicode_length);
    if (!length || *length >= kMostRead) {
      return std::nullopt;
    }
    const auto content = read_unicode(memory_, object, o_, kMostRead);
    if (!content) {
      return std::nullopt;
    }
    std::string escaped;
    for (const char c : model::redact_text(*content)) {
      escaped += c == '\'' ? "\\\"" : c == '\n' ? "\\n" : std::string(1, c);
    }
    const std::string shown = cut(escaped, limit - kLeastShown);
    return shown.empty() ? fmt::format("\"{}\"", escaped) : fmt::format("\"{}...\"", shown);
  }

  std::optional<std::string> elements(Addr container, Addr items, char open, char close, int64_t left) {
    const auto size = memory_.value<int64_t>(container + o_.sequence_size);
    if (!size) {
      return std::nullopt;
    }
    std::vector<std::string> values;
    for (int64_t i = 0; i < *size; ++i) {
      const auto item = memory_.value<uint64_t>(items + static_cast<uint64_t>(i) * 8);
      auto value = item ? text(*item, left) : std::nullopt;
      if (!value) {
        return std::nullopt;
      }
      left -= static_cast<int64_t>(value->size()) + 2;
      if (left <= kLeastShown) {
        values.emplace_back("...");
        break;
      }
      values.push_back(std::move(*value));
    }
    return fmt::format("{}{}{}", open, fmt::join(values, ", "), close);
  }

  std::optional<std::string> dict_text(Addr dict, int64_t left) {
    std::vector<std::string> values;
    for (const DictItem& item : read_dict(memory_, dict, o_, kMostItems)) {
      const auto key = text(item.key, left);
      if (!key) {
        return std::nullopt;
      }
      const bool is_text = key->size() > 2 && key->starts_with('"');
      const bool secret = is_text && model::is_secret_name(std::string_view(*key).substr(1, key->size() - 2));
      const auto value = secret ? std::string(model::kMask) : text(item.value, left);
      if (!value) {
        return std::nullopt;
      }
      left -= static_cast<int64_t>(key->size() + value->size()) + 4;
      if (left <= kLeastShown) {
        values.emplace_back("...");
        break;
      }
      values.push_back(fmt::format("{}: {}", *key, *value));
    }
    return fmt::format("{{{}}}", fmt::join(values, ", "));
  }

  // A number of numpy: the value follows the object's head.
  std::optional<std::string> numpy_text(Addr object, const std::string& type) {
    const Addr at = object + o_.float_value;
    const auto number = [&]<typename T>(T) -> std::optional<std::string> {
      const auto value = memory_.value<T>(at);
      if constexpr (std::is_floating_point_v<T>) {
        return value ? std::optional(float_text(*value)) : std::nullopt;
      } else {
        return value ? std::optional(fmt::format("{}", static_cast<int64_t>(*value))) : std::nullopt;
      }
    };
    if (type == "numpy.bool") {
      const auto value = memory_.value<uint8_t>(at);
      return value ? std::optional<std::string>(*value != 0 ? "true" : "false") : std::nullopt;
    }
    if (type == "numpy.uint64") {
      const auto value = memory_.value<uint64_t>(at);
      return value ? std::optional(fmt::format("{}", *value)) : std::nullopt;
    }
    return type == "numpy.float64"   ? number(double{})
           : type == "numpy.float32" ? number(float{})
           : type == "numpy.int64"   ? number(int64_t{})
           : type == "numpy.int32"   ? number(int32_t{})
           : type == "numpy.int16"   ? number(int16_t{})
           : type == "numpy.int8"    ? number(int8_t{})
           : type == "numpy.uint32"  ? number(uint32_t{})
           : type == "numpy.uint16"  ? number(uint16_t{})
           : type == "numpy.uint8"   ? number(uint8_t{})
                                     : std::nullopt;
  }

  RemoteMemory& memory_;
  const Offsets& o_;
  int objects_ = kMostObjects;
};

}  // namespace

std::string pyspy_repr(RemoteMemory& memory, Addr object, const Offsets& o) {
  return PySpyRepr(memory, o).text(object, kMostShown).value_or("?");
}

}  // namespace xpurun::stackdump
