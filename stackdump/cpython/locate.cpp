#include "stackdump/cpython/locate.h"

#include "common/base/os/procfs.h"
#include "common/base/strings.h"
#include "stackdump/cpython/dict.h"
#include "stackdump/cpython/object.h"
#include "stackdump/cpython/offsets/debug_offsets.h"
#include "stackdump/cpython/runtime_scan.h"
#include "stackdump/native/dynamic_symbol.h"
#include "stackdump/native/elf_image.h"

#include <fmt/format.h>

#include <algorithm>

namespace xpurun::stackdump {

namespace {

// Start addresses of libpython, the executable and programs named after Python, in this order. A file may be
// mapped several times (ctypes and llvmlite map a static python binary again). Only one of the mappings is
// the live interpreter.
std::vector<PythonImage> candidates(const std::string& exe, const ProcMaps& maps) {
  constexpr size_t kMax = 32;
  std::vector<PythonImage> libraries;
  std::vector<PythonImage> programs;
  for (const Mapping& m : maps.all()) {
    if (!m.is_file() || m.offset != 0) {
      continue;
    }
    const bool library = base::base_name(m.path).starts_with("libpython3.");
    auto& list = library ? libraries : programs;
    const bool is_exe = m.path == exe || exe == m.path + " (deleted)";
    // After a start as "ld.so python3.12", /proc/PID/exe is ld.so and not the program.
    if ((library || is_exe || minor_from_path(m.path)) && list.size() < kMax) {
      list.push_back({.image = m.lo, .path = m.path, .is_exe = is_exe});
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

// "3.9.18" from sys.version "3.9.18 (main, ...) [GCC ...]"; empty for any other text.
std::string told_version(RemoteMemory& memory, Addr runtime, const Offsets& o) {
  const Addr interp = memory.value<uint64_t>(runtime + o.runtime_interpreters).value_or(0);
  const Addr sys = interp == 0 ? 0 : memory.value<uint64_t>(interp + o.interp_sysdict).value_or(0);
  const auto text = read_unicode(memory, dict_value(memory, sys, "version", o), o);
  if (!text || !text->starts_with(fmt::format("3.{}.", o.minor))) {
    return {};
  }
  const std::string version = text->substr(0, text->find(' '));
  return version.size() < 32 ? version : "";
}

// The chain runtime -> interpreter -> thread -> interpreter must close. Otherwise the memory layout is
// another one.
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
            .reason = fmt::format("this build of Python {} has an unknown memory layout", runtime.version)};
  }
  // No symbol gave the patch level, so sys.version is read.
  if (std::count(runtime.version.begin(), runtime.version.end(), '.') < 2) {
    if (const std::string told = told_version(memory, runtime.address, o); !told.empty()) {
      runtime.version = told;
    }
  }
  return {.runtime = std::move(runtime)};
}

// An image without exported symbols may still have .symtab or the section .PyRuntime in its file.
std::optional<Addr> runtime_in(const ElfImage& image, Addr bias) {
  if (const auto s = image.section(".PyRuntime")) {
    return bias + s->sh_addr;
  }
  if (const auto s = image.find_symbol("_PyRuntime")) {
    return bias + s->value;
  }
  return std::nullopt;
}

using FindInFile = std::function<std::optional<Addr>(const PythonImage&)>;

std::optional<Addr> find_in_file(base::Pid pid, const PythonImage& c) {
  // /proc/PID/exe opens the executable even after its file was deleted.
  const std::string path =
      c.is_exe ? fmt::format("/proc/{}/exe", pid) : fmt::format("/proc/{}/root{}", pid, c.path);
  auto image = ElfImage::from_file(path);
  if (!image) {
    return std::nullopt;
  }
  return runtime_in(*image, image->fixed_address() ? 0 : c.image - (image->loaded_range().lo & ~Addr{4095}));
}

PythonLookup search(const std::string& exe, const FindInFile& in_file, const ProcMaps& maps,
                    RemoteMemory& memory, LocateEffort effort) {
  const bool thorough = effort == LocateEffort::thorough;
  PythonLookup out{.why = NoPython::absent, .reason = "no Python in this process"};
  for (const PythonImage& c : candidates(exe, maps)) {
    std::optional<Addr> runtime;
    if (const auto symbol = find_dynamic_symbol(memory, c.image, "_PyRuntime")) {
      runtime = symbol->address;
    } else if (thorough || minor_from_path(c.path)) {
      runtime = in_file(c);
    }
    if (!runtime) {
      continue;
    }
    PythonLookup found = identify_python(memory, c, *runtime, minor_from_path(c.path));
    if (found.runtime) {
      return found;
    }
    if (out.why == NoPython::absent) {  // the first of several unusable candidates is the most likely
      out = std::move(found);
    }
  }
  if (!thorough || out.why != NoPython::absent) {
    return out;
  }
  const auto accept = [&](const RuntimeGuess& g) {
    const auto minor = g.minor == 0 ? std::nullopt : std::optional(g.minor);
    // The scan finds words that look like a runtime by chance. sys.version confirms the guess.
    if (minor && told_version(memory, g.address, *offsets_for_minor(*minor)).empty()) {
      return false;
    }
    PythonLookup found = identify_python(memory, {.path = g.path}, g.address, minor);
    if (found.runtime) {
      out = std::move(found);
    }
    return out.runtime.has_value();
  };
  // The executable itself may contain all of Python, without any other mapped file of CPython.
  if (!scan_for_runtime(maps, memory, exe, accept) && has_traces_of_python(maps)) {
    scan_for_runtime(maps, memory, "", accept);
  }
  return out;
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

PythonLookup identify_python(RemoteMemory& memory, const PythonImage& c, Addr runtime,
                             std::optional<int> minor) {
  PythonRuntime out;
  out.address = runtime;
  out.path = c.path;
  const auto unsupported = [](std::string reason) {
    return PythonLookup{.why = NoPython::unsupported, .reason = std::move(reason)};
  };
  if (const auto about = read_self_description(memory, runtime)) {
    out.version = version_text(about->version) + (about->free_threaded ? "t" : "");
    auto offsets = read_debug_offsets(memory, runtime, *about);
    if (!offsets) {
      return unsupported(base::to_line(offsets.error()));
    }
    out.offsets = *offsets;
    return check(memory, std::move(out));
  }
  if (const auto symbol = find_dynamic_symbol(memory, c.image, "Py_Version")) {
    const uint64_t hex = memory.value<uint64_t>(symbol->address).value_or(0);
    if (hex >> 24 == 3) {
      minor = static_cast<int>(hex >> 16 & 0xff);
      out.version = version_text(static_cast<uint32_t>(hex));
    }
  }
  if (minor) {
    const Offsets* offsets = offsets_for_minor(*minor);
    if (offsets == nullptr) {
      return unsupported(fmt::format("the memory layout of Python 3.{} is not known", *minor));
    }
    out.offsets = *offsets;
    if (out.version.empty()) {
      out.version = fmt::format("3.{}", *minor);
    }
    return check(memory, std::move(out));
  }
  for (int guess = 8; const Offsets* offsets = offsets_for_minor(guess); ++guess) {
    out.offsets = *offsets;
    out.version = told_version(memory, runtime, *offsets);
    if (out.version.empty()) {
      continue;
    }
    if (PythonLookup found = check(memory, out); found.runtime) {
      return found;
    }
  }
  return unsupported("the Python version cannot be determined");
}

PythonLookup find_python(base::Pid pid, const ProcMaps& maps, RemoteMemory& memory, LocateEffort effort) {
  return search(
      base::ProcFs().exe(pid), [pid](const PythonImage& c) { return find_in_file(pid, c); }, maps, memory,
      effort);
}

PythonLookup find_python(const PythonFiles& files, const ProcMaps& maps, RemoteMemory& memory) {
  const auto in_file = [&files](const PythonImage& c) -> std::optional<Addr> {
    const auto [image, bias] = files.open(c);
    return image == nullptr ? std::nullopt : runtime_in(*image, bias);
  };
  return search(files.exe, in_file, maps, memory, LocateEffort::thorough);
}

}  // namespace xpurun::stackdump
