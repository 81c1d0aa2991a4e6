#include "tests/support/python_image.h"

#include "common/base/strings.h"
#include "stackdump/cpython/line_table.h"
#include "stackdump/cpython/locals/locals.h"
#include "stackdump/cpython/thread_names.h"

#include <fmt/format.h>
#include <zlib.h>

#include <cstring>

namespace xpurun::stackdump {

namespace {

constexpr std::string_view kMagic = "XPIMAGE1";
constexpr size_t kMaxUnpacked = size_t{64} << 20;

void put(std::string& out, uint64_t v) {
  out.append(reinterpret_cast<const char*>(&v), sizeof v);
}

}  // namespace

std::string MemoryImage::pack() const {
  std::string plain;
  put(plain, runtime);
  put(plain, python.image);
  put(plain, python.path.size());
  plain += python.path;
  for (const auto& [addr, bytes] : ranges) {
    put(plain, addr);
    put(plain, bytes.size());
    plain += bytes;
  }
  uLongf size = ::compressBound(plain.size());
  std::string out(size, '\0');
  ::compress2(reinterpret_cast<Bytef*>(out.data()), &size, reinterpret_cast<const Bytef*>(plain.data()),
              plain.size(), Z_BEST_COMPRESSION);
  std::string head(kMagic);
  put(head, plain.size());
  return head + out.substr(0, size);
}

base::Result<MemoryImage> MemoryImage::unpack(std::string_view file) {
  uint64_t size = 0;
  if (!file.starts_with(kMagic) || file.size() < kMagic.size() + sizeof size) {
    return base::fail("not a recorded memory image");
  }
  std::memcpy(&size, file.data() + kMagic.size(), sizeof size);
  file.remove_prefix(kMagic.size() + sizeof size);
  if (size > kMaxUnpacked) {
    return base::fail("the recorded memory image is too large");
  }
  std::string plain(size, '\0');
  uLongf got = size;
  if (::uncompress(reinterpret_cast<Bytef*>(plain.data()), &got, reinterpret_cast<const Bytef*>(file.data()),
                   file.size()) != Z_OK ||
      got != size) {
    return base::fail("the recorded memory image is damaged");
  }
  std::string_view rest = plain;
  const auto number = [&rest] {
    uint64_t v = 0;
    if (rest.size() >= sizeof v) {
      std::memcpy(&v, rest.data(), sizeof v);
      rest.remove_prefix(sizeof v);
    }
    return v;
  };
  const auto text = [&rest](uint64_t n) {
    const std::string out(rest.substr(0, n));
    rest.remove_prefix(out.size());
    return out;
  };
  MemoryImage image;
  image.runtime = number();
  image.python.image = number();
  image.python.path = text(number());
  while (!rest.empty()) {
    const Addr addr = number();
    image.ranges[addr] = text(number());
  }
  return image;
}

bool RecordingMemory::read(Addr addr, std::span<std::byte> into) {
  if (!from_.read(addr, into)) {
    return false;
  }
  std::string& kept = reads_[addr];
  if (kept.size() < into.size()) {
    kept.assign(reinterpret_cast<const char*>(into.data()), into.size());
  }
  return true;
}

std::map<Addr, std::string> RecordingMemory::ranges() const {
  std::map<Addr, std::string> out;
  for (const auto& [addr, bytes] : reads_) {
    auto last = out.empty() ? out.end() : std::prev(out.end());
    if (last == out.end() || last->first + last->second.size() < addr) {
      out.emplace(addr, bytes);
    } else if (const size_t known = last->first + last->second.size() - addr; known < bytes.size()) {
      last->second += bytes.substr(known);
    }
  }
  return out;
}

bool ImageMemory::read(Addr addr, std::span<std::byte> into) {
  ++reads;
  auto it = image_.ranges.upper_bound(addr);
  if (it == image_.ranges.begin()) {
    return false;
  }
  --it;
  const size_t at = addr - it->first;
  if (at > it->second.size() || into.size() > it->second.size() - at) {
    return false;
  }
  std::memcpy(into.data(), it->second.data() + at, into.size());
  return true;
}

std::string read_everything(RemoteMemory& memory, const PythonImage& python, Addr runtime) {
  const PythonLookup found = identify_python(memory, python, runtime, minor_from_path(python.path));
  if (!found.runtime) {
    return found.reason + "\n";
  }
  const Offsets& o = found.runtime->offsets;
  const ThreadNames names = read_thread_names(memory, o, find_thread_tables(memory, *found.runtime));
  PySnapshot snapshot = read_python(memory, *found.runtime, INT64_MAX);
  read_locals(memory, o, snapshot, INT64_MAX);
  std::string out = fmt::format("Python {}\n", found.runtime->version);
  for (const PyInterpreter& i : snapshot.interpreters) {
    out += fmt::format("interpreter {}{}{}\n", i.id, i.gil_holder != 0 ? ", GIL held" : "",
                       i.collecting ? ", collecting" : "");
  }
  for (const PyThread& t : snapshot.threads) {
    const auto name = names.find(t.thread_id);
    out += fmt::format("thread '{}' in interpreter {}{}\n", name == names.end() ? "" : name->second,
                       t.interpreters.front(), t.cut.empty() ? "" : ", cut: " + t.cut);
    for (const FrameGroup& group : t.groups) {
      for (const RawFrame& f : group.frames) {
        const auto code = snapshot.code.find(f.code);
        if (code == snapshot.code.end()) {
          out += "  ?\n";
          continue;
        }
        const auto r = source_range(o.lines, code->second.line_table, code->second.first_line,
                                    instruction_index(f, code->second, o));
        out += fmt::format("  {} {}:{}:{}-{}:{}\n", code->second.name, base::base_name(code->second.filename),
                           r.line, r.column, r.end_line, r.end_column);
        if (const auto locals = snapshot.locals.find(f.address); locals != snapshot.locals.end()) {
          for (const model::Local& l : locals->second) {
            out += fmt::format("    {} = {}\n", l.name, l.value);
          }
        }
      }
      out += "  --\n";
    }
  }
  return out;
}

}  // namespace xpurun::stackdump
