#include "stackdump/cpython/locate.h"

#include "common/base/procfs.h"
#include "common/base/strings.h"
#include "stackdump/cpython/debug_offsets.h"
#include "stackdump/native/dynamic_symbol.h"
#include "stackdump/native/elf_image.h"

#include <fmt/format.h>

#include <algorithm>

namespace xpurun::stackdump {

namespace {

struct Candidate {
  Addr image = 0;
  std::string path;
};

// First mappings of libpython and of the executable, in this order. Only the first copy of a file counts:
// ctypes and llvmlite map a static python binary once more.
std::vector<Candidate> candidates(base::Pid pid, const ProcMaps& maps) {
  const std::string exe = base::ProcFs().exe(pid);
  std::vector<Candidate> libraries;
  std::vector<Candidate> programs;
  for (const Mapping& m : maps.all()) {
    if (!m.is_file() || m.offset != 0) {
      continue;
    }
    const auto known = [&m](const Candidate& c) { return c.path == m.path; };
    const bool library = base::base_name(m.path).starts_with("libpython3.");
    auto& list = library ? libraries : programs;
    const bool is_exe = m.path == exe || exe == m.path + " (deleted)";
    if ((library || is_exe) && std::none_of(list.begin(), list.end(), known)) {
      list.push_back({m.lo, m.path});
    }
  }
  libraries.insert(libraries.end(), programs.begin(), programs.end());
  return libraries;
}

std::string version_text(uint32_t hex) {
  std::string_view level;
  switch (hex >> 4 & 0xf) {
    case 0xa:
      level = "a";
      break;
    case 0xb:
      level = "b";
      break;
    case 0xc:
      level = "rc";
      break;
    default:  // a final release
      return fmt::format("{}.{}.{}", hex >> 24, hex >> 16 & 0xff, hex >> 8 & 0xff);
  }
  return fmt::format("{}.{}.{}{}{}", hex >> 24, hex >> 16 & 0xff, hex >> 8 & 0xff, level, hex & 0xf);
}

// A static layout, or one that the interpreter describes.
base::Result<PythonRuntime> describe(RemoteMemory& memory, const Candidate& c, Addr runtime) {
  PythonRuntime out;
  out.address = runtime;
  out.path = c.path;
  if (const auto about = read_self_description(memory, runtime)) {
    out.version = version_text(about->version) + (about->free_threaded ? "t" : "");
    XPURUN_TRY_ASSIGN(out.offsets, read_debug_offsets(memory, runtime, *about));
    return out;
  }
  std::optional<int> minor = minor_from_path(c.path);
  if (minor) {
    out.version = fmt::format("3.{}", *minor);
  }
  if (const auto symbol = find_dynamic_symbol(memory, c.image, "Py_Version")) {
    const uint64_t hex = memory.value<uint64_t>(symbol->address).value_or(0);
    if (hex >> 24 == 3) {
      minor = static_cast<int>(hex >> 16 & 0xff);
      out.version = version_text(static_cast<uint32_t>(hex));
    }
  }
  const Offsets* offsets = minor ? offsets_for_minor(*minor) : nullptr;
  if (offsets == nullptr) {
    return base::fail(minor ? fmt::format("the memory layout of Python 3.{} is not known", *minor)
                            : "the Python version cannot be told");
  }
  out.offsets = *offsets;
  return out;
}

// The chain runtime -> interpreter -> thread -> interpreter must close; anything else is another layout.
PythonLookup check(RemoteMemory& memory, PythonRuntime runtime) {
  const Offsets& o = runtime.offsets;
  const auto pointer = [&](Addr a) { return memory.value<uint64_t>(a).value_or(0); };
  const Addr interp = pointer(runtime.address + o.runtime_interpreters);
  const Addr thread = interp == 0 ? 0 : pointer(interp + o.interp_threads);
  if (interp == 0 || thread == 0) {
    return {.why = NoPython::not_ready, .reason = "Python is not initialised"};
  }
  if (pointer(thread + o.thread_interp) != interp) {
    return {.why = NoPython::unsupported,
            .reason = fmt::format("this build of Python {} keeps its data elsewhere", runtime.version)};
  }
  return {.runtime = std::move(runtime)};
}

// Images that export nothing (frozen applications) may still have symbols or the section in their file.
std::optional<Addr> find_in_file(base::Pid pid, const Candidate& c) {
  auto image = ElfImage::from_file(fmt::format("/proc/{}/root{}", pid, c.path));
  if (!image) {
    return std::nullopt;
  }
  const Addr bias = image->fixed_address() ? 0 : c.image - (image->loaded_range().lo & ~Addr{4095});
  if (const auto s = image->find_symbol("_PyRuntime")) {
    return bias + s->value;
  }
  if (const auto s = image->section(".PyRuntime")) {
    return bias + s->sh_addr;
  }
  return std::nullopt;
}

}  // namespace

std::optional<int> minor_from_path(std::string_view path) {
  std::string_view name = base::base_name(path);
  for (std::string_view prefix : {"libpython3.", "python3."}) {
    if (name.starts_with(prefix)) {
      name.remove_prefix(prefix.size());
      const size_t end = std::min(name.find_first_not_of("0123456789"), name.size());
      const auto minor = base::parse_int(name.substr(0, end));
      return minor ? std::optional(static_cast<int>(*minor)) : std::nullopt;
    }
  }
  return std::nullopt;
}

PythonLookup find_python(base::Pid pid, const ProcMaps& maps, RemoteMemory& memory) {
  PythonLookup out{.why = NoPython::absent, .reason = "no Python in this process"};
  for (const Candidate& c : candidates(pid, maps)) {
    std::optional<Addr> runtime;
    if (const auto symbol = find_dynamic_symbol(memory, c.image, "_PyRuntime")) {
      runtime = symbol->address;
    } else if (minor_from_path(c.path)) {
      runtime = find_in_file(pid, c);
    }
    if (!runtime) {
      continue;
    }
    auto described = describe(memory, c, *runtime);
    if (!described) {
      return {.why = NoPython::unsupported, .reason = base::to_line(described.error())};
    }
    return check(memory, std::move(*described));
  }
  return out;
}

}  // namespace xpurun::stackdump
