#include "launcher/spawn/preload_reach.h"

#include "common/base/os/io.h"
#include "common/base/strings.h"
#include "common/base/tr.h"
#include "launcher/spawn/elf_dynamic.h"

#include <algorithm>
#include <cstring>
#include <elf.h>
#include <sys/stat.h>
#include <unistd.h>

namespace xpurun::launcher {

namespace {

constexpr std::string_view kNoCrashes =
    base::later("crashes are known only by their exit status, without stacks");
constexpr std::string_view kNothing = base::later("no stacks of crashes, no timing, no logs of single ranks");
constexpr std::string_view kNoFaults =
    base::later("no stacks of memory faults, which AddressSanitizer reports itself");

// verify_asan_link_order came with gcc 9; gcc 8 and 9 share libasan.so.5.
constexpr std::string_view kOldAsans[] = {"libasan.so.0", "libasan.so.1", "libasan.so.2",
                                          "libasan.so.3", "libasan.so.4", "libasan.so.5"};

PreloadReach limited(PreloadLimit limit, std::string_view fact, std::string_view lost) {
  return {limit, std::string(fact), std::string(lost)};
}

bool is_asan(std::string_view library) {
  return library.starts_with("libasan.so") || library.starts_with("libclang_rt.asan");
}

// The preload library switches off the check of the load order through __asan_default_options
// (preload/host_runtime.cpp). A program's own function of that name hides it, and old runtimes ignore it.
bool insists_on_being_first(const ElfDynamic& program, std::string_view asan_options) {
  const auto runtime = std::find_if(program.needed.begin(), program.needed.end(), is_asan);
  if (runtime == program.needed.end()) {
    return false;  // static runtime (clang's default), which does not check the order
  }
  if (std::find(std::begin(kOldAsans), std::end(kOldAsans), *runtime) != std::end(kOldAsans)) {
    return true;
  }
  return program.mentions("__asan_default_options") &&
         asan_options.find("verify_asan_link_order=0") == std::string_view::npos &&
         asan_options.find("verify_asan_link_order=false") == std::string_view::npos;
}

PreloadReach reach_of_dynamic(const std::string& path, std::string_view asan_options) {
  const ElfDynamic program = read_elf_dynamic(path);
  if (program.interpreter.empty()) {
    return limited(PreloadLimit::no_loader,
                   base::later("statically linked program: there is no loader to preload with"), kNoCrashes);
  }
  if (base::base_name(program.interpreter).starts_with("ld-musl")) {
    return limited(PreloadLimit::musl,
                   base::later("program linked with musl, which is not the preload library's C library"),
                   kNothing);
  }
  if (insists_on_being_first(program, asan_options)) {
    return limited(PreloadLimit::asan_first,
                   base::later("AddressSanitizer in this program must be the first library"), kNothing);
  }
  if (program.mentions("__asan_init")) {
    return limited(PreloadLimit::asan, base::later("program with AddressSanitizer"), kNoFaults);
  }
  return {};
}

}  // namespace

PreloadReach preload_reach(const std::string& program, std::string_view asan_options) {
  struct stat st {};
  if (::stat(program.c_str(), &st) != 0) {
    return {};
  }
  if (((st.st_mode & S_ISUID) != 0 && st.st_uid != ::geteuid()) ||
      ((st.st_mode & S_ISGID) != 0 && st.st_gid != ::getegid())) {
    return limited(PreloadLimit::set_id,
                   base::later("set-user-id or set-group-id program: the loader ignores LD_PRELOAD"),
                   kNoCrashes);
  }
  const auto fd = base::open_read(program);
  Elf64_Ehdr header{};
  if (!fd || ::pread(fd->get(), &header, sizeof header, 0) != static_cast<ssize_t>(sizeof header) ||
      std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) {
    return {};
  }
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != EM_X86_64) {
    return limited(PreloadLimit::other_machine, base::later("not an x86-64 program"), kNoCrashes);
  }
  return reach_of_dynamic(program, asan_options);
}

bool is_sanitizer_runtime(std::string_view library) {
  const std::string_view name = base::base_name(library);
  for (const std::string_view gcc :
       {"libasan.so", "libtsan.so", "liblsan.so", "libubsan.so", "libhwasan.so"}) {
    if (name.starts_with(gcc)) {
      return true;
    }
  }
  return name.starts_with("libclang_rt.") && name.find("san") != std::string_view::npos;
}

}  // namespace xpurun::launcher
