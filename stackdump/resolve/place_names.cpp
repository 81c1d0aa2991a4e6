#include "stackdump/resolve/place_names.h"

#include "common/base/strings.h"
#include "stackdump/libdw/dw_engine.h"
#include "stackdump/memory/live_memory.h"
#include "stackdump/native/symbolizer.h"

#include <fmt/format.h>

namespace xpurun::stackdump {

std::vector<std::pair<Addr, std::string>> name_places(const ModuleFiles& files, const std::string& mappings,
                                                      const std::vector<Addr>& places,
                                                      const ResolveSettings& settings) {
  LiveMemory memory(files.pid);
  ModuleList modules(files, ProcMaps::parse(mappings), memory);
  SymbolCache cache(settings.cache_directory);
  const auto names = name_addresses(places, modules, cache);
  const auto lines = look_up_sources(places, modules, cache, settings.line_budget_ns).places;
  std::vector<std::pair<Addr, std::string>> out;
  for (const Addr place : places) {
    const auto name = names.find(place);
    const auto line = lines.find(place);
    if (name == names.end()) {
      continue;
    }
    std::string text = name->second.func;
    if (line != lines.end() && !line->second.empty() && line->second.front().line > 0) {
      const SourcePlace& inner = line->second.front();
      text = fmt::format("{}:{} ({})", base::base_name(inner.file), inner.line,
                         inner.function.empty() ? text : shorten(demangle(inner.function)));
    } else if (name->second.named && name->second.module != nullptr) {
      text = fmt::format("{} ({})", name->second.module->name, text);
    }
    out.emplace_back(place, std::move(text));
  }
  cache.save();
  return out;
}

}  // namespace xpurun::stackdump
