#include "common/model/frame_text.h"

#include "common/base/strings.h"

#include <fmt/format.h>

namespace xpurun::model {

std::string_view source_name(std::string_view path) {
  const std::string_view name = base::base_name(path);
  if (!name.starts_with("__") || name.size() == path.size()) {
    return name;
  }
  const std::string_view folder = path.substr(0, path.size() - name.size() - 1);
  return folder.empty() ? name : path.substr(folder.size() - base::base_name(folder).size());
}

std::string short_location(const Frame& f) {
  if (f.file.empty()) {
    return {};
  }
  const auto name = source_name(f.file);
  return f.line > 0 ? fmt::format("{}:{}", name, f.line) : std::string(name);
}

std::string frame_label(const Frame& f) {
  const std::string func = base::sanitize(f.func);
  switch (f.kind) {
    case FrameKind::python: {
      const std::string where = base::sanitize(short_location(f));
      return where.empty() ? func : fmt::format("{} ({})", func, where);
    }
    case FrameKind::native:
      if (f.line > 0) {
        return fmt::format("{} ({})", func, base::sanitize(short_location(f)));
      }
      return f.module.empty() || func.starts_with(f.module)
                 ? func
                 : fmt::format("{} ({})", func, base::sanitize(f.module));
    case FrameKind::kernel:
      return fmt::format("{} [kernel]", func);
    case FrameKind::gpu:
      return fmt::format("{} [gpu]", func);
    case FrameKind::marker:
      break;
  }
  return fmt::format("[{}]", func);
}

std::string line_label(std::string_view function, std::string_view file, int line) {
  if (function.empty() || file.empty()) {
    return std::string(function);
  }
  const std::string_view name = source_name(file);
  return line > 0 ? fmt::format("{}:{} {}", name, line, function) : fmt::format("{} {}", name, function);
}

}  // namespace xpurun::model
