#include "stackdump/memory/live_memory.h"
#include "stackdump/native/dynamic_symbol.h"
#include "stackdump/native/eh_frame.h"
#include "stackdump/native/kernel_view.h"
#include "stackdump/native/symbolizer.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <dlfcn.h>
#include <filesystem>
#include <fstream>
#include <unistd.h>

using namespace xpurun::stackdump;

namespace {

struct Self {
  LiveMemory live{::getpid()};
  ModuleList modules{::getpid(), ProcMaps::read(::getpid()).value(), live};
  SymbolCache cache{""};

  Addr libc(const char* name) const { return reinterpret_cast<Addr>(::dlsym(RTLD_DEFAULT, name)); }
  NamedAddress name(Addr a) { return name_addresses({a}, modules, cache).at(a); }
};

}  // namespace

TEST_CASE("a system call restarted after a stop is the same call") {
  const char* sleeping = "230 0x0 0x0 0x7ffd0 0x7ffd0 0x0 0x0 0x7ffc8 0x7f12";
  const char* restarted = "219 0x0 0x0 0x7ffd0 0x7ffd0 0x0 0x0 0x7ffc8 0x7f12";
  CHECK(same_system_call(sleeping, sleeping));
  CHECK(same_system_call(sleeping, restarted));
  CHECK(same_system_call(restarted, sleeping));
  CHECK_FALSE(same_system_call(sleeping, "7 0x0 0x0 0x7ffd0 0x7ffd0 0x0 0x0 0x7ffc8 0x7f12"));
  CHECK_FALSE(same_system_call(sleeping, "219 0x0 0x0 0x7ffd0 0x7ffd0 0x0 0x0 0x7ffc8 0x7f14"));
  CHECK_FALSE(same_system_call(sleeping, "-1 0x7ffc8 0x7f12"));
  CHECK_FALSE(same_system_call("", sleeping));
}

TEST_CASE("names are shortened for people") {
  CHECK(shorten("foo") == "foo");
  CHECK(shorten("a::b(int, char const*) const") == "a::b");
  CHECK(shorten("void a::b<int, std::vector<int> >(int)") == "a::b");
  CHECK(shorten("c10d::ProcessGroupNCCL::Watchdog::runLoop()") ==
        "c10d::ProcessGroupNCCL::Watchdog::runLoop");
  CHECK(shorten("(anonymous namespace)::f(int)") == "(anonymous namespace)::f");
  CHECK(shorten("std::ostream& operator<< <char>(std::ostream&, char)") == "operator<<");
  CHECK(shorten("A::operator()(int) const") == "A::operator()");
  CHECK(shorten("A::operator->() const") == "A::operator->");
  CHECK(shorten("f(int)::{lambda(int)#1}::operator()(int) const") == "f::{lambda#1}::operator()");
  CHECK(shorten("_PyEval_EvalFrameDefault.cold") == "_PyEval_EvalFrameDefault.cold");
  CHECK(shorten("take_gil [clone .isra.0]") == "take_gil");
  CHECK(shorten("operator new(unsigned long)").starts_with("operator new"));
  CHECK(shorten("a::operator1(int)") == "a::operator1");
  CHECK(shorten("A::operator<=>(A const&) const") == "A::operator<=>");
  CHECK(shorten("operator\"\"_s(char const*)").starts_with("operator\"\""));
  CHECK(shorten("<<<((({{{") == "<<<((({{{");
  CHECK(shorten("").empty());
  CHECK(demangle("_ZN3c104f_xyEv") == "c10::f_xy()");
  CHECK(demangle("main") == "main");
}

TEST_CASE("an exported symbol is found in memory as the dynamic linker finds it") {
  Self self;
  Addr libc = 0;
  Dl_info info{};
  REQUIRE(::dladdr(reinterpret_cast<void*>(self.libc("getpid")), &info) != 0);
  libc = reinterpret_cast<Addr>(info.dli_fbase);
  const auto found = find_dynamic_symbol(self.live, libc, "getppid");
  REQUIRE(found);
  CHECK(found->address == self.libc("getppid"));
  CHECK(found->size > 0);
  CHECK_FALSE(find_dynamic_symbol(self.live, libc, "no_such_symbol_here"));
  CHECK_FALSE(find_dynamic_symbol(self.live, libc + 4096, "getppid"));
  CHECK_FALSE(find_dynamic_symbol(self.live, 8, "getppid"));
}

TEST_CASE("an address has a name only inside a symbol") {
  Self self;
  const Addr function = self.libc("getppid");
  const Module* module = self.modules.find(function);
  REQUIRE(module != nullptr);
  REQUIRE(module->image != nullptr);
  CHECK(self.name(function).func == "getppid");
  CHECK(self.name(function).named);
  CHECK(self.name(function + 1).begin == function - module->bias);
  CHECK_FALSE(module->build_id.empty());
  // The first executable address that no symbol covers.
  std::vector<AddrRange> covered;
  module->image->for_each_symbol([&](const ElfSymbol& s) { covered.push_back({s.value, s.value + s.size}); });
  const auto free_address = [&](Addr a) {
    return std::none_of(covered.begin(), covered.end(), [&](const AddrRange& r) { return r.contains(a); });
  };
  Addr gap = function - module->bias;
  while (!free_address(gap)) {
    ++gap;
  }
  const auto n = self.name(gap + module->bias);
  CHECK_FALSE(n.named);
  CHECK(n.begin == 0);
  CHECK(n.func.starts_with("libc.so.6+0x"));
  CHECK(self.name(reinterpret_cast<Addr>(&self)).func == "[unknown code]");
}

