#include "stackdump/cpython/module_variables.h"

#include "stackdump/cpython/dict.h"

namespace xpurun::stackdump {

namespace {

constexpr size_t kMaxKnownCode = 1024;  // code objects, few of which belong to a module
constexpr size_t kMaxFunctions = 2048;  // code objects of one module, including classes and functions
constexpr size_t kMaxItems = 4096;      // items of one tuple

std::vector<Addr> tuple_at(RemoteMemory& memory, Addr field, const Offsets& o) {
  return read_tuple(memory, memory.value<uint64_t>(field).value_or(0), o, kMaxItems);
}

// The names used in functions and classes inside `module`. co_names holds globals and attributes without
// distinction.
std::unordered_set<Addr> names_inside(RemoteMemory& memory, Addr module, const Offsets& o) {
  std::unordered_set<Addr> names;
  const auto code_type = memory.value<uint64_t>(module + o.object_type);
  std::vector<Addr> found = {module};
  for (size_t i = 0; i < found.size(); ++i) {
    if (i != 0) {
      const auto here = tuple_at(memory, found[i] + o.code_names, o);
      names.insert(here.begin(), here.end());
    }
    for (const Addr constant : tuple_at(memory, found[i] + o.code_constants, o)) {
      if (found.size() < kMaxFunctions && constant != 0 &&
          memory.value<uint64_t>(constant + o.object_type) == code_type) {
        found.push_back(constant);
      }
    }
  }
  return names;
}

}  // namespace

const ModuleVariables::Names* ModuleVariables::names_in_functions(RemoteMemory& memory, Addr code,
                                                                  const Offsets& o) {
  auto known = known_.find(code);
  if (known == known_.end()) {
    if (known_.size() >= kMaxKnownCode) {
      known_.clear();
    }
    const auto name = read_unicode(memory, memory.value<uint64_t>(code + o.code_name).value_or(0), o);
    known = known_.emplace(code, std::nullopt).first;
    if (name == "<module>") {
      known->second = names_inside(memory, code, o);
    }
  }
  return known->second ? &*known->second : nullptr;
}

std::vector<Addr> ModuleVariables::values(RemoteMemory& memory, const RawFrame& frame, const Offsets& o,
                                          size_t limit) {
  std::vector<Addr> out;
  const Names* const in_functions = names_in_functions(memory, frame.code, o);
  if (in_functions == nullptr) {
    return out;
  }
  const Addr globals = memory.value<uint64_t>(frame.address + o.frame_globals).value_or(0);
  const std::vector<DictItem> items = read_dict(memory, globals, o);
  // The newest globals first, because the limit should keep the variables of the running code.
  for (auto item = items.rbegin(); item != items.rend() && out.size() < limit; ++item) {
    if (!in_functions->contains(item->key)) {
      out.push_back(item->value);
    }
  }
  return out;
}

}  // namespace xpurun::stackdump
