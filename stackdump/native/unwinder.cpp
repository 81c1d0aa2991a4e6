#include "stackdump/native/unwinder.h"

#include "stackdump/native/caller_guess.h"
#include "stackdump/native/eh_frame.h"

#include <fmt/format.h>
#include <libunwind-x86_64.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>

// Exported by libunwind-x86_64 but in no header: binary search in a table of .eh_frame_hdr's layout that is
// read through access_mem. Used the same way by Linux's perf.
// NOLINTNEXTLINE(readability-identifier-naming,bugprone-reserved-identifier)
extern "C" int _Ux86_64_dwarf_search_unwind_table(unw_addr_space_t, unw_word_t, unw_dyn_info_t*,
                                                  unw_proc_info_t*, int, void*);

namespace xpurun::stackdump {

namespace {

// The tables built by xpurun appear to libunwind at addresses that no process can have.
constexpr Addr kOwnTables = Addr{1} << 63;
constexpr Addr kOwnTableStride = Addr{1} << 36;
constexpr uint64_t kMaxVaddr = uint64_t{1} << 31;  // of code that .debug_frame describes
constexpr size_t kCacheSize = 4096;                // unwind rows; the default of 128 thrashes

// mov $SYS_rt_sigreturn, %rax; syscall: the code that a signal handler returns to.
constexpr std::array<uint8_t, 9> kSigreturn = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05};

}  // namespace

struct NativeUnwinder::Engine {
  Engine(ModuleList& m, SnapshotMemory& s) : modules(m), memory(s) {}
  ~Engine() {
    if (space != nullptr) {
      unw_destroy_addr_space(space);
    }
  }
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  ModuleList& modules;
  SnapshotMemory& memory;
  unw_addr_space_t space = nullptr;
  std::map<const ElfImage*, std::optional<UnwindTable>> eh_tables;
  std::map<const ElfImage*, std::optional<UnwindTable>> debug_tables;
  std::vector<std::span<const std::byte>> blobs;  // position -> kOwnTables + position * stride
  Registers start;                                // of the cursor being initialised
  Addr start_pc = 0;                              // where its look-up starts
  bool missing_table = false;                     // set by find_proc_info
  const Module* last_module = nullptr;            // of the last look-up: table reads come in bursts

  bool read_word(Addr a, unw_word_t* value);
  bool read_image(Addr a, unw_word_t* value);
  int find_proc_info(Addr pc, unw_proc_info_t* info, int need, void* arg);
  int search(const UnwindTable& table, const Module& module, Addr pc, unw_proc_info_t* info, int need);
  const UnwindTable* eh_table_of(const Module& module);
  const UnwindTable* debug_table_of(const Module& module);
  void publish(const UnwindTable& table);
  Addr published(std::span<const std::byte> bytes) const;
  bool is_sigreturn(Addr pc);
  bool init(unw_cursor_t* cursor, const Registers& registers, bool exact);
  Registers current(unw_cursor_t* cursor, const Registers& fallback) const;
  std::string why_no_caller(Addr pc, int rc, bool stepped) const;
};

bool NativeUnwinder::Engine::read_image(Addr a, unw_word_t* value) {
  for (const Module* m : {last_module, modules.find(a)}) {
    if (m != nullptr && m->image != nullptr) {
      const auto bytes = m->image->at_vaddr(a - m->bias);
      if (bytes.size() >= sizeof *value) {
        std::memcpy(value, bytes.data(), sizeof *value);
        return true;
      }
      if (!bytes.empty()) {  // the last bytes of a segment
        *value = 0;
        std::memcpy(value, bytes.data(), bytes.size());
        return true;
      }
    }
  }
  return false;
}

bool NativeUnwinder::Engine::read_word(Addr a, unw_word_t* value) {
  if (a >= kOwnTables) {
    // Far above the 47 bits of user space, so that an address tells the copies of tables from the process.
    const size_t which = (a - kOwnTables) / kOwnTableStride;
    const uint64_t at = (a - kOwnTables) % kOwnTableStride;
    const auto v = which < blobs.size() ? field<unw_word_t>(blobs[which], at) : std::nullopt;
    *value = v.value_or(0);
    return v.has_value();
  }
  if (const auto v = memory.value<unw_word_t>(a)) {
    *value = *v;
    return true;
  }
  return read_image(a, value);
}

// Makes a table built by xpurun readable at an address of its own.
void NativeUnwinder::Engine::publish(const UnwindTable& table) {
  for (const auto bytes : {std::as_bytes(std::span(table.own)), std::span<const std::byte>(table.frames)}) {
    if (!bytes.empty()) {
      blobs.push_back(bytes);
    }
  }
}

Addr NativeUnwinder::Engine::published(std::span<const std::byte> bytes) const {
  const auto it = std::find_if(blobs.begin(), blobs.end(),
                               [&](std::span<const std::byte> b) { return b.data() == bytes.data(); });
  return kOwnTables + static_cast<Addr>(it - blobs.begin()) * kOwnTableStride;
}

