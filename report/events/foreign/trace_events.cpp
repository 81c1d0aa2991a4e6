#include "report/events/foreign/trace_events.h"

#include "common/base/strings.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>

namespace xpurun::report {

namespace {

constexpr size_t kChunk = size_t{1} << 20;
constexpr size_t kShownOfBad = 120;

enum class Found { yes, bad, more };

// Most characters are looked at once, so a look-up counts.
constexpr std::array<bool, 256> set_of(std::string_view members) {
  std::array<bool, 256> out{};
  for (const char c : members) {
    out[static_cast<unsigned char>(c)] = true;
  }
  return out;
}
constexpr auto kSpaces = set_of(" \n\r\t");
// End a number, a literal, or whatever stands in the place of one.
constexpr auto kTokenEnds = set_of(",}] \n\r\t");

bool is_in(const std::array<bool, 256>& set, char c) {
  return set[static_cast<unsigned char>(c)];
}

// A position in the text that is there. Each function moves it past what it has found, unless more text is
// needed.
class Cursor {
 public:
  Cursor(const char* at, const char* end) : at_(at), end_(end) {}

  const char* at() const { return at_; }
  bool done() const { return at_ == end_; }
  char here() const { return *at_; }
  void next() { ++at_; }

  // False if the text ends.
  bool skip_space() {
    while (at_ != end_ && is_in(kSpaces, *at_)) {
      ++at_;
    }
    return at_ != end_;
  }
  bool skip(char c) {
    if (!skip_space() || *at_ != c) {
      return false;
    }
    ++at_;
    return true;
  }

  // Behind the opening quote.
  Found string(std::string_view& out) {
    const char* begin = at_;
    for (const char* from = begin;;) {
      const auto* quote = static_cast<const char*>(std::memchr(from, '"', static_cast<size_t>(end_ - from)));
      if (quote == nullptr) {
        return Found::more;
      }
      const char* before = quote;
      while (before != begin && before[-1] == '\\') {
        --before;
      }
      if ((quote - before) % 2 == 0) {
        out = {begin, static_cast<size_t>(quote - begin)};
        at_ = quote + 1;
        return Found::yes;
      }
      from = quote + 1;
    }
  }

  // Of an object or a list, at its first character, to the end of it.
  Found nested(std::string_view& out) {
    const char* begin = at_;
    int depth = 0;
    const char* p = at_;
    while (p != end_) {
      const char c = *p++;
      if (c == '"') {
        Cursor inside(p, end_);
        std::string_view ignored;
        if (inside.string(ignored) != Found::yes) {
          return Found::more;
        }
        p = inside.at();
      } else if (c == '{' || c == '[') {
        ++depth;
      } else if ((c == '}' || c == ']') && --depth == 0) {
        out = {begin, static_cast<size_t>(p - begin)};
        at_ = p;
        return Found::yes;
      }
    }
    return Found::more;
  }

  Found value(JsonMember& out) {
    if (!skip_space()) {
      return Found::more;
    }
    out.is_string = *at_ == '"';
    if (out.is_string) {
      ++at_;
      return string(out.value);
    }
    if (*at_ == '{' || *at_ == '[') {
      return nested(out.value);
    }
    const char* begin = at_;
    while (at_ != end_ && !is_in(kTokenEnds, *at_)) {
      ++at_;
    }
    out.value = {begin, static_cast<size_t>(at_ - begin)};
    return at_ == end_ ? Found::more : out.value.empty() ? Found::bad : Found::yes;
  }

  // The members of an object, behind its brace, to behind its end.
  template <typename Use>
  Found members(Use&& use) {
    for (;;) {
      if (!skip_space()) {
        return Found::more;
      }
      const char c = *at_;
      if (c == '}') {
        ++at_;
        return Found::yes;
      }
      if (c == ',') {
        ++at_;
        continue;
      }
      JsonMember member;
      if (c != '"') {
        return Found::bad;
      }
      ++at_;
      Found found = string(member.key);
      if (found == Found::yes && !skip(':')) {
        found = done() ? Found::more : Found::bad;
      }
      if (found == Found::yes) {
        found = use(*this, member);
      }
      if (found != Found::yes) {
        return found;
      }
    }
  }

