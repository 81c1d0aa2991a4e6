#include "stackdump/debuggers/rust_names.h"

#include "common/base/strings.h"
#include "stackdump/debuggers/child_tool.h"
#include "stackdump/native/symbolizer.h"

#include <map>
#include <string>

namespace xpurun::stackdump {

namespace {

// "rayon[c085af4b5eab0e0]::registry" -> "rayon::registry": the hash tells crates of one name apart.
std::string without_hashes(std::string text) {
  constexpr size_t kShortestHash = 8;
  for (size_t at = text.find('['); at != std::string::npos; at = text.find('[', at + 1)) {
    const size_t end = text.find_first_not_of("0123456789abcdef", at + 1);
    if (end != std::string::npos && text[end] == ']' && end - at > kShortestHash) {
      text.erase(at, end + 1 - at);
    }
  }
  return text;
}

}  // namespace

void demangle_rust(std::vector<model::ThreadStack>& threads) {
  constexpr std::string_view kPrefix = "_R";
  constexpr size_t kMostNames = 1000;
  constexpr int64_t kLimitNs = 2'000'000'000;
  std::map<std::string, std::string> names;
  const auto each = [&](const auto& use) {
    for (model::ThreadStack& t : threads) {
      for (model::Frame& f : t.frames) {
        const std::string& whole = f.full_func.empty() ? f.func : f.full_func;
        if (f.kind == model::FrameKind::native && whole.starts_with(kPrefix)) {
          use(f, whole);
        }
      }
    }
  };
  each([&](const model::Frame&, const std::string& whole) {
    if (names.size() < kMostNames) {
      names.emplace(whole, "");
    }
  });
  if (names.empty() || !tool_exists("c++filt")) {
    return;
  }
  std::vector<std::string> argv = {"c++filt"};
  for (const auto& [mangled, name] : names) {
    argv.push_back(mangled);
  }
  const auto said = run_tool(argv, kLimitNs);
  const auto lines = said ? base::split(said->out, '\n') : std::vector<std::string_view>();
  if (lines.size() < names.size()) {
    return;
  }
  size_t line = 0;
  for (auto& [mangled, name] : names) {
    name = without_hashes(base::sanitize(lines[line++]));
  }
  each([&](model::Frame& f, const std::string& whole) {
    const std::string full = names[whole];
    f.func = full.empty() ? f.func : shorten(full);
    f.full_func = f.func == full ? "" : full;
  });
}

}  // namespace xpurun::stackdump
