// Names for addresses. A name is given only if the address lies in [value, value + size) of that symbol;
// otherwise the answer is module+0xoffset, never a neighbour. All addresses of one image are answered in a
// single pass over its symbol table, so even a large table is neither sorted nor copied. The answers go to
// the cache, with the range in which they hold.
#pragma once

#include "stackdump/native/modules.h"
#include "stackdump/native/symbol_cache.h"

#include <unordered_map>
#include <vector>

namespace xpurun::stackdump {

struct NamedAddress {
  std::string func;       // demangled and shortened, "libx.so+0x1f", or "[unknown code]"
  std::string full_func;  // whole demangled name, if different
  bool named = false;     // a symbol was found
  uint64_t begin = 0;     // of the symbol, relative to the module's load bias
  const Module* module = nullptr;
};

// Shortens a demangled C++ name: no arguments, template arguments, return type or clone suffix.
// "void a::b<int>(int) const [clone .cold]" -> "a::b".
std::string shorten(std::string_view demangled);
// Demangles an Itanium C++ ABI name; returns any other name unchanged.
std::string demangle(const std::string& symbol);

// The answers for all `addresses`, by address. Addresses in `cache` are not looked up again; new answers are
// added to the cache.
std::unordered_map<Addr, NamedAddress> name_addresses(const std::vector<Addr>& addresses, ModuleList& modules,
                                                      SymbolCache& cache);

}  // namespace xpurun::stackdump