TEST_CASE("an answer holds for its whole range and nowhere else") {
  Self self;
  char folder[] = "/tmp/xpurun-sym-XXXXXX";
  SymbolCache cache(std::string(::mkdtemp(folder)) + "/sym");
  const Module* module = self.modules.find(self.libc("getppid"));
  std::vector<ElfSymbol> functions;
  module->image->for_each_symbol([&](const ElfSymbol& s) {
    if (s.type == STT_FUNC && s.size > 0) {
      functions.push_back(s);
    }
  });
  // Filling the cache with few addresses must not change the names of others.
  std::vector<Addr> some;
  std::vector<Addr> all;
  for (size_t i = 0; i < functions.size(); i += 5) {
    all.push_back(module->bias + functions[i].value + (i % 3 == 0 ? 0 : functions[i].size));
    if (i % 25 == 0) {
      some.push_back(all.back());
    }
  }
  SymbolCache none("");
  const auto expected = name_addresses(all, self.modules, none);
  name_addresses(some, self.modules, cache);
  const auto mixed = name_addresses(all, self.modules, cache);
  const auto cached = name_addresses(all, self.modules, cache);
  size_t wrong = 0;
  for (Addr a : all) {
    wrong += expected.at(a).func != mixed.at(a).func || expected.at(a).func != cached.at(a).func;
  }
  CHECK(all.size() > 300);
  CHECK(wrong == 0);
  std::filesystem::remove_all(folder);
}

TEST_CASE("an index built from .eh_frame agrees with the linker's table") {
  Self self;
  const Module* module = self.modules.find(self.libc("getppid"));
  REQUIRE(module->image != nullptr);
  const auto table = find_unwind_table(*module->image);
  REQUIRE(table);
  REQUIRE(table->table_vaddr != 0);
  const auto section = module->image->section(".eh_frame");
  REQUIRE(section);
  const auto own = index_eh_frame(module->image->section_bytes(*section), section->sh_addr);
  REQUIRE(own.size() == table->count);
  const auto linker = module->image->at_vaddr(table->table_vaddr);
  size_t different = 0;
  for (size_t i = 0; i < own.size(); ++i) {
    const auto entry = field<FdeEntry>(linker, i * sizeof(FdeEntry)).value();
    different += entry.start + static_cast<int64_t>(table->base) !=
                 own[i].start + static_cast<int64_t>(section->sh_addr);
    different +=
        entry.fde + static_cast<int64_t>(table->base) != own[i].fde + static_cast<int64_t>(section->sh_addr);
  }
  CHECK(different == 0);
}

TEST_CASE("damaged ELF data is refused or empty, never fatal") {
  std::ifstream file("/proc/self/exe", std::ios::binary);
  std::string whole((std::istreambuf_iterator<char>(file)), {});
  std::vector<std::byte> bytes(std::min<size_t>(whole.size(), 1 << 20));
  std::memcpy(bytes.data(), whole.data(), bytes.size());
  CHECK_FALSE(ElfImage::from_bytes({bytes.begin(), bytes.begin() + 20}, 0));
  for (size_t step = 0; step < 400; ++step) {
    auto damaged = bytes;
    damaged[(step * 7919) % 4096] = std::byte{0xff};  // headers and program headers
    damaged.resize(damaged.size() - step * 1000);
    const auto image = ElfImage::from_bytes(std::move(damaged), 0x1000);
    if (image) {
      size_t longest = 0;
      image->for_each_symbol([&](const ElfSymbol& s) { longest = std::max(longest, s.name().size()); });
      CHECK(longest < (1 << 20));
      CHECK(image->build_id().size() <= 128);
      CHECK(image->at_vaddr(~Addr{0}).empty());
      find_unwind_table(*image);
    }
  }
}

TEST_CASE("/proc/PID/syscall is parsed") {
  CHECK(parse_kernel_stack("[<0>] futex_wait_queue+0x60/0x90\n[<0>] do_futex+0x1/0x2\n\njunk") ==
        std::vector<std::string>{"futex_wait_queue", "do_futex"});
  const auto r = from_syscall_text("202 0x1 0x2 0x3 0x4 0x5 0x6 0x7ffe10 0x7f0020\n");
  REQUIRE(r);
  CHECK(r->sp() == 0x7ffe10);
  CHECK(r->pc() == 0x7f0020);
  CHECK_FALSE(r->complete);
  CHECK_FALSE(from_syscall_text("running"));
  CHECK_FALSE(from_syscall_text("1 0x0 0x0"));
  CHECK_FALSE(from_syscall_text(""));
}
