#include "stackdump/native/modules.h"

#include "common/base/strings.h"
#include "stackdump/native/debug_files.h"

#include <fmt/format.h>

#include <array>
#include <sys/stat.h>

namespace xpurun::stackdump {

namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kMaxImageFromMemory = uint64_t{256} << 20;

std::string image_key(const Mapping& m) {
  return fmt::format("{}/{}/{}", m.device, m.inode, m.path);
}

bool has_inode(const std::string& path, uint64_t inode) {
  struct stat st {};
  // The device number is not compared: on overlay file systems, stat() and maps report different numbers.
  return ::stat(path.c_str(), &st) == 0 && S_ISREG(st.st_mode) && st.st_ino == inode;
}

bool is_regular(const std::string& path) {
  struct stat st {};
  return ::stat(path.c_str(), &st) == 0 && S_ISREG(st.st_mode);
}

// Whether the loaded segments of two images have the same places and sizes.
bool same_segments(const std::vector<Elf64_Phdr>& a, const std::vector<Elf64_Phdr>& b) {
  const auto loaded = [](const std::vector<Elf64_Phdr>& all) {
    std::vector<std::array<uint64_t, 5>> out;
    for (const Elf64_Phdr& p : all) {
      if (p.p_type == PT_LOAD) {
        out.push_back({p.p_flags, p.p_offset, p.p_vaddr, p.p_filesz, p.p_memsz});
      }
    }
    return out;
  };
  return loaded(a) == loaded(b);
}

}  // namespace

std::optional<uint64_t> load_bias(const std::vector<Elf64_Phdr>& segments, const Mapping& mapping) {
  std::optional<uint64_t> found;
  for (const Elf64_Phdr& p : segments) {
    if (p.p_type != PT_LOAD || p.p_filesz == 0) {
      continue;
    }
    const uint64_t first_page = p.p_offset & ~(kPage - 1);
    if (mapping.offset < first_page || mapping.offset >= p.p_offset + p.p_filesz) {
      continue;
    }
    const uint64_t bias = mapping.lo - ((p.p_vaddr & ~(kPage - 1)) + (mapping.offset - first_page));
    // Neighbouring segments may share a page of the file; the permissions distinguish them.
    const bool same_use = ((p.p_flags & PF_X) != 0) == mapping.executable;
    if (same_use) {
      return bias;
    }
    if (!found) {
      found = bias;
    }
  }
  return found;
}

ModuleList::ModuleList(ModuleFiles files, ProcMaps maps, RemoteMemory& memory)
    : files_(std::move(files)), maps_(std::move(maps)), memory_(memory) {}

void ModuleList::update(ProcMaps maps) {
  maps_ = std::move(maps);
  modules_.clear();
}

bool ModuleList::is_executable(Addr a) const {
  const Mapping* m = maps_.find(a);
  return m != nullptr && m->executable;
}

base::Result<ElfImage> ModuleList::image_from_memory(const Mapping& mapping) {
  // Lays out the mappings of the same file by file offset. Without the mapping at offset 0 there are no
  // headers.
  std::vector<std::byte> bytes;
  std::optional<Addr> base;
  for (const Mapping& m : maps_.all()) {
    if (image_key(m) != image_key(mapping) || !m.readable || m.writable) {
      continue;
    }
    if (m.offset == 0) {
      if (base && m.lo > mapping.lo) {
        break;  // the next copy of the same file
      }
      base = m.lo;
      bytes.clear();
    }
    // In a snapshot from elsewhere, offset and size may be anything.
    if (!base || m.offset > kMaxImageFromMemory || m.range().size() > kMaxImageFromMemory - m.offset) {
      continue;
    }
    // Detects unmapped memory before the buffer for the whole image is allocated.
    if (!memory_.value<std::byte>(m.lo) || !memory_.value<std::byte>(m.hi - 1)) {
      return base::fail(fmt::format("cannot read {} from memory", m.path));
    }
    const uint64_t end = m.offset + m.range().size();
    if (bytes.size() < end) {
      bytes.resize(end);
    }
    if (!memory_.read(m.lo, std::span(bytes).subspan(m.offset, m.range().size()))) {
      return base::fail(fmt::format("cannot read {} from memory", m.path));
    }
  }
  if (!base) {
    return base::fail(fmt::format("{} has no mapped header", mapping.path));
  }
  return ElfImage::from_bytes(std::move(bytes), *base);
}

base::Result<ElfImage> ModuleList::open_image(const Mapping& m) {
  if (files_.pid == 0) {
    return open_remembered(m);
  }
  if (m.is_file()) {
    const std::string in_root = fmt::format("/proc/{}/root{}", files_.pid, m.path);
    if (!m.deleted && has_inode(in_root, m.inode)) {
      return ElfImage::from_file(in_root);
    }
    // The link to the mapped file itself, independent of renames and deletion; needs privilege.
    if (auto image =
            ElfImage::from_file(fmt::format("/proc/{}/map_files/{:x}-{:x}", files_.pid, m.lo, m.hi))) {
      return image;
    }
    if (!m.deleted && has_inode(m.path, m.inode)) {
      return ElfImage::from_file(m.path);
    }
  }
  return image_from_memory(m);
}

