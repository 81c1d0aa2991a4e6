#include "stackdump/cpython/module_calls.h"

#include "common/base/strings.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

namespace xpurun::stackdump {

namespace {

constexpr size_t kMaxClassName = 128;

// The functions of torch that every call of a module passes through: the name of the module's class says
// more.
bool calls_module(const CodeObject& code) {
  const std::string_view name = std::string_view(code.name).substr(code.name.rfind('.') + 1);
  return (name == "_wrapped_call_impl" || name == "_call_impl") &&
         code.filename.ends_with("torch/nn/modules/module.py");
}

// The class of the first argument; empty if the variable is not in the frame, but in a cell.
std::string class_of_self(RemoteMemory& memory, const RawFrame& frame, const Offsets& o) {
  const Addr slot = memory.value<uint64_t>(frame.address + o.frame_locals).value_or(0);
  const Addr self = slot & ~(o.frame_tagged ? kTagBits : 0);
  const Addr type = self == 0 ? 0 : memory.value<uint64_t>(self + o.object_type).value_or(0);
  const Addr name = type == 0 ? 0 : memory.value<uint64_t>(type + o.type_name).value_or(0);
  const std::string out = base::sanitize(name == 0 ? "" : memory.c_string(name, kMaxClassName).value_or(""));
  return out == "cell" ? "" : out;
}

}  // namespace

std::string module_call(RemoteMemory& memory, const Offsets& offsets, const RawFrame& frame,
                        const CodeObject& code) {
  if (!calls_module(code) || offsets.frame_locals == kAbsent) {
    return {};
  }
  const std::string module = class_of_self(memory, frame, offsets);
  return module.empty() ? std::string() : fmt::format("nn.Module: {}", module);
}

void read_module_calls(RemoteMemory& memory, const Offsets& offsets, PySnapshot& snapshot) {
  for (const PyThread& thread : snapshot.threads) {
    for (const FrameGroup& group : thread.groups) {
      for (const RawFrame& frame : group.frames) {
        const auto code = snapshot.code.find(frame.code);
        if (code == snapshot.code.end()) {
          continue;
        }
        if (std::string call = module_call(memory, offsets, frame, code->second); !call.empty()) {
          snapshot.module_calls.emplace(frame.address, std::move(call));
        }
      }
    }
  }
}

}  // namespace xpurun::stackdump
