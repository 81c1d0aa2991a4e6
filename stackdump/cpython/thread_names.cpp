#include "stackdump/cpython/thread_names.h"

#include "stackdump/cpython/dict.h"
#include "stackdump/cpython/object.h"

namespace xpurun::stackdump {

namespace {

constexpr size_t kMaxNamedInterpreters = 256;
constexpr size_t kMaxThreadName = 200;

}  // namespace

std::vector<Addr> find_thread_tables(RemoteMemory& memory, const PythonRuntime& runtime) {
  const Offsets& o = runtime.offsets;
  const auto pointer = [&memory](Addr a) { return memory.value<uint64_t>(a).value_or(0); };
  std::vector<Addr> out;
  Addr interp = pointer(runtime.address + o.runtime_interpreters);
  for (size_t i = 0; interp != 0 && i < kMaxNamedInterpreters; ++i) {
    const Addr module = dict_value(memory, pointer(interp + o.interp_modules), "threading", o);
    const Addr table = module == 0 ? 0 : dict_value(memory, pointer(module + o.module_dict), "_active", o);
    if (table != 0) {
      out.push_back(table);
    }
    interp = pointer(interp + o.interp_next);
  }
  return out;
}

ThreadNames read_thread_names(RemoteMemory& memory, const Offsets& o, const std::vector<Addr>& tables) {
  ThreadNames out;
  for (const Addr table : tables) {
    for (const DictItem& item : read_dict(memory, table, o)) {
      const auto ident = read_int(memory, item.key, o);
      if (!ident) {
        continue;
      }
      if (auto name = read_unicode(memory, attribute(memory, item.value, "_name", o), o, kMaxThreadName)) {
        // The main interpreter comes last so that its names win: every subinterpreter calls the thread that
        // entered it "MainThread".
        out[static_cast<uint64_t>(*ident)] = std::move(*name);
      }
    }
  }
  return out;
}

}  // namespace xpurun::stackdump
