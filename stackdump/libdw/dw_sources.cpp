#include "common/base/clock.h"
#include "common/base/os/child.h"
#include "common/base/os/io.h"
#include "common/base/os/program.h"
#include "common/base/sanitizer.h"
#include "common/base/strings.h"
#include "stackdump/libdw/dw_engine.h"
#include "stackdump/libdw/dw_session.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <dwarf.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace xpurun::stackdump {

namespace {

constexpr rlim_t kMaxHeap = rlim_t{1} << 30;
constexpr bool kLimitHeap = !base::kAddressSanitizer;  // the shadow memory counts as data
constexpr size_t kMaxAnswer = size_t{16} << 20;

std::string text(const char* s) {
  std::string out = s == nullptr ? "" : s;
  std::replace_if(
      out.begin(), out.end(), [](char c) { return c == '\t' || c == '\n'; }, ' ');
  return out;
}

// Reads debug information; the innermost function of an address first.
class SourceReader {
 public:
  explicit SourceReader(DwSession& session) : session_(session), api_(session.api()) {}

  std::vector<SourcePlace> places(Addr a) {
    std::vector<SourcePlace> out;
    Dwfl_Module* module = session_.report(a) ? api_.dwfl_addrmodule(session_.dwfl(), a) : nullptr;
    if (module == nullptr) {
      return out;
    }
    SourcePlace here;
    if (Dwfl_Line* line = api_.dwfl_module_getsrc(module, a)) {
      here.file = text(api_.dwfl_lineinfo(line, nullptr, &here.line, nullptr, nullptr, nullptr));
    }
    Dwarf_Addr bias = 0;
    if (Dwarf_Die* unit = unit_of(module, a, &bias)) {
      inlined(unit, a - bias, here, out);
    }
    if (!here.file.empty()) {
      here.function.clear();
      out.push_back(std::move(here));
    }
    return out;
  }

 private:
  Dwarf_Die* unit_of(Dwfl_Module* module, Addr a, Dwarf_Addr* bias) {
    if (Dwarf_Die* unit = api_.dwfl_module_addrdie(module, a, bias)) {
      return unit;
    }
    // clang does not write .debug_aranges by default, so the compilation units are searched one by one.
    Dwarf_Die* unit = nullptr;
    while ((unit = api_.dwfl_module_nextcu(module, unit, bias)) != nullptr) {
      if (api_.dwarf_haspc(unit, a - *bias) == 1) {
        return unit;
      }
    }
    return nullptr;
  }

  std::string name_of(Dwarf_Die* die) {
    Dwarf_Attribute attribute;
    if (api_.dwarf_attr_integrate(die, DW_AT_linkage_name, &attribute) != nullptr) {
      return text(api_.dwarf_formstring(&attribute));
    }
    // A function of internal linkage has no linkage name: its name, prefixed with the enclosing namespaces
    // and classes.
    std::string name = text(api_.dwarf_diename(die));
    Dwarf_Die origin;
    if (name.empty() || api_.dwarf_attr(die, DW_AT_abstract_origin, &attribute) == nullptr ||
        api_.dwarf_formref_die(&attribute, &origin) == nullptr) {
      return name;
    }
    Dwarf_Die declared = origin;
    if (api_.dwarf_attr(&origin, DW_AT_specification, &attribute) != nullptr &&
        api_.dwarf_formref_die(&attribute, &declared) == nullptr) {
      return name;
    }
    Dwarf_Die* scopes = nullptr;
    const int n = api_.dwarf_getscopes_die(&declared, &scopes);
    for (int i = 1; i < n; ++i) {
      const int tag = api_.dwarf_tag(&scopes[i]);
      if (tag == DW_TAG_namespace || tag == DW_TAG_class_type || tag == DW_TAG_structure_type) {
        const std::string around = text(api_.dwarf_diename(&scopes[i]));
        name = fmt::format("{}::{}", around.empty() ? "(anonymous namespace)" : around, name);
      }
    }
    if (n > 0) {
      std::free(scopes);
    }
    return name;
  }

  // Sets `place` to the call site of the inlined function.
  void call_site(Dwarf_Die* unit, Dwarf_Die* die, SourcePlace& place) {
    Dwarf_Attribute attribute;
    Dwarf_Word value = 0;
    Dwarf_Files* files = nullptr;
    if (api_.dwarf_attr(die, DW_AT_call_line, &attribute) != nullptr &&
        api_.dwarf_formudata(&attribute, &value) == 0) {
      place.line = static_cast<int>(value);
    }
    if (api_.dwarf_attr(die, DW_AT_call_file, &attribute) != nullptr &&
        api_.dwarf_formudata(&attribute, &value) == 0 && api_.dwarf_getsrcfiles(unit, &files, nullptr) == 0) {
      place.file = text(api_.dwarf_filesrc(files, value, nullptr, nullptr));
    }
  }

