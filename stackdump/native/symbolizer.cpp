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

constexpr size_t kMaxName = 4096;

struct Candidate {
  uint64_t vaddr = 0;
  Addr address = 0;
  uint64_t value = 0;  // of the best symbol so far
  bool global = false;
  std::string_view name;
};

// Fills in the innermost symbol around each candidate; of equals a global one.
void look_up(const ElfImage& image, std::vector<Candidate>& sorted) {
  image.for_each_symbol([&](const ElfSymbol& s) {
    if (s.type != STT_FUNC && s.type != STT_GNU_IFUNC && s.type != STT_NOTYPE) {
      return;
    }
    if (s.size == 0 || s.name.empty()) {
      return;
    }
    auto it = std::lower_bound(sorted.begin(), sorted.end(), s.value,
                               [](const Candidate& c, uint64_t v) { return c.vaddr < v; });
    for (; it != sorted.end() && it->vaddr - s.value < s.size; ++it) {
      const bool global = s.binding != STB_LOCAL;
      if (it->name.empty() || s.value > it->value || (s.value == it->value && global && !it->global)) {
        it->value = s.value;
        it->global = global;
        it->name = s.name;
      }
    }
  });
}

// Debug symbols that the distribution installed apart from the program.
std::unique_ptr<ElfImage> separate_symbols(const std::string& build_id) {
  if (build_id.size() < 3) {
    return nullptr;
  }
  auto image = ElfImage::from_file(
      fmt::format("/usr/lib/debug/.build-id/{}/{}.debug", build_id.substr(0, 2), build_id.substr(2)));
  return image ? std::make_unique<ElfImage>(std::move(*image)) : nullptr;
}

bool ends_with_operator(std::string_view text) {
  constexpr std::string_view kWord = "operator";
  return text.ends_with(kWord) &&
         (text.size() == kWord.size() || text[text.size() - kWord.size() - 1] == ':' ||
          text[text.size() - kWord.size() - 1] == ' ');
}

// Position behind the bracket that matches the one at `at`.
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
    } else if (ends_with_operator(out) && c != ' ') {
      // operator(), operator<<, operator->, operator[]: the brackets belong to the name.
      const size_t end = s.substr(i).starts_with("()") ? i + 2 : s.find_first_not_of("<>=!+-*/%^&|~,[]\"", i);
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
      if (!rest.starts_with(" <")) {  // "operator<< <int>": the space only keeps the brackets apart
        out.clear();                  // what came before was a return type or qualifier
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

std::unordered_map<Addr, NamedAddress> name_addresses(const std::vector<Addr>& addresses,
                                                      ModuleList& modules) {
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
  for (auto& [image, candidates] : wanted) {
    std::sort(candidates.begin(), candidates.end(),
              [](const Candidate& a, const Candidate& b) { return a.vaddr < b.vaddr; });
    look_up(*image, candidates);
    std::unique_ptr<ElfImage> debug;  // must outlive the names in candidates
    if (std::any_of(candidates.begin(), candidates.end(),
                    [](const Candidate& c) { return c.name.empty(); })) {
      debug = separate_symbols(image->build_id());
      if (debug != nullptr) {
        look_up(*debug, candidates);
      }
    }
    for (const Candidate& c : candidates) {
      if (c.name.empty()) {
        continue;
      }
      NamedAddress& n = out[c.address];
      const std::string full = base::sanitize(demangle(std::string(c.name.substr(0, kMaxName))));
      n.func = shorten(full);
      n.full_func = n.func == full ? "" : full;
      n.named = true;
    }
  }
  return out;
}

}  // namespace xpurun::stackdump
