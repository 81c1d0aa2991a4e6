// How far the preload library can work in a program, judged by the program's file: statically linked,
// set-user-id, another word size, another C library, AddressSanitizer. Such a program is still supervised;
// the reason stands in run.json.
#pragma once

#include <string>
#include <string_view>

namespace xpurun::launcher {

enum class PreloadLimit {
  none,
  set_id,         // the loader ignores LD_PRELOAD
  other_machine,  // likewise
  no_loader,      // statically linked
  musl,           // loaded, but idle
  asan,           // loaded; AddressSanitizer handles memory faults itself
  asan_first,     // LD_PRELOAD with our library in it would end the program at its start
};

struct PreloadReach {
  PreloadLimit limit = PreloadLimit::none;
  std::string fact;  // empty if there is no limit
  std::string lost;  // what xpurun cannot tell because of it
};

// `asan_options` is the value of ASAN_OPTIONS. A script is judged by itself only: its interpreter is looked
// at once it runs.
PreloadReach preload_reach(const std::string& program, std::string_view asan_options = {});

// Whether an LD_PRELOAD entry is the runtime of a sanitizer (gcc's libasan.so.8, clang's libclang_rt.asan.so,
// ...). Sanitizers want to be loaded before everything else.
bool is_sanitizer_runtime(std::string_view library);

}  // namespace xpurun::launcher