  // Appends the inlined functions around `pc`; afterwards `place` is the call site of the outermost one.
  void inlined(Dwarf_Die* unit, Dwarf_Addr pc, SourcePlace& place, std::vector<SourcePlace>& out) {
    Dwarf_Die* found = nullptr;
    const int n = api_.dwarf_getscopes(unit, pc, &found);
    for (int i = 0; i < n; ++i) {
      const int tag = api_.dwarf_tag(&found[i]);
      if (tag != DW_TAG_subprogram && tag != DW_TAG_inlined_subroutine) {
        continue;
      }
      // The scopes of this entry count. The scopes of the address lead to the definition of the inlined
      // function instead of its call.
      Dwarf_Die* scopes = nullptr;
      const int depth = api_.dwarf_getscopes_die(&found[i], &scopes);
      for (int k = 0; k < depth && api_.dwarf_tag(&scopes[k]) != DW_TAG_subprogram; ++k) {
        if (api_.dwarf_tag(&scopes[k]) == DW_TAG_inlined_subroutine) {
          place.function = name_of(&scopes[k]);
          if (!place.function.empty()) {
            out.push_back(place);
          }
          call_site(unit, &scopes[k], place);
        }
      }
      std::free(scopes);
      break;
    }
    if (n > 0) {
      std::free(found);
    }
  }

  DwSession& session_;
  const LibDw& api_;
};

bool has_debug_info(const ElfImage* image) {
  return image != nullptr && (image->section(".debug_info") || image->section(".zdebug_info"));
}

// Main function of the child. Output: one tab-separated line per place; an empty function and file end an
// address.
void answer(const std::vector<Addr>& addresses, ModuleList& modules, int pipe) {
  auto session = DwSession::open(modules);
  if (!session) {
    static_cast<void>(base::write_all(pipe, "!" + base::to_line(session.error()) + '\n'));
    return;
  }
  for (Addr a : addresses) {
    (*session)->report(a);
  }
  SourceReader reader(**session);
  for (Addr a : addresses) {
    std::string lines;
    for (const SourcePlace& p : reader.places(a)) {
      lines += fmt::format("{:x}\t{}\t{}\t{}\n", a, p.line, p.function, p.file);
    }
    if (!base::write_all(pipe, lines)) {
      return;
    }
  }
  static_cast<void>(base::write_all(pipe, ".\n"));
}

// The output of the child until the child ends or the time limit passes.
std::string read_until(int fd, base::MonoNs deadline) {
  std::string out;
  std::array<char, 65536> part{};
  for (;;) {
    pollfd p{.fd = fd, .events = POLLIN};
    const int64_t left = deadline - base::mono_ns();
    if (left <= 0 || out.size() > kMaxAnswer) {
      return out;
    }
    if (::poll(&p, 1, static_cast<int>(left / 1'000'000 + 1)) > 0) {
      const ssize_t n = ::read(fd, part.data(), part.size());
      if (n <= 0) {
        return out;
      }
      out.append(part.data(), static_cast<size_t>(n));
    }
  }
}

struct Answer {
  SourceLookup found;
  bool whole = false;  // the child finished: an address without output has no source line
};

// "line<TAB>function<TAB>file"
std::optional<SourcePlace> place_from(std::span<const std::string_view> fields) {
  if (fields.size() != 3) {
    return std::nullopt;
  }
  return SourcePlace{std::string(fields[1]), std::string(fields[2]),
                     static_cast<int>(base::parse_int(fields[0]).value_or(0))};
}

Answer parse(std::string_view answer) {
  Answer parsed;
  SourceLookup& out = parsed.found;
  // A child that was killed may leave half a line.
  const size_t end = answer.rfind('\n');
  for (std::string_view line : base::split(answer.substr(0, end == std::string_view::npos ? 0 : end), '\n')) {
    if (line.starts_with('!')) {
      out.note = "no source lines of native frames: " + base::sanitize(line.substr(1));
      return parsed;
    }
    parsed.whole = parsed.whole || line == ".";
    const auto fields = base::split(line, '\t');
    const auto address = base::parse_hex(fields[0]);
    if (auto place = place_from(std::span(fields).subspan(1)); place && address) {
      out.places[*address].push_back(std::move(*place));
    }
  }
  if (!parsed.whole) {
    out.note = "some native frames have no source line: reading debug information took too long or failed";
  }
  return parsed;
}

// The cache entry of an address: one place per line.
std::string encode(const std::vector<SourcePlace>& places) {
  std::string out;
  for (const SourcePlace& p : places) {
    out += fmt::format("{}\t{}\t{}\n", p.line, p.function, p.file);
  }
  return out;
}

std::vector<SourcePlace> decode(std::string_view text) {
  std::vector<SourcePlace> out;
  for (std::string_view line : base::split(text, '\n')) {
    if (auto place = place_from(base::split(line, '\t'))) {
      out.push_back(std::move(*place));
    }
  }
  return out;
}

// Places are stored like names, in their own cache file.
SymbolCache::Key key_of(const Module& m, const ElfImage* debug) {
  return {m.build_id.empty() ? "" : m.build_id + "-lines", m.image->file().size(),
          debug == nullptr ? 0 : debug->file().size()};
}

std::string run_child(const std::vector<Addr>& wanted, ModuleList& modules, base::MonoNs deadline) {
  auto pipe = base::make_pipe();
  if (!pipe) {
    return {};
  }
  // In a child, because libdw may crash on damaged debug information, or need all memory.
  const auto child = base::fork_child(base::ChildLife::ends_with_parent, [&] {
    if constexpr (kLimitHeap) {
      const rlimit heap{kMaxHeap, kMaxHeap};
      // Since Linux 4.7, RLIMIT_DATA also counts private mappings, which malloc() uses for large blocks.
      ::setrlimit(RLIMIT_DATA, &heap);
    }
    answer(wanted, modules, pipe->write_end.get());
    return 0;
  });
  if (!child) {
    return {};
  }
  // Otherwise this end would keep the pipe open after the end of the child.
  pipe->write_end.reset();
  std::string text = read_until(pipe->read_end.get(), deadline);
  ::kill(*child, SIGKILL);
  ::waitpid(*child, nullptr, 0);
  return text;
}

}  // namespace