 private:
  const char* at_;
  const char* end_;
};

Found read_members(Cursor& cursor, std::vector<JsonMember>& out) {
  out.clear();
  return cursor.members([&](Cursor& at, JsonMember& member) {
    const Found found = at.value(member);
    if (found == Found::yes) {
      out.push_back(member);
    }
    return found;
  });
}

// At its brace.
Found read_event(Cursor& cursor, TraceEvent& out) {
  out.members.clear();
  out.arguments.clear();
  cursor.next();
  return cursor.members([&](Cursor& at, JsonMember& member) {
    if (member.key == "args" && at.skip_space() && at.here() == '{') {
      at.next();
      return read_members(at, out.arguments);
    }
    const Found found = at.value(member);
    if (found == Found::yes) {
      out.members.push_back(member);
    }
    return found;
  });
}

// The text that was read and not used yet.
class Buffer {
 public:
  explicit Buffer(std::istream& text) : text_(text) {}

  Cursor cursor() const { return {text_bytes_.data() + used_, text_bytes_.data() + text_bytes_.size()}; }
  void use_until(const Cursor& cursor) { used_ = static_cast<size_t>(cursor.at() - text_bytes_.data()); }
  // False at the end of the text.
  bool read_more() {
    text_bytes_.erase(0, used_);
    used_ = 0;
    const size_t kept = text_bytes_.size();
    too_long_ = kept > kLongestTraceEvent;
    if (too_long_) {
      return false;
    }
    text_bytes_.resize(kept + kChunk);
    const auto got = text_.rdbuf()->sgetn(text_bytes_.data() + kept, static_cast<std::streamsize>(kChunk));
    text_bytes_.resize(kept + static_cast<size_t>(std::max<std::streamsize>(got, 0)));
    return text_bytes_.size() > kept;
  }
  bool too_long() const { return too_long_; }

 private:
  bool too_long_ = false;
  std::istream& text_;
  std::string text_bytes_;
  size_t used_ = 0;
};

class EventReader {
 public:
  EventReader(std::istream& text, const TraceEvents::Handler& handler, std::string_view list)
      : buffer_(text), handler_(handler), list_(list) {}

  TraceEvents::End read() {
    const char first = peek();
    TraceEvents::End out = TraceEvents::End::no_list;
    if (first == '[') {
      take();
      out = list() ? TraceEvents::End::whole : TraceEvents::End::cut;
    } else if (first == '{') {
      out = object();
    }
    return buffer_.too_long() ? TraceEvents::End::too_long : out;
  }

 private:
  // The next character that is no space; 0 at the end.
  char peek() {
    for (;;) {
      Cursor at = buffer_.cursor();
      const bool found = at.skip_space();
      buffer_.use_until(at);
      if (found) {
        return at.here();
      }
      if (!buffer_.read_more()) {
        return '\0';
      }
    }
  }
  void take() {
    Cursor at = buffer_.cursor();
    at.next();
    buffer_.use_until(at);
  }

  // Calls `read` with a cursor until there is enough text. `more`: the text is at its end.
  template <typename Read>
  Found with_text(Read&& read) {
    for (;;) {
      Cursor at = buffer_.cursor();
      const Found found = read(at);
      if (found != Found::more) {
        buffer_.use_until(at);
        return found;
      }
      if (!buffer_.read_more()) {
        return found;
      }
    }
  }

  TraceEvents::End object() {
    bool has_list = false;
    const auto end = [&](bool whole) {
      return !has_list ? TraceEvents::End::no_list
                       : (whole ? TraceEvents::End::whole : TraceEvents::End::cut);
    };
    take();
    for (;;) {
      const char c = peek();
      if (c == ',') {
        take();
        continue;
      }
      if (c != '"') {
        return end(c == '}');
      }
      std::string key;
      Found found = with_text([&](Cursor& at) {
        at.next();
        std::string_view text;
        const Found found_key = at.string(text);
        key = text;
        return found_key == Found::yes && !at.skip(':') ? (at.done() ? Found::more : Found::bad) : found_key;
      });
      if (found != Found::yes) {
        return end(false);
      }
      if (key == list_ && peek() == '[') {
        take();
        has_list = true;
        if (!list()) {
          return end(false);
        }
        continue;
      }
      found = with_text([&](Cursor& at) {
        JsonMember member{.key = key};
        const Found found_value = at.value(member);
        if (found_value == Found::yes) {
          handler_.about(member);
        }
        return found_value;
      });
      if (found != Found::yes) {
        return end(false);
      }
    }
  }

