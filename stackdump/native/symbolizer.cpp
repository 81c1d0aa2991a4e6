#include "stackdump/native/symbolizer.h"

#include "common/base/strings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cxxabi.h>
#include <map>
#include <memory>

namespace xpurun::stackdump {

namespace {

constexpr size_t kMaxSymbolName = 4096;

// A still unnamed address of one image.
struct Candidate {
  uint64_t vaddr = 0;
  Addr address = 0;
  // No symbol begins or ends inside [lo, hi), so the answer holds for the whole range.
  uint64_t lo = 0;
  uint64_t hi = ~uint64_t{0};
  bool found = false;
  ElfSymbol symbol{};  // the best match so far
};

size_t leading_underscores(std::string_view name) {
  return std::min(name.find_first_not_of('_'), name.size());
}

// Which of two names of one address is shown: a name that other modules see, then the name with fewer leading
// underscores (`select`, not `__select`), because that is the documented name.
bool better(const ElfSymbol& a, const ElfSymbol& b) {
  if (a.value != b.value) {
    return a.value > b.value;
  }
  const bool local = a.binding == STB_LOCAL;
  return local != (b.binding == STB_LOCAL) ? !local
                                           : leading_underscores(a.name()) < leading_underscores(b.name());
}

// Finds the innermost symbol around each candidate.
void look_up(const ElfImage& image, std::vector<Candidate>& sorted) {
  const auto first_from = [&sorted](uint64_t v) {
    return std::lower_bound(sorted.begin(), sorted.end(), v,
                            [](const Candidate& c, uint64_t value) { return c.vaddr < value; });
  };
  image.for_each_symbol([&](const ElfSymbol& s) {
    if ((s.type != STT_FUNC && s.type != STT_GNU_IFUNC && s.type != STT_NOTYPE) || s.size == 0 ||
        s.name_offset == 0 || s.value + s.size < s.value) {
      return;
    }
    auto it = first_from(s.value);
    if (it != sorted.begin()) {
      (it - 1)->hi = std::min((it - 1)->hi, s.value);
    }
    for (bool first = true; it != sorted.end() && it->vaddr - s.value < s.size; ++it, first = false) {
      it->lo = first ? std::max(it->lo, s.value) : it->lo;
      if (!it->found || better(s, it->symbol)) {
        it->symbol = s;
        it->found = true;
      }
    }
    if (it != sorted.begin()) {
      (it - 1)->hi = (it - 1)->vaddr < s.value ? (it - 1)->hi : std::min((it - 1)->hi, s.value + s.size);
    }
    if (it != sorted.end()) {
      it->lo = std::max(it->lo, s.value + s.size);
    }
  });
  // Bounds of a candidate also bound its neighbours.
  for (size_t i = 1; i < sorted.size(); ++i) {
    sorted[i].lo = std::max(sorted[i].lo, sorted[i - 1].lo);
  }
  for (size_t i = sorted.size(); i-- > 1;) {
    sorted[i - 1].hi = std::min(sorted[i - 1].hi, sorted[i].hi);
  }
}

// Answers all candidates from the image and, if it is stripped, from its debug file.
std::vector<SymbolRange> read_symbols(const Module& module, ModuleList& modules,
                                      std::vector<Candidate>& sorted) {
  look_up(*module.image, sorted);
  const ElfImage* debug = nullptr;
  if (std::any_of(sorted.begin(), sorted.end(), [](const Candidate& c) { return !c.found; })) {
    debug = modules.debug_image(module);
  }
  if (debug != nullptr) {
    look_up(*debug, sorted);
  }
  std::vector<SymbolRange> out;
  for (const Candidate& c : sorted) {
    if (out.empty() || out.back().lo != c.lo) {
      out.push_back({.lo = c.lo, .hi = c.hi});
      if (c.found) {
        out.back().name = c.symbol.name().substr(0, kMaxSymbolName);
        out.back().begin = c.symbol.value;
      }
    }
  }
  // The pages of large libraries would otherwise count as this process's memory.
  module.image->forget_pages();
  if (debug != nullptr) {
    debug->forget_pages();
  }
  return out;
}

const SymbolRange* range_around(const std::vector<SymbolRange>& ranges, uint64_t vaddr) {
  const auto it = std::upper_bound(ranges.begin(), ranges.end(), vaddr,
                                   [](uint64_t v, const SymbolRange& r) { return v < r.lo; });
  return it != ranges.begin() && vaddr < (it - 1)->hi ? &*(it - 1) : nullptr;
}

// The cached and the newly found ranges for all candidates of one image.
std::vector<SymbolRange> answers(const Module& module, ModuleList& modules, SymbolCache& cache,
                                 std::vector<Candidate> candidates) {
  // Without section headers (an image rebuilt from memory) many names are missing: not worth caching.
  const bool keep = !module.build_id.empty() && module.image->has_sections();
  const ElfImage* debug = keep ? modules.debug_image(module) : nullptr;
  const SymbolCache::Key key{module.build_id, module.image->file().size(),
                             debug == nullptr ? 0 : debug->file().size()};
  std::vector<SymbolRange> known;
  if (keep) {
    known = cache.load(key);
    std::erase_if(candidates, [&](const Candidate& c) { return range_around(known, c.vaddr) != nullptr; });
  }
  if (candidates.empty()) {
    return known;
  }
  std::sort(candidates.begin(), candidates.end(),
            [](const Candidate& a, const Candidate& b) { return a.vaddr < b.vaddr; });
  const auto fresh = read_symbols(module, modules, candidates);
  if (keep) {
    cache.add(key, fresh);
  }
  known.insert(known.end(), fresh.begin(), fresh.end());
  std::sort(known.begin(), known.end(),
            [](const SymbolRange& a, const SymbolRange& b) { return a.lo < b.lo; });
  return known;
}

constexpr std::string_view kOperatorChars = "<>=!+-*/%^&|~,[]\"";

bool ends_with_operator(std::string_view text) {
  constexpr std::string_view kWord = "operator";
  return text.ends_with(kWord) &&
         (text.size() == kWord.size() || text[text.size() - kWord.size() - 1] == ':' ||
          text[text.size() - kWord.size() - 1] == ' ');
}

// Position after the bracket that matches the one at `at`.
size_t skip_brackets(std::string_view s, size_t at) {
  const char open = s[at];
  const char close = open == '<' ? '>' : open == '(' ? ')' : open == '{' ? '}' : ']';
  int depth = 0;
  for (size_t i = at; i < s.size(); ++i) {
    if (s[i] == open) {
      ++depth;
    } else if (s[i] == close && (close != '>' || s[i - 1] != '-')) {
      if (--depth == 0) {
        return i + 1;
      }
    }
  }
  return s.size();
}

}  // namespace

std::string shorten(std::string_view s) {
  constexpr std::string_view kAnonymous = "(anonymous namespace)";
  std::string out;
  size_t i = 0;
  while (i < s.size()) {
    const char c = s[i];
    if (s.substr(i).starts_with(kAnonymous)) {
      out += kAnonymous;
      i += kAnonymous.size();
    } else if (ends_with_operator(out) && (c == '(' || kOperatorChars.find(c) != std::string_view::npos)) {
      // operator(), operator<<, operator->, operator[]: the brackets belong to the name.
      const size_t end = s.substr(i).starts_with("()") ? i + 2 : s.find_first_not_of(kOperatorChars, i);
      out += s.substr(i, std::min(end, s.size()) - i);
      i = std::min(end, s.size());
      if (i == s.size() || s[i] != '(') {
        continue;
      }
      i = skip_brackets(s, i);
    } else if (c == '<' || c == '(' || c == '[') {
      i = skip_brackets(s, i);
    } else if (c == '{') {
      const size_t end = skip_brackets(s, i);
      const std::string_view inner = s.substr(i, end - i);  // {lambda(int)#1}
      const size_t hash = inner.rfind('#');
      const size_t paren = inner.find('(');
      out += paren == std::string_view::npos || hash == std::string_view::npos
                 ? std::string(inner)
                 : fmt::format("{}{}", inner.substr(0, paren), inner.substr(hash));
      i = end;
    } else if (c == ' ' && !ends_with_operator(out)) {
      const std::string_view rest = s.substr(i);
      if (rest == " const" || rest == " volatile" || rest.starts_with(" const ") ||
          rest.starts_with(" [clone")) {
        break;
      }
      if (!rest.starts_with(" <")) {  // "operator<< <int>": the space only separates the brackets
        out.clear();                  // the text so far was a return type or qualifier
      }
      ++i;
    } else {
      out += c;
      ++i;
    }
  }
  return out.empty() ? std::string(s) : out;
}

std::string demangle(const std::string& symbol) {
  if (!symbol.starts_with("_Z")) {
    return symbol;
  }
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status), &std::free);
  return status == 0 && text ? std::string(text.get()) : symbol;
}

