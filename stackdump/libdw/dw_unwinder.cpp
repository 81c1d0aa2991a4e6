#include "stackdump/libdw/dw_engine.h"
#include "stackdump/libdw/dw_session.h"

#include <fmt/format.h>

#include <cstring>
#include <dwarf.h>

namespace xpurun::stackdump {

namespace {

constexpr pid_t kTid = 1;  // libdw requires a thread id; DwUnwinder holds the actual thread

class DwUnwinder : public Unwinder {
 public:
  DwUnwinder(std::unique_ptr<DwSession> session, SnapshotMemory& memory)
      : session_(std::move(session)), memory_(memory) {}

  NativeStack unwind(const Registers& registers, AddrRange stack) override;

 private:
  bool attach();
  int add_frame(Dwfl_Frame* frame);
  bool read_word(Addr a, Dwarf_Word* value);
  bool set_registers(Dwfl_Thread* thread) const;
  static const Dwfl_Thread_Callbacks& callbacks();

  std::unique_ptr<DwSession> session_;
  SnapshotMemory& memory_;
  bool attached_ = false;
  const Registers* registers_ = nullptr;  // state of the thread being unwound
  NativeStack out_;
};

bool DwUnwinder::read_word(Addr a, Dwarf_Word* value) {
  if (const auto v = memory_.value<uint64_t>(a)) {
    *value = *v;
    return true;
  }
  // Read-only pages may be missing in the snapshot. The file has the same content.
  const Module* m = session_->modules().find(a);
  if (m == nullptr || m->image == nullptr) {
    return false;
  }
  const auto v = field<uint64_t>(m->image->at_vaddr(a - m->bias), 0);
  *value = v.value_or(0);
  return v.has_value();
}

bool DwUnwinder::set_registers(Dwfl_Thread* thread) const {
  const auto& api = session_->api();
  const std::array<Dwarf_Word, 2> known{registers_->sp(), registers_->pc()};
  if (!registers_->complete) {
    return api.dwfl_thread_state_registers(thread, Registers::kRsp, 1, known.data()) &&
           api.dwfl_thread_state_registers(thread, Registers::kRip, 1, &known[1]);
  }
  std::array<Dwarf_Word, Registers::kCount> all{};
  for (size_t i = 0; i < all.size(); ++i) {
    all[i] = registers_->r[i];
  }
  return api.dwfl_thread_state_registers(thread, 0, all.size(), all.data());
}

int DwUnwinder::add_frame(Dwfl_Frame* frame) {
  const auto& api = session_->api();
  Dwarf_Addr pc = 0;
  bool exact = false;
  Dwarf_Word sp = 0;
  if (!api.dwfl_frame_pc(frame, &pc, &exact) || api.dwfl_frame_reg(frame, Registers::kRsp, &sp) != 0) {
    return DWARF_CB_ABORT;
  }
  if (pc == 0) {
    return DWARF_CB_ABORT;
  }
  // The caller's stack pointer is the callee's canonical frame address.
  if (!out_.frames.empty()) {
    NativeFrame& callee = out_.frames.back();
    callee.cfa = sp > callee.sp ? sp : 0;
  }
  out_.frames.push_back({.pc = pc, .sp = sp, .exact = exact});
  if (out_.frames.size() == kMaxFrames) {
    out_.stopped = fmt::format("more than {} frames", kMaxFrames);
    return DWARF_CB_ABORT;
  }
  return DWARF_CB_OK;
}

const Dwfl_Thread_Callbacks& DwUnwinder::callbacks() {
  static const Dwfl_Thread_Callbacks table = {
      .next_thread = [](Dwfl*, void*, void**) -> pid_t { return 0; },
      .get_thread =
          [](Dwfl*, pid_t, void* self, void** thread_arg) {
            *thread_arg = self;
            return true;
          },
      .memory_read = [](Dwfl*, Dwarf_Addr a, Dwarf_Word* value,
                        void* self) { return static_cast<DwUnwinder*>(self)->read_word(a, value); },
      .set_initial_registers =
          [](Dwfl_Thread* thread, void* self) {
            return static_cast<DwUnwinder*>(self)->set_registers(thread);
          },
  };
  return table;
}

// All modules are reported before the first step: libdw does not find later modules reliably (elfutils
// 0.188), and its frame-pointer fallback then skips frames.
bool DwUnwinder::attach() {
  if (attached_) {
    return true;
  }
  bool any = false;  // libdw takes the machine type from a module
  for (const Mapping& m : session_->modules().maps().all()) {
    any = (m.executable && session_->report(m.lo)) || any;
  }
  attached_ = any && session_->api().dwfl_attach_state(session_->dwfl(), nullptr, kTid, &callbacks(), this);
  return attached_;
}

NativeStack DwUnwinder::unwind(const Registers& registers, AddrRange) {
  out_ = {};
  registers_ = &registers;
  if (!attach()) {
    out_.stopped = "cannot start libdw";
    return out_;
  }
  const auto& api = session_->api();
  const int rc = api.dwfl_getthread_frames(
      session_->dwfl(), kTid,
      [](Dwfl_Frame* frame, void* self) { return static_cast<DwUnwinder*>(self)->add_frame(frame); }, this);
  if (rc < 0 && out_.stopped.empty()) {
    const char* why = api.dwfl_errmsg(-1);
    out_.stopped = fmt::format("libdw: {}", why == nullptr ? "unknown error" : why);
  }
  if (out_.frames.empty()) {
    out_.frames.push_back({.pc = registers.pc(), .sp = registers.sp(), .exact = true});
  }
  return out_;
}

}  // namespace

base::Result<std::unique_ptr<Unwinder>> make_libdw_unwinder(ModuleList& modules, SnapshotMemory& memory) {
  XPURUN_TRY_ASSIGN(auto session, DwSession::open(modules));
  return std::make_unique<DwUnwinder>(std::move(session), memory);
}

}  // namespace xpurun::stackdump