  // Behind its bracket. False if the text ends in it.
  bool list() {
    TraceEvent event;
    for (;;) {
      const char c = peek();
      if (c == ']') {
        take();
        return true;
      }
      if (c == ',') {
        take();
        continue;
      }
      if (c == '\0' || !handler_.goes_on()) {
        return false;
      }
      const Found found =
          with_text([&](Cursor& at) { return c == '{' ? try_event(at, event) : skip_value(at); });
      if (found != Found::yes) {
        return false;
      }
    }
  }

  Found try_event(Cursor& at, TraceEvent& event) const {
    Cursor inside = at;
    const Found found = read_event(inside, event);
    if (found == Found::yes) {
      handler_.event(event);
      at = inside;
    }
    return found == Found::bad ? skip_value(at) : found;
  }

  Found skip_value(Cursor& at) const {
    JsonMember whole;
    Cursor inside = at;
    const Found found = inside.value(whole);
    if (found == Found::yes) {
      handler_.bad(whole.value.substr(0, kShownOfBad));
      at = inside;
    }
    return found;
  }

  Buffer buffer_;
  const TraceEvents::Handler& handler_;
  std::string_view list_;
};

constexpr std::string_view kEscapes = "\"\\/bfnrt";
constexpr std::string_view kEscaped = "\"\\/\b\f\n\r\t";

void put_utf8(std::string& out, uint32_t code) {
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += {static_cast<char>(0xc0 | (code >> 6)), static_cast<char>(0x80 | (code & 0x3f))};
  } else if (code < 0x10000) {
    out += {static_cast<char>(0xe0 | (code >> 12)), static_cast<char>(0x80 | ((code >> 6) & 0x3f)),
            static_cast<char>(0x80 | (code & 0x3f))};
  } else {
    out += {static_cast<char>(0xf0 | (code >> 18)), static_cast<char>(0x80 | ((code >> 12) & 0x3f)),
            static_cast<char>(0x80 | ((code >> 6) & 0x3f)), static_cast<char>(0x80 | (code & 0x3f))};
  }
}

// Of the four digits behind "\u"; above 0xffff: there are none.
uint32_t code_at(std::string_view text, size_t at) {
  uint32_t out = 0;
  const std::string_view digits = text.substr(std::min(at, text.size()), 4);
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), out, 16);
  return digits.size() == 4 && read.ptr == digits.data() + 4 ? out : UINT32_MAX;
}

}  // namespace

TraceEvents::End TraceEvents::read(std::istream& text, const Handler& handler, std::string_view list) {
  return EventReader(text, handler, list).read();
}

std::string unescaped(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const char next = text[i] == '\\' && i + 1 < text.size() ? text[i + 1] : '\0';
    if (next == 'u') {
      uint32_t code = code_at(text, i + 2);
      size_t used = 6;
      if (code >= 0xd800 && code < 0xdc00 && text.substr(std::min(i + 6, text.size()), 2) == "\\u") {
        const uint32_t low = code_at(text, i + 8);
        if (low >= 0xdc00 && low < 0xe000) {
          code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
          used = 12;
        }
      }
      if (code != UINT32_MAX) {
        put_utf8(out, code >= 0xd800 && code < 0xe000 ? 0xfffd : code);
        i += used - 1;
        continue;
      }
    }
    const size_t escape = next == '\0' ? std::string_view::npos : kEscapes.find(next);
    if (escape == std::string_view::npos) {
      out += text[i];
    } else {
      out += kEscaped[escape];
      ++i;
    }
  }
  return out;
}

}  // namespace xpurun::report