std::unordered_map<Addr, NamedAddress> name_addresses(const std::vector<Addr>& addresses, ModuleList& modules,
                                                      SymbolCache& cache) {
  std::unordered_map<Addr, NamedAddress> out;
  std::map<const ElfImage*, std::vector<Candidate>> wanted;
  for (Addr a : addresses) {
    NamedAddress& n = out[a];
    n.module = modules.find(a);
    if (n.module == nullptr) {
      n.func = "[unknown code]";
      continue;
    }
    n.func = fmt::format("{}+{:#x}", base::sanitize(n.module->name), a - n.module->bias);
    if (n.module->image != nullptr) {
      wanted[n.module->image].push_back({.vaddr = a - n.module->bias, .address = a});
    }
  }
  for (const auto& [image, candidates] : wanted) {
    const auto ranges = answers(*out[candidates.front().address].module, modules, cache, candidates);
    for (const Candidate& c : candidates) {
      const SymbolRange* range = range_around(ranges, c.vaddr);
      if (range == nullptr || range->name.empty()) {
        continue;
      }
      NamedAddress& n = out[c.address];
      const std::string full = base::sanitize(demangle(range->name));
      n.func = shorten(full);
      n.full_func = n.func == full ? "" : full;
      n.begin = range->begin;
      n.named = true;
    }
  }
  cache.save();
  return out;
}

}  // namespace xpurun::stackdump