SourceLookup look_up_sources(const std::vector<Addr>& addresses, ModuleList& modules, SymbolCache& cache,
                             int64_t budget_ns) {
  const base::MonoNs deadline = base::mono_ns() + budget_ns;
  struct Known {
    bool has_lines = false;
    SymbolCache::Key key;
    std::vector<SymbolRange> places;
  };
  std::map<const ElfImage*, Known> images;
  SourceLookup out;
  std::vector<Addr> wanted;
  for (Addr a : addresses) {
    const Module* m = modules.find(a);
    if (m == nullptr || m->image == nullptr) {
      continue;
    }
    const auto [it, is_new] = images.try_emplace(m->image);
    Known& known = it->second;
    if (is_new) {
      const ElfImage* debug = modules.debug_image(*m);
      known.has_lines = has_debug_info(m->image) || has_debug_info(debug);
      known.key = key_of(*m, debug);
      if (known.has_lines && !known.key.build_id.empty()) {
        known.places = cache.load(known.key);
      }
    }
    if (!known.has_lines) {
      continue;
    }
    const uint64_t vaddr = a - m->bias;
    const auto place = std::lower_bound(known.places.begin(), known.places.end(), vaddr,
                                        [](const SymbolRange& r, uint64_t v) { return r.lo < v; });
    if (place == known.places.end() || place->lo != vaddr) {
      wanted.push_back(a);
    } else if (auto places = decode(place->name); !places.empty()) {
      out.places.emplace(a, std::move(places));
    }
  }
  if (wanted.empty()) {
    return out;
  }
  Answer fresh = parse(run_child(wanted, modules, deadline));
  for (Addr a : wanted) {
    const Module* m = modules.find(a);
    const auto it = fresh.found.places.find(a);
    const Known& known = images[m->image];
    std::string text = it == fresh.found.places.end() ? "" : encode(it->second);
    // Without the child's end, an address without output may be one that it did not reach.
    if (fresh.whole && !known.key.build_id.empty() && text.size() <= SymbolCache::kMaxName) {
      cache.add(known.key, {{a - m->bias, a - m->bias + 1, std::move(text)}});
    }
  }
  cache.save();
  out.places.merge(fresh.found.places);
  out.note = std::move(fresh.found.note);
  return out;
}

}  // namespace xpurun::stackdump
