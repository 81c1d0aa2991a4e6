#include "stackdump/libdw/dw_session.h"

#include "common/base/os/io.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace xpurun::stackdump {

namespace {

// A descriptor of the content of an image: its file, or a copy of the image as read from memory.
base::UniqueFd descriptor_of(const ElfImage& image) {
  if (!image.path().empty()) {
    return base::UniqueFd(::open(image.path().c_str(), O_RDONLY | O_CLOEXEC));
  }
  base::UniqueFd fd(::memfd_create("xpurun-image", MFD_CLOEXEC));
  const auto bytes = image.file();
  if (!fd || !base::write_all(fd.get(), {reinterpret_cast<const char*>(bytes.data()), bytes.size()})) {
    return {};
  }
  return fd;
}

// libdw calls this for separate debug information of an image; the user data is the image of the debug file,
// if any.
int find_debuginfo(Dwfl_Module*, void** userdata, const char*, Dwarf_Addr, const char*, const char*,
                   GElf_Word, char**) {
  const auto* debug = static_cast<const ElfImage*>(*userdata);
  return debug == nullptr ? -1 : descriptor_of(*debug).release();
}

// Required by libdw, but never called: every module is reported with its file.
int find_elf(Dwfl_Module*, void**, const char*, Dwarf_Addr, char**, Elf**) {
  return -1;
}

constexpr Dwfl_Callbacks kCallbacks = {.find_elf = find_elf, .find_debuginfo = find_debuginfo};

}  // namespace

base::Result<std::unique_ptr<DwSession>> DwSession::open(ModuleList& modules) {
  XPURUN_TRY_ASSIGN(const LibDw* api, load_libdw());
  std::unique_ptr<DwSession> session(new DwSession(*api, modules));
  session->dwfl_ = api->dwfl_begin(&kCallbacks);
  if (session->dwfl_ == nullptr) {
    return base::fail("cannot start libdw");
  }
  return session;
}

DwSession::~DwSession() {
  if (dwfl_ != nullptr) {
    api_.dwfl_end(dwfl_);
  }
}

bool DwSession::report(Addr a) {
  const Module* m = modules_.find(a);
  if (m == nullptr || m->image == nullptr) {
    return false;
  }
  const auto [it, is_new] = reported_.try_emplace({m->image, m->bias}, false);
  if (!is_new) {
    return it->second;
  }
  base::UniqueFd fd = descriptor_of(*m->image);
  if (!fd) {
    return false;
  }
  api_.dwfl_report_begin_add(dwfl_);
  // With add_p_vaddr the base equals xpurun's bias, for fixed (ET_EXEC) and relocated (ET_DYN) images alike.
  Dwfl_Module* reported =
      api_.dwfl_report_elf(dwfl_, m->name.c_str(), m->path.c_str(), fd.get(), m->bias, true);
  api_.dwfl_report_end(dwfl_, nullptr, nullptr);
  if (reported == nullptr) {
    return false;
  }
  static_cast<void>(fd.release());  // libdw closes it
  void** userdata = nullptr;
  api_.dwfl_module_info(reported, &userdata, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr);
  if (userdata != nullptr) {
    *userdata =
        const_cast<ElfImage*>(modules_.debug_image(*m));  // NOLINT(cppcoreguidelines-pro-type-const-cast)
  }
  return it->second = true;
}

}  // namespace xpurun::stackdump
