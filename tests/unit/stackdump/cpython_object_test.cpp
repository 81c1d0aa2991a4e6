#include "stackdump/cpython/callee.h"
#include "stackdump/cpython/object.h"
#include "tests/unit/stackdump/fake_memory.h"

#include <doctest/doctest.h>

using namespace xpurun::stackdump;

namespace {

constexpr Addr kObject = 0x10000;

// A compact str of `kind` bytes per character in 3.12's layout.
template <typename Char>
void put_string(FakeMemory& memory, Addr at, const std::basic_string<Char>& text, bool ascii) {
  const Offsets& o = kOffsets312;
  memory.put<int64_t>(at + o.unicode_length, static_cast<int64_t>(text.size()));
  memory.put<uint32_t>(at + o.unicode_state,
                       static_cast<uint32_t>(sizeof(Char) << 2 | 1U << 5 | (ascii ? 1U << 6 : 0U)));
  Addr data = at + (ascii ? o.unicode_ascii_data : o.unicode_compact_data);
  for (const Char c : text) {
    memory.put<Char>(data, c);
    data += sizeof(Char);
  }
}

}  // namespace

TEST_CASE("strings of every kind are converted to UTF-8") {
  FakeMemory memory;
  memory.add(kObject, 4096);
  put_string<char>(memory, kObject, "plain", true);
  CHECK(read_unicode(memory, kObject, kOffsets312) == "plain");
  put_string<char>(memory, kObject, "caf\xe9", false);  // Latin-1 in memory
  CHECK(read_unicode(memory, kObject, kOffsets312) == "caf\xc3\xa9");
  put_string<char16_t>(memory, kObject, u"Класс", false);
  CHECK(read_unicode(memory, kObject, kOffsets312) == "Класс");
  put_string<char32_t>(memory, kObject, U"a\U0001F600", false);
  CHECK(read_unicode(memory, kObject, kOffsets312) == "a\xf0\x9f\x98\x80");
  put_string<char16_t>(memory, kObject, {char16_t{0xd800}}, false);  // lone surrogate
  CHECK(read_unicode(memory, kObject, kOffsets312) == "\xef\xbf\xbd");
  put_string<char>(memory, kObject, "", true);
  CHECK(read_unicode(memory, kObject, kOffsets312) == "");
}

TEST_CASE("hostile strings yield nothing and allocate nothing") {
  FakeMemory memory;
  memory.add(kObject, 256);
  put_string<char>(memory, kObject, "x", true);
  memory.put<int64_t>(kObject + kOffsets312.unicode_length, int64_t{1} << 60);
  CHECK_FALSE(read_unicode(memory, kObject, kOffsets312));
  memory.put<int64_t>(kObject + kOffsets312.unicode_length, -1);
  CHECK_FALSE(read_unicode(memory, kObject, kOffsets312));
  memory.put<int64_t>(kObject + kOffsets312.unicode_length, 4000);  // runs out of readable memory
  CHECK_FALSE(read_unicode(memory, kObject, kOffsets312));
  memory.put<uint32_t>(kObject + kOffsets312.unicode_state, 3U << 2);  // no such kind
  CHECK_FALSE(read_unicode(memory, kObject, kOffsets312));
  CHECK_FALSE(read_unicode(memory, 0, kOffsets312));
  CHECK_FALSE(read_unicode(memory, ~Addr{0} - 8, kOffsets312));
  memory.put<int64_t>(kObject + kOffsets312.bytes_size, int64_t{1} << 40);
  CHECK_FALSE(read_bytes_object(memory, kObject, kOffsets312, 4096));
  CHECK_FALSE(read_code_object(memory, kObject, kOffsets312));
}

TEST_CASE("an object without a name is no code object, whatever its file name") {
  FakeMemory memory;
  constexpr Addr kText = kObject + 4096;
  memory.add(kObject, 256);
  memory.add(kText, 256);
  put_string<char>(memory, kText, "train.py", true);
  memory.put<uint64_t>(kObject + kOffsets312.code_filename, kText);
  CHECK_FALSE(read_code_object(memory, kObject, kOffsets312));
  memory.put<uint64_t>(kObject + kOffsets312.code_name, kText);
  CHECK(read_code_object(memory, kObject, kOffsets312));
}

TEST_CASE("without columns, the callee is the only call on the line") {
  CHECK(sole_called_name("    time.sleep(1000)") == "time.sleep");
  CHECK(sole_called_name("    x = dist.all_reduce(t, group=g)  # f(x)") == "dist.all_reduce");
  CHECK(sole_called_name("    return self.work.wait('a(b')") == "self.work.wait");
  CHECK(sole_called_name("    if (a and f(b)):") == "f");
  CHECK(sole_called_name("    f(g(x))").empty());
  CHECK(sole_called_name("    f(x)(y)").empty());
  CHECK(sole_called_name("    f(x).wait(y)").empty());
  CHECK(sole_called_name("    a[0](y)").empty());
  CHECK(sole_called_name("def f(x):").empty());
  CHECK(sole_called_name("class A(f(x)): pass") == "f");
  CHECK(sole_called_name("    x = 'f(y)").empty());
  CHECK(sole_called_name("    x = 3").empty());
  CHECK(sole_called_name("").empty());
}

TEST_CASE("a call that is only a part of the expression is not the callee") {
  CHECK(called_by("f(x)") == "f");
  CHECK(called_by("a.b(g(1), ')', \"\\\")\")") == "a.b");
  CHECK(called_by("f(1,  # (\n  2)") == "f");
  CHECK(called_by("C().run()").empty());
  CHECK(called_by("f(x) + y").empty());
  CHECK(called_by("f(x)(y)").empty());
  CHECK(called_by("f(x").empty());
  CHECK(called_by("f(')").empty());
  CHECK(called_by("f").empty());
  CHECK(called_by("").empty());
}

TEST_CASE("the callee is a dotted name before a parenthesis and nothing else") {
  CHECK(called_name("    time.sleep(3)", 5) == "time.sleep");
  CHECK(called_name("x = dist.all_reduce(t, group=g)", 5) == "dist.all_reduce");
  CHECK(called_name("класс.метод(1)", 1) == "класс.метод");
  CHECK(called_name("f(x)", 1) == "f");
  CHECK(called_name("f (x)", 1).empty());
  CHECK(called_name("secret = 'x'", 1).empty());
  CHECK(called_name("'abc'.join(x)", 1).empty());
  CHECK(called_name("a[0].f(x)", 1).empty());
  CHECK(called_name("f().g(x)", 1) == "f");
  CHECK(called_name("if(x)", 1).empty());
  CHECK(called_name("a.(x)", 1).empty());
  CHECK(called_name("f", 1).empty());
  CHECK(called_name("f(x)", 0).empty());
  CHECK(called_name("f(x)", 99).empty());
  CHECK(called_name("", 1).empty());
}