const UnwindTable* NativeUnwinder::Engine::eh_table_of(const Module& module) {
  auto it = eh_tables.find(module.image);
  if (it == eh_tables.end()) {
    it = eh_tables.emplace(module.image, find_unwind_table(*module.image)).first;
    if (it->second) {
      publish(*it->second);
    }
  }
  return it->second ? &*it->second : nullptr;
}

const UnwindTable* NativeUnwinder::Engine::debug_table_of(const Module& module) {
  auto it = debug_tables.find(module.image);
  if (it == debug_tables.end()) {
    auto table = find_debug_frame(*module.image);
    if (const ElfImage* debug = table ? nullptr : modules.debug_image(module)) {
      table = find_debug_frame(*debug);
    }
    it = debug_tables.emplace(module.image, std::move(table)).first;
    if (it->second) {
      publish(*it->second);
    }
  }
  return it->second ? &*it->second : nullptr;
}

int NativeUnwinder::Engine::search(const UnwindTable& table, const Module& module, Addr pc,
                                   unw_proc_info_t* info, int need) {
  unw_dyn_info_t di{};
  di.format = UNW_INFO_FORMAT_REMOTE_TABLE;
  // libunwind counts this length in words.
  di.u.rti.table_len = table.count * sizeof(FdeEntry) / sizeof(unw_word_t);
  di.u.rti.table_data = table.table_vaddr != 0 ? module.bias + table.table_vaddr
                                               : published(std::as_bytes(std::span(table.own)));
  if (table.frames.empty()) {
    di.start_ip = module.range.lo;
    di.end_ip = module.range.hi;
    di.u.rti.segbase = module.bias + table.base;
    return _Ux86_64_dwarf_search_unwind_table(space, pc, &di, info, need, this);
  }
  // These entries describe code as if it were loaded at the address of the table, so the look-up uses that
  // address.
  const Addr here = published(table.frames);
  const uint64_t vaddr = pc - module.bias;
  if (vaddr >= kMaxVaddr) {
    return -UNW_ENOINFO;
  }
  di.start_ip = here;
  di.end_ip = here + kMaxVaddr;
  di.u.rti.segbase = here;
  const int rc = _Ux86_64_dwarf_search_unwind_table(space, here + vaddr, &di, info, need, this);
  if (rc >= 0) {
    info->start_ip += module.bias - here;
    info->end_ip += module.bias - here;
  }
  return rc;
}

int NativeUnwinder::Engine::find_proc_info(Addr pc, unw_proc_info_t* info, int need, void*) {
  missing_table = true;
  const Module* module = modules.find(pc);
  if (module == nullptr || module->image == nullptr) {
    return -UNW_ENOINFO;
  }
  last_module = module;
  int rc = -UNW_ENOINFO;
  if (const UnwindTable* table = eh_table_of(*module)) {
    rc = search(*table, *module, pc, info, need);
  }
  // .debug_frame covers functions that .eh_frame lacks, for example hand-written assembly.
  if (rc < 0) {
    if (const UnwindTable* table = debug_table_of(*module)) {
      rc = search(*table, *module, pc, info, need);
    }
  }
  missing_table = rc < 0;
  return rc;
}

bool NativeUnwinder::Engine::is_sigreturn(Addr pc) {
  const Module* m = modules.find(pc);
  if (m == nullptr || m->image == nullptr) {
    return false;
  }
  const auto code = m->image->at_vaddr(pc - m->bias);
  return code.size() >= kSigreturn.size() &&
         std::memcmp(code.data(), kSigreturn.data(), kSigreturn.size()) == 0;
}

bool NativeUnwinder::Engine::init(unw_cursor_t* cursor, const Registers& registers, bool exact) {
  start = registers;
  // libunwind looks up the first pc of a cursor unchanged. A return address after a call to a noreturn
  // function may already belong to the next function.
  start_pc = exact ? registers.pc() : registers.pc() - 1;
  return unw_init_remote(cursor, space, this) == 0;
}

Registers NativeUnwinder::Engine::current(unw_cursor_t* cursor, const Registers& fallback) const {
  Registers out = fallback;
  for (size_t i = 0; i < Registers::kCount; ++i) {
    unw_word_t v = 0;
    if (unw_get_reg(cursor, static_cast<unw_regnum_t>(i), &v) == 0) {
      out.r[i] = v;
    }
  }
  return out;
}

