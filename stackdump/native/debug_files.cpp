#include "stackdump/native/debug_files.h"

#include "common/base/packing.h"
#include "common/base/strings.h"

#include <fmt/format.h>

#include <cstring>

namespace xpurun::stackdump {

namespace {

constexpr size_t kMaxChecksummed = size_t{1} << 30;
constexpr std::string_view kDebugRoot = "/usr/lib/debug";

struct DebugLink {
  std::string name;
  uint32_t crc = 0;
};

std::optional<DebugLink> debug_link(const ElfImage& image) {
  const auto section = image.section(".gnu_debuglink");
  if (!section) {
    return std::nullopt;
  }
  const auto bytes = image.section_bytes(*section);
  const auto* text = reinterpret_cast<const char*>(bytes.data());
  const size_t length = bytes.empty() ? 0 : ::strnlen(text, bytes.size());
  const auto crc = field<uint32_t>(bytes, (length + 4) & ~size_t{3});  // after the NUL, aligned
  const std::string name(text, length);
  if (!crc || name.empty() || name.find('/') != std::string::npos) {
    return std::nullopt;
  }
  return DebugLink{name, *crc};
}

// The root of the process's file system (a container's files differ from the host's), then this process's own
// root.
std::vector<std::string> roots(const ModuleFiles& files) {
  std::vector<std::string> out;
  if (files.pid != 0) {
    out.push_back(fmt::format("/proc/{}/root", files.pid));
  } else if (!files.sysroot.empty()) {
    out.push_back(files.sysroot);
  }
  out.emplace_back();
  return out;
}

}  // namespace

std::optional<ElfImage> find_debug_file(const ModuleFiles& files, const std::string& path,
                                        const ElfImage& image) {
  const std::string id = image.build_id();
  std::vector<std::string> by_id;
  std::vector<std::string> by_link;
  const auto link = debug_link(image);
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "" : path.substr(0, slash);
  const std::string id_name =
      id.size() < 3 ? "" : fmt::format(".build-id/{}/{}.debug", id.substr(0, 2), id.substr(2));
  if (!files.symbols.empty()) {
    if (!id_name.empty()) {
      by_id.push_back(files.symbols + '/' + id_name);
    }
    by_link.push_back(files.symbols + '/' +
                      (link ? link->name : std::string(base::base_name(path)) + ".debug"));
  }
  for (const std::string& root : roots(files)) {
    if (!id_name.empty()) {
      by_id.push_back(fmt::format("{}{}/{}", root, kDebugRoot, id_name));
    }
    if (link) {
      for (const std::string& place : {folder, folder + "/.debug", std::string(kDebugRoot) + folder}) {
        by_link.push_back(fmt::format("{}{}/{}", root, place, link->name));
      }
    }
  }
  for (const auto* places : {&by_id, &by_link}) {
    for (const std::string& place : *places) {
      auto found = ElfImage::from_file(place);
      if (!found) {
        continue;
      }
      // A file of the right name may be of another build: the build ids decide, else the checksum of
      // .gnu_debuglink.
      const std::string its_id = found->build_id();
      const std::string_view bytes(reinterpret_cast<const char*>(found->file().data()), found->file().size());
      const bool same = !id.empty() && !its_id.empty()
                            ? id == its_id
                            : link && bytes.size() <= kMaxChecksummed && base::crc32(bytes) == link->crc;
      if (same) {
        return std::move(*found);
      }
    }
  }
  return std::nullopt;
}

}  // namespace xpurun::stackdump
