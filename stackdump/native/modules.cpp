#include "stackdump/native/modules.h"

#include "common/base/strings.h"

#include <fmt/format.h>

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
  // The device number is not compared: overlay file systems show another one here than in maps.
  return ::stat(path.c_str(), &st) == 0 && S_ISREG(st.st_mode) && st.st_ino == inode;
}

}  // namespace

std::optional<uint64_t> load_bias(const ElfImage& image, const Mapping& mapping) {
  std::optional<uint64_t> found;
  for (const Elf64_Phdr& p : image.segments()) {
    if (p.p_type != PT_LOAD || p.p_filesz == 0) {
      continue;
    }
    const uint64_t first_page = p.p_offset & ~(kPage - 1);
    if (mapping.offset < first_page || mapping.offset >= p.p_offset + p.p_filesz) {
      continue;
    }
    const uint64_t bias = mapping.lo - ((p.p_vaddr & ~(kPage - 1)) + (mapping.offset - first_page));
    // Neighbouring segments may share a page of the file; the permissions tell which one this is.
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

ModuleList::ModuleList(base::Pid pid, ProcMaps maps, LiveMemory& memory)
    : pid_(pid), maps_(std::move(maps)), memory_(memory) {}

void ModuleList::update(ProcMaps maps) {
  maps_ = std::move(maps);
  modules_.clear();
}

bool ModuleList::is_executable(Addr a) const {
  const Mapping* m = maps_.find(a);
  return m != nullptr && m->executable;
}

base::Result<ElfImage> ModuleList::image_from_memory(const Mapping& mapping) {
  // Lay the mappings of the same file out by file offset. Without the one at offset 0 there are no headers.
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
    const uint64_t end = m.offset + m.range().size();
    if (!base || end > kMaxImageFromMemory) {
      continue;
    }
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
  if (m.is_file()) {
    const std::string in_root = fmt::format("/proc/{}/root{}", pid_, m.path);
    if (!m.deleted && has_inode(in_root, m.inode)) {
      return ElfImage::from_file(in_root);
    }
    // The link to the very file that is mapped, whatever became of its name; needs privilege.
    if (auto image = ElfImage::from_file(fmt::format("/proc/{}/map_files/{:x}-{:x}", pid_, m.lo, m.hi))) {
      return image;
    }
    if (!m.deleted && has_inode(m.path, m.inode)) {
      return ElfImage::from_file(m.path);
    }
  }
  return image_from_memory(m);
}

const ElfImage* ModuleList::image_for(const Mapping& mapping) {
  const std::string key = image_key(mapping);
  auto it = images_.find(key);
  if (it == images_.end()) {
    auto image = open_image(mapping);
    it = images_.emplace(key, image ? std::make_unique<ElfImage>(std::move(*image)) : nullptr).first;
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
    module->image = image_for(*mapping);
    std::optional<uint64_t> bias;
    if (module->image != nullptr) {
      bias = load_bias(*module->image, *mapping);
      module->build_id = module->image->build_id();
    }
    if (!bias) {  // a data file, or one that is not what is mapped: addresses then count from the file's
                  // start
      module->image = nullptr;
      bias = mapping->lo - mapping->offset;
    }
    module->bias = *bias;
    it = modules_.emplace(mapping->lo, std::move(module)).first;
  }
  return it->second.get();
}

}  // namespace xpurun::stackdump