// The file of a process that ran elsewhere or has ended: only the identical file is accepted.
base::Result<ElfImage> ModuleList::open_remembered(const Mapping& m) {
  const auto facts = files_.facts.find(m.path);
  const std::string id = facts == files_.facts.end() ? "" : facts->second.build_id;
  if (!m.is_file()) {
    return image_from_memory(m);
  }
  const std::string name(base::base_name(m.path));
  std::vector<std::string> places;
  if (!files_.program.empty() && m.path == files_.program_path) {
    places.push_back(files_.program);
  }
  places.push_back(files_.sysroot + m.path);
  if (!files_.symbols.empty()) {
    places.push_back(files_.symbols + '/' + name);
    if (id.size() > 2) {
      places.push_back(fmt::format("{}/.build-id/{}/{}", files_.symbols, id.substr(0, 2), id.substr(2)));
    }
  }
  bool other = false;
  for (const std::string& place : places) {
    if (!is_regular(place)) {
      continue;
    }
    auto image = ElfImage::from_file(place);
    if (image && (id.empty() ? may_be_unverified(m, *image) : image->build_id() == id)) {
      return image;
    }
    other = other || image.has_value();
  }
  if (files_.core_ns == 0) {
    return base::fail(fmt::format("{} {} {}", name,
                                  other ? "is another build here than" : "is not here, wanted",
                                  id.empty() ? "one without build id" : "build id " + id));
  }
  if (auto image = image_from_memory(m)) {  // of a core file with all pages
    return image;
  }
  const std::string which = id.empty() ? "" : fmt::format(" (build id {})", id);
  return base::fail(
      other ? fmt::format("{} differs from the one of the core{}: its frames have no names", name, which)
            : fmt::format("{} of the core is not here{}: its frames have no names; --sysroot "
                          "or --symbols names its place",
                          name, which));
}

// A file without a build id is trusted only from a place that the user named, or at the path in a core file
// if nothing in the core speaks against it.
bool ModuleList::may_be_unverified(const Mapping& m, const ElfImage& image) const {
  if (!files_.sysroot.empty()) {
    return true;
  }
  if (files_.core_ns == 0 || m.deleted) {
    return false;
  }
  const auto facts = files_.facts.find(m.path);
  return facts == files_.facts.end() || same_segments(facts->second.segments, image.segments());
}

const ModuleList::OpenedImage& ModuleList::image_for(const Mapping& mapping) {
  const std::string key = image_key(mapping);
  auto it = images_.find(key);
  if (it == images_.end()) {
    auto image = open_image(mapping);
    it = images_
             .emplace(key, image ? OpenedImage(std::make_unique<ElfImage>(std::move(*image)))
                                 : OpenedImage(tl::unexpected(std::move(image.error()))))
             .first;
  }
  return it->second;
}

std::vector<std::string> ModuleList::missing() const {
  std::vector<std::string> out;
  for (const auto& [key, image] : images_) {
    if (!image) {
      out.push_back(base::sanitize(base::to_line(image.error())));
    }
  }
  return out;
}

const ElfImage* ModuleList::debug_image(const Module& module) {
  if (module.image == nullptr) {
    return nullptr;
  }
  auto it = debug_images_.find(module.image);
  if (it == debug_images_.end()) {
    auto found = find_debug_file(files_, module.path, *module.image);
    it = debug_images_.emplace(module.image, found ? std::make_unique<ElfImage>(std::move(*found)) : nullptr)
             .first;
  }
  return it->second.get();
}

const Module* ModuleList::find(Addr a) {
  const Mapping* mapping = maps_.find(a);
  if (mapping == nullptr || (!mapping->is_file() && mapping->path != "[vdso]")) {
    return nullptr;
  }
  auto it = modules_.find(mapping->lo);
  if (it == modules_.end()) {
    auto module = std::make_unique<Module>();
    module->range = mapping->range();
    module->path = mapping->path;
    module->name = std::string(base::base_name(mapping->path));
    const OpenedImage& image = image_for(*mapping);
    const auto facts = files_.facts.find(mapping->path);
    std::optional<uint64_t> bias;
    if (image) {
      module->image = image->get();
      bias = load_bias(module->image->segments(), *mapping);
      module->build_id = module->image->build_id();
    } else {
      module->why_no_image = base::sanitize(base::to_line(image.error()));
      if (facts != files_.facts.end()) {
        bias = load_bias(facts->second.segments, *mapping);
        module->build_id = facts->second.build_id;
      }
    }
    if (!bias) {
      // A data file, or a file that differs from the mapped one: addresses then count from the start of the
      // file.
      module->image = nullptr;
      bias = mapping->lo - mapping->offset;
    }
    module->bias = *bias;
    it = modules_.emplace(mapping->lo, std::move(module)).first;
  }
  return it->second.get();
}

}  // namespace xpurun::stackdump
