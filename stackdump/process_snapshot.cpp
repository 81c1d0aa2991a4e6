// ProcessDump to and from a snapshot file. The file also contains the stacks as resolved on the original
// host: they supply the parts that cannot be computed elsewhere (text from source files, names from the
// host).
#include "common/base/os/io.h"
#include "common/base/strings.h"
#include "common/model/json/json_text.h"
#include "common/model/json_fields.h"
#include "common/model/stacks/stack_file.h"
#include "stackdump/cpython/locals/handled_exception.h"
#include "stackdump/cpython/offsets/debug_offsets.h"
#include "stackdump/memory/snapshot_file.h"
#include "stackdump/process_dump.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <set>

namespace xpurun::stackdump {

namespace {

using nlohmann::json;

constexpr size_t kRuntimeHead = 2 * SnapshotMemory::kPageSize;  // holds _Py_DebugOffsets
constexpr size_t kMaxVdso = size_t{64} << 10;
constexpr size_t kMaxThreads = 65536;
constexpr size_t kMaxSegments = 256;

json range_json(AddrRange r) {
  return json::array({r.lo, r.hi});
}

AddrRange range_from(const json& j) {
  return {j.at(0).get<Addr>(), j.at(1).get<Addr>()};
}

json thread_json(const ThreadCopy& t, uint64_t inner_tid) {
  json j{{"tid", t.tid},
         {"inner_tid", inner_tid},
         {"comm", base::sanitize(t.kernel.comm)},
         {"state", std::string(1, t.kernel.state)},
         {"cpu_ms", t.kernel.cpu_ms},
         {"wchan", t.kernel.wchan},
         {"syscall", t.kernel.syscall},
         {"syscall_file", base::sanitize(t.kernel.syscall_file)},
         {"no_registers", t.no_registers},
         {"stack", range_json(t.stack)},
         {"kernel_stack", t.kernel_stack},
         {"crashed", t.crashed}};
  if (t.registers) {
    j["registers"] = t.registers->r;
    j["fs_base"] = t.registers->fs_base;
    j["complete"] = t.registers->complete;
  }
  return j;
}

ThreadCopy thread_from(const json& j) {
  ThreadCopy t;
  t.tid = j.at("tid");
  t.inner_tid = j.value("inner_tid", base::Tid{0});
  t.kernel.comm = j.value("comm", "");
  const std::string state = j.value("state", "?");
  t.kernel.state = state.empty() ? '?' : state[0];
  t.kernel.cpu_ms = j.value("cpu_ms", uint64_t{0});
  t.kernel.wchan = j.value("wchan", "");
  t.kernel.syscall = j.value("syscall", "");
  t.kernel.syscall_file = j.value("syscall_file", "");
  t.no_registers = j.value("no_registers", "");
  t.stack = range_from(j.at("stack"));
  t.kernel_stack = j.value("kernel_stack", std::vector<std::string>());
  t.crashed = j.value("crashed", false);
  if (j.contains("registers")) {
    Registers r;
    r.r = j["registers"].get<decltype(r.r)>();
    r.fs_base = j.value("fs_base", uint64_t{0});
    r.complete = j.value("complete", false);
    t.registers = r;
  }
  return t;
}

json facts_json(const Module& m) {
  json segments = json::array();
  for (const Elf64_Phdr& p : m.image->segments()) {
    if (p.p_type == PT_LOAD && segments.size() < kMaxSegments) {
      segments.push_back({p.p_flags, p.p_offset, p.p_vaddr, p.p_filesz, p.p_memsz});
    }
  }
  return {{"path", base::sanitize(m.path)}, {"build_id", m.build_id}, {"segments", std::move(segments)}};
}

ModuleFacts facts_from(const json& j) {
  ModuleFacts out;
  out.build_id = j.at("build_id");
  for (const json& s : j.at("segments")) {
    Elf64_Phdr p{};
    p.p_type = PT_LOAD;
    p.p_flags = s.at(0);
    p.p_offset = s.at(1);
    p.p_vaddr = s.at(2);
    p.p_filesz = s.at(3);
    p.p_memsz = s.at(4);
    out.segments.push_back(p);
  }
  return out;
}

// Accepts integers only: converting out-of-range floats is undefined behaviour. Deep nesting is rejected
// because copying recurses per level.
json parse_meta(const std::string& text) {
  bool strange = false;
  json meta = json::parse(text, [&strange](int depth, json::parse_event_t event, json& value) {
    strange = strange || depth > model::kDeepestJson ||
              (event == json::parse_event_t::value && value.is_number_float());
    return true;
  });
  return strange ? json() : meta;
}

// The layout of the interpreter's structures, from its version or from its own description.
std::optional<PythonRuntime> runtime_from(const json& j, RemoteMemory& memory) {
  PythonRuntime out;
  out.address = j.at("address");
  out.version = j.at("version");
  out.path = j.at("path");
  if (const auto about = read_self_description(memory, out.address)) {
    auto offsets = read_debug_offsets(memory, out.address, *about);
    if (!offsets) {
      return std::nullopt;
    }
    out.offsets = *offsets;
    return out;
  }
  const auto parts = base::split(out.version, '.');
  const auto minor = parts.size() < 2 ? std::nullopt : base::parse_int(parts[1]);
  const Offsets* offsets = minor ? offsets_for_minor(static_cast<int>(*minor)) : nullptr;
  if (offsets == nullptr) {
    return std::nullopt;
  }
  out.offsets = *offsets;
  return out;
}

bool stops(const model::ThreadStack& t) {
  return std::any_of(t.frames.begin(), t.frames.end(),
                     [](const model::Frame& f) { return f.kind == model::FrameKind::marker; });
}

std::vector<model::Frame*> python_frames(std::vector<model::Frame>& frames) {
  std::vector<model::Frame*> out;
  for (model::Frame& f : frames) {
    if (f.kind == model::FrameKind::python) {
      out.push_back(&f);
    }
  }
  return out;
}

// The recorded thread, which has data that only its host could know, with the newly computed frames.
model::ThreadStack completed(std::vector<model::Frame> frames, model::ThreadStack recorded) {
  const auto mine = python_frames(frames);
  const auto theirs = python_frames(recorded.frames);
  // If the frames are the same, the recorded ones have more: the text from source files.
  if (std::equal(mine.begin(), mine.end(), theirs.begin(), theirs.end(),
                 [](const model::Frame* a, const model::Frame* b) {
                   return a->func == b->func && a->file == b->file && a->line == b->line;
                 })) {
    for (size_t i = 0; i < mine.size(); ++i) {
      *mine[i] = *theirs[i];
    }
  }
  std::unordered_map<Addr, const model::Frame*> by_pc;
  for (const model::Frame& f : recorded.frames) {
    if (f.kind == model::FrameKind::native && !f.inlined) {
      by_pc.emplace(f.pc, &f);
    }
  }
  for (model::Frame& f : frames) {
    const auto it = by_pc.find(f.pc);
    const bool unnamed = f.func == fmt::format("{}+{:#x}", f.module, f.offset);
    if (f.kind == model::FrameKind::native && unnamed && it != by_pc.end()) {
      f.func = it->second->func;
      f.full_func = it->second->full_func;
      f.begin = it->second->begin;
    }
  }
  recorded.frames = std::move(frames);
  return recorded;
}

}  // namespace

base::Status ProcessDump::save(const std::string& path, const model::ProcessStacks& stacks) {
  SnapshotContent content;
  memory_.for_each_page([&](Addr a, std::span<const std::byte> page) {
    content.pages.emplace(a, std::string(reinterpret_cast<const char*>(page.data()), page.size()));
  });
  // Pages that another host needs to resolve the stacks, although nothing has read them here.
  const auto keep = [&](AddrRange range) {
    for (Addr a = range.lo & ~Addr{SnapshotMemory::kPageSize - 1}; a < range.hi;
         a += SnapshotMemory::kPageSize) {
      if (!content.pages.contains(a)) {
        if (auto page = live_.bytes(a, SnapshotMemory::kPageSize)) {
          content.pages.emplace(a, std::move(*page));
        }
      }
    }
  };
  json meta{{"pid", target_.pid}, {"maps", to_text(modules_.maps())}, {"stacks", to_json(compact(stacks))}};
  std::set<std::string> seen;
  json& modules = meta["modules"] = json::array();
  for (const Mapping& m : modules_.maps().all()) {
    if (m.path == "[vdso]" && m.range().size() <= kMaxVdso) {
      keep(m.range());
    } else if (m.executable && m.is_file() && seen.insert(m.path).second) {
      if (const Module* module = modules_.find(m.lo); module != nullptr && module->image != nullptr) {
        modules.push_back(facts_json(*module));
      }
    }
  }
  if (python_.runtime) {
    keep({python_.runtime->address, python_.runtime->address + kRuntimeHead});
    meta["python"] = {{"address", python_.runtime->address},
                      {"version", python_.runtime->version},
                      {"path", base::sanitize(python_.runtime->path)}};
  }
  json& threads = meta["threads"] = json::array();
  for (const ThreadCopy& t : threads_) {
    threads.push_back(thread_json(t, t.registers && t.registers->fs_base != 0 ? 0 : inner_tid_of(t)));
  }
  content.meta = model::json_text(meta);
  return base::write_file_atomic(path, encode_snapshot(content));
}

base::Result<std::unique_ptr<ProcessDump>> ProcessDump::load(std::string_view file, ModuleFiles files) {
  XPURUN_TRY_ASSIGN(SnapshotContent content, decode_snapshot(file));
  try {
    const json meta = parse_meta(content.meta);
    XPURUN_TRY_ASSIGN(auto recorded, model::process_stacks_from_json(meta.at("stacks")));
    files.pid = 0;
    for (const json& m : meta.at("modules")) {
      files.facts[m.at("path").get<std::string>()] = facts_from(m);
    }
    std::unique_ptr<ProcessDump> dump(new ProcessDump(std::move(files)));
    dump->target_.pid = meta.at("pid");
    dump->recorded_ = std::move(recorded);
    for (const auto& [a, page] : content.pages) {
      dump->memory_.put(a, std::as_bytes(std::span(page)));
    }
    dump->modules_.update(ProcMaps::parse(meta.at("maps").get_ref<const std::string&>()));
    for (const json& t : meta.at("threads")) {
      if (dump->threads_.size() < kMaxThreads) {
        dump->threads_.push_back(thread_from(t));
      }
    }
    if (meta.contains("python")) {
      dump->python_.runtime = runtime_from(meta["python"], dump->memory_);
      if (dump->python_.runtime) {
        dump->py_ =
            read_python(dump->memory_, *dump->python_.runtime, std::numeric_limits<base::MonoNs>::max());
        (void)read_handled(dump->memory_, dump->python_.runtime->offsets, dump->py_,
                           std::numeric_limits<base::MonoNs>::max());
      } else {
        dump->notes_.emplace_back("the Python frames are not readable by this version of xpurun");
      }
    }
    return dump;
  } catch (const json::exception& e) {
    return base::fail(fmt::format("the snapshot is damaged ({})", e.what()));
  }
}

model::ProcessStacks ProcessDump::resolve_recorded(std::vector<model::ThreadStack> threads) {
  model::ProcessStacks out = *recorded_;
  size_t kept = 0;
  for (model::ThreadStack& t : threads) {
    const auto it = std::find_if(recorded_->threads.begin(), recorded_->threads.end(),
                                 [&](const model::ThreadStack& r) { return r.tid == t.tid; });
    if (it == recorded_->threads.end()) {
      continue;
    }
    // The original host had more files. Where unwinding stops earlier here, its frames are shown.
    if (stops(t) && !stops(*it) && it->frames.size() > t.frames.size()) {
      ++kept;
      t = *it;
    } else {
      t = completed(std::move(t.frames), *it);
    }
  }
  out.threads = std::move(threads);
  if (kept > 0) {
    notes_.push_back(fmt::format("{} threads are shown as resolved on their original host", kept));
  }
  for (const std::string& missing : modules_.missing()) {
    notes_.push_back(missing);
  }
  out.notes.insert(out.notes.end(), notes_.begin(), notes_.end());
  return out;
}

}  // namespace xpurun::stackdump