NativeUnwinder::NativeUnwinder(ModuleList& modules, SnapshotMemory& memory)
    : engine_(std::make_unique<Engine>(modules, memory)) {
  unw_accessors_t a{};
  a.find_proc_info = [](unw_addr_space_t, unw_word_t pc, unw_proc_info_t* info, int need, void* arg) {
    return static_cast<Engine*>(arg)->find_proc_info(pc, info, need, arg);
  };
  a.put_unwind_info = [](unw_addr_space_t, unw_proc_info_t*, void*) {};
  a.get_dyn_info_list_addr = [](unw_addr_space_t, unw_word_t*, void*) { return -UNW_ENOINFO; };
  a.access_mem = [](unw_addr_space_t, unw_word_t addr, unw_word_t* value, int write, void* arg) {
    return write == 0 && static_cast<Engine*>(arg)->read_word(addr, value) ? 0 : -UNW_EINVAL;
  };
  a.access_reg = [](unw_addr_space_t, unw_regnum_t reg, unw_word_t* value, int write, void* arg) {
    const auto* e = static_cast<Engine*>(arg);
    const auto i = static_cast<size_t>(reg);
    // Registers that /proc does not report are unknown, not zero.
    if (write != 0 || reg < 0 || i >= Registers::kCount ||
        (!e->start.complete && i != Registers::kRsp && i != Registers::kRip)) {
      return -UNW_EBADREG;
    }
    *value = i == Registers::kRip ? e->start_pc : e->start.r[i];
    return 0;
  };
  a.access_fpreg = [](unw_addr_space_t, unw_regnum_t, unw_fpreg_t*, int, void*) { return -UNW_EBADREG; };
  a.resume = [](unw_addr_space_t, unw_cursor_t*, void*) { return -UNW_EINVAL; };
  a.get_proc_name = [](unw_addr_space_t, unw_word_t, char*, size_t, unw_word_t*, void*) {
    return -UNW_ENOINFO;
  };
  engine_->space = unw_create_addr_space(&a, 0);
  if (engine_->space != nullptr) {
    unw_set_caching_policy(engine_->space, UNW_CACHE_GLOBAL);
    unw_set_cache_size(engine_->space, kCacheSize, 0);
  }
}

NativeUnwinder::~NativeUnwinder() = default;

// After unw_step() has returned `rc` for code at `pc`.
std::string NativeUnwinder::Engine::why_no_caller(Addr pc, int rc, bool stepped) const {
  if (missing_table || rc == -UNW_ENOINFO) {
    const Module* m = modules.find(pc);
    return m != nullptr && !m->why_no_image.empty() ? m->why_no_image : "no unwind information";
  }
  return stepped ? "stack pointer does not advance" : "caller cannot be computed";
}

NativeStack NativeUnwinder::unwind(const Registers& registers, AddrRange stack) {
  NativeStack out;
  Engine& e = *engine_;
  unw_cursor_t cursor;
  Registers regs = registers;
  bool exact = true;
  if (e.space == nullptr || !e.init(&cursor, regs, exact)) {
    out.stopped = "cannot start the unwinder";
    return out;
  }
  bool fresh = true;  // the cursor was just initialised from `regs`
  Addr pc = regs.pc();
  Addr sp = regs.sp();
  for (;;) {
    out.frames.push_back({.pc = pc, .sp = sp, .exact = exact});
    if (out.frames.size() == kMaxFrames) {
      out.stopped = fmt::format("more than {} frames", kMaxFrames);
      return out;
    }
    // A copy, because a failed step leaves the cursor undefined.
    unw_cursor_t before = cursor;
    e.missing_table = false;
    const bool executable = e.modules.is_executable(exact ? pc : pc - 1);
    const int rc = executable ? unw_step(&cursor) : -UNW_ENOINFO;
    if (rc == 0 && !e.missing_table) {
      return out;  // the table marks the outermost frame
    }
    const bool was_sigreturn = e.is_sigreturn(pc);
    unw_word_t next_pc = 0;
    unw_word_t next_sp = 0;
    const bool stepped = rc > 0 && !e.missing_table && unw_get_reg(&cursor, UNW_REG_IP, &next_pc) == 0 &&
                         unw_get_reg(&cursor, UNW_REG_SP, &next_sp) == 0;
    // The start code of a thread leaves 0 as its return address.
    if (stepped && next_pc == 0) {
      return out;
    }
    // A signal handler may run on its own stack at any address; otherwise the stack only grows down.
    if (stepped && (next_sp > sp || was_sigreturn)) {
      exact = was_sigreturn;
      fresh = false;
    } else {
      const Registers here = fresh ? regs : e.current(&before, regs);
      Registers callee = here;
      callee.r[Registers::kRip] = pc;
      callee.r[Registers::kRsp] = sp;
      const auto caller = guess_caller(callee, exact, stack, e.modules, e.memory);
      if (!caller || caller->sp() <= sp) {
        out.stopped = !stack.contains(sp) ? "end of the copied stack"
                      : !executable       ? "no code at this address"
                                          : e.why_no_caller(pc, rc, stepped);
        return out;
      }
      regs = *caller;
      exact = false;
      fresh = true;
      if (!e.init(&cursor, regs, exact)) {
        out.stopped = "cannot continue the unwinder";
        return out;
      }
      next_pc = regs.pc();
      next_sp = regs.sp();
    }
    out.frames.back().cfa = next_sp > sp ? next_sp : 0;
    pc = next_pc;
    sp = next_sp;
  }
}

}  // namespace xpurun::stackdump
