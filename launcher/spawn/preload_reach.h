// How far the preload library can work in a program, judged by the program's file: statically linked,
// set-user-id, another word size, another C library, AddressSanitizer. Such a program is still supervised;
// run.json records the reason.
#pragma once

#include <string>
#include <string_view>

namespace xpurun::launcher {

enum class PreloadLimit {
  none,
  set_id,         // the loader ignores LD_PRELOAD
  other_machine,  // the loader ignores LD_PRELOAD
  no_loader,      // statically linked
  musl,           // loaded, but idle
  asan,           // loaded; AddressSanitizer handles memory faults itself
  asan_first,     // the program would exit at its start with the preload library in LD_PRELOAD
};

struct PreloadReach {
  PreloadLimit limit = PreloadLimit::none;
  std::string fact;  // empty if there is no limit
  std::string lost;  // the feature that is lost
};

// `asan_options` is the value of ASAN_OPTIONS. For a script, only the file itself is checked; its interpreter
// is checked when it runs.
PreloadReach preload_reach(const std::string& program, std::string_view asan_options = {});

// Whether an LD_PRELOAD entry is the runtime of a sanitizer (gcc's libasan.so.8, clang's libclang_rt.asan.so,
// ...). Sanitizers must be loaded before all other libraries.
bool is_sanitizer_runtime(std::string_view library);

}  // namespace xpurun::launcher
