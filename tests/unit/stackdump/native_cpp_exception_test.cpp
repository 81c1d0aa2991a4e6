// Exceptions of this process itself, read like those of another process.
#include "stackdump/memory/live_memory.h"
#include "stackdump/native/cpp_exception.h"
#include "tests/unit/stackdump/fake_memory.h"

#include <doctest/doctest.h>

#include <assert.h>
#include <cstdlib>
#include <dlfcn.h>
#include <exception>
#include <fcntl.h>
#include <new>
#include <signal.h>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>
#include <variant>

using namespace xpurun::stackdump;

namespace {

constexpr Addr kMostOfAStack = 4 << 10;  // the stack above the test has more

struct PlainError {
  int code = 7;
};

class TableError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct Marker {
  virtual ~Marker() = default;
  uint64_t filler = 1;
};
// The base class with the text is not the first.
class MarkedError : public Marker, public TableError {
 public:
  explicit MarkedError(const char* text) : TableError(text) {}
};

class OwnText : public std::exception {
 public:
  explicit OwnText(std::string text) : text_(std::move(text)) {}
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  std::string text_;
};

[[gnu::noinline]] std::optional<CppException> exception_here() {
  LiveMemory memory(::getpid());
  const Addr here = reinterpret_cast<Addr>(__builtin_frame_address(0)) & ~Addr{15};
  return find_cpp_exception(memory, {.lo = here, .hi = here + kMostOfAStack});
}

// The result while a catch block handles the exception, as for std::terminate().
template <typename E>
CppException found_for(const E& exception) {
  try {
    throw exception;
  } catch (const E&) {
    // Its only member is the address of the exception.
    const std::exception_ptr held = std::current_exception();
    const auto found = exception_here();
    REQUIRE(held);
    REQUIRE(found);
    return *found;
  }
}

}  // namespace

TEST_CASE("exceptions of the standard library give type and text") {
  CppException e = found_for(std::runtime_error("tokenizer table is damaged"));
  CHECK(e.type == "std::runtime_error");
  CHECK(e.message == "tokenizer table is damaged");
  e = found_for(std::out_of_range("vector::_M_range_check: __n (which is 9)"));
  CHECK(e.type == "std::out_of_range");
  CHECK(e.message == "vector::_M_range_check: __n (which is 9)");
  e = found_for(std::bad_alloc());
  CHECK(e.type == "std::bad_alloc");
  CHECK(e.message == "std::bad_alloc");
  e = found_for(std::system_error(2, std::generic_category(), "open"));
  CHECK(e.type == "std::system_error");
  CHECK(e.message == "open: No such file or directory");
}

TEST_CASE("the program's own classes") {
  CppException e = found_for(TableError("row 3"));
  CHECK(e.type == "(anonymous namespace)::TableError");
  CHECK(e.message == "row 3");
  CHECK(found_for(MarkedError("row 4")).message == "row 4");
  CHECK(found_for(OwnText("short")).message == "short");
  CHECK(found_for(OwnText(std::string(100, 'x'))).message == std::string(100, 'x'));
  e = found_for(PlainError{});
  CHECK(e.type == "(anonymous namespace)::PlainError");
  CHECK(e.message.empty());
}

TEST_CASE("the thrown object need not be a class") {
  CppException e = found_for(static_cast<const char*>("no tokens"));
  CHECK(e.type == "char const*");
  CHECK(e.message == "no tokens");
  CHECK(found_for(std::string("no tokens left")).message == "no tokens left");
  e = found_for(42);
  CHECK(e.type == "int");
  CHECK(e.message.empty());
}

TEST_CASE("secrets in the text are masked") {
  CHECK(found_for(std::runtime_error("GET https://u:hunter2hunter2@host/x")).message.find("hunter2") ==
        std::string::npos);
}

TEST_CASE("a finished exception is not found") {
  try {
    throw TableError("over");
  } catch (const std::exception&) {
  }
  CHECK_FALSE(exception_here());
}

TEST_CASE("garbage is no exception") {
  FakeMemory memory;
  memory.add(0x10000, 4096);
  memory.add(0x20000, 4096);
  CHECK_FALSE(find_cpp_exception(memory, {.lo = 0x10000, .hi = 0x11000}));
  CHECK_FALSE(find_cpp_exception(memory, {.lo = 0x90000, .hi = 0x91000}));
  CHECK_FALSE(find_cpp_exception(memory, {}));
  // The class of an exception, with nothing around it.
  memory.put<Addr>(0x10010, 0x20100);
  memory.put<uint64_t>(0x20100, 0x474e5543432b2b00);
  CHECK_FALSE(find_cpp_exception(memory, {.lo = 0x10000, .hi = 0x11000}));
  memory.put<int32_t>(0x20100 - 40, 1);
  memory.put<int32_t>(0x20100 - 96, 1);
  memory.put<Addr>(0x20100 - 80, 0x20800);  // a type whose name cannot be read
  memory.put<Addr>(0x20808, 0xdead0000);
  CHECK_FALSE(find_cpp_exception(memory, {.lo = 0x10000, .hi = 0x11000}));
}

TEST_CASE("the text of a failed assertion, and of the C library's own checks, is read after abort()") {
  struct Case {
    void (*fail)();
    std::string_view text;
  };
  const Case cases[] = {
      {[] { __assert_fail("ok == 1", "table.c", 6, "must"); }, "Assertion `ok == 1' failed."},
      {[] {
         char text[32] = {};
         std::free(std::launder(text + 16));
       },
       "free(): invalid pointer"}};
  // AddressSanitizer has a free() of its own, which does not abort.
  const bool own_free = ::dlsym(RTLD_DEFAULT, "__asan_init") != nullptr;
  for (const Case& c : std::span(cases).first(own_free ? 1 : 2)) {
    int ready[2];
    REQUIRE(::pipe2(ready, O_CLOEXEC) == 0);
    const pid_t pid = ::fork();
    if (pid == 0) {
      static int end = ready[1];
      ::signal(SIGABRT, [](int) {
        (void)!::write(end, "x", 1);
        ::pause();
      });
      ::close(STDERR_FILENO);
      c.fail();
    }
    ::close(ready[1]);  // else the end of the child would not be seen
    char byte = 0;
    REQUIRE(::read(ready[0], &byte, 1) == 1);
    LiveMemory memory(pid);
    const auto maps = ProcMaps::read(pid);
    REQUIRE(maps);
    const auto found = find_abort_message(memory, *maps);
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    ::close(ready[0]);
    REQUIRE(found);
    CHECK(found->type == c.text);
  }
}

TEST_CASE("without an abort there is no text of one") {
  LiveMemory memory(::getpid());
  CHECK_FALSE(find_abort_message(memory, ProcMaps::read(::getpid()).value()));
}
