// elfutils' libdw, loaded with dlopen on first use: the programs run without libdw, and the relocatable
// bundle neither contains nor requires libdw. Thread rule: one thread at a time, as for libdw itself.
#pragma once

#include "common/base/result.h"

#include <elfutils/libdwfl.h>

namespace xpurun::stackdump {

struct LibDw {
#define XPURUN_LIBDW_FUNCTIONS(X) \
  X(dwfl_addrmodule)              \
  X(dwfl_attach_state)            \
  X(dwfl_begin)                   \
  X(dwfl_end)                     \
  X(dwfl_errmsg)                  \
  X(dwfl_frame_pc)                \
  X(dwfl_frame_reg)               \
  X(dwfl_getthread_frames)        \
  X(dwfl_lineinfo)                \
  X(dwfl_module_addrdie)          \
  X(dwfl_module_getsrc)           \
  X(dwfl_module_info)             \
  X(dwfl_module_nextcu)           \
  X(dwfl_report_begin_add)        \
  X(dwfl_report_elf)              \
  X(dwfl_report_end)              \
  X(dwfl_thread_state_registers)  \
  X(dwarf_attr)                   \
  X(dwarf_attr_integrate)         \
  X(dwarf_diename)                \
  X(dwarf_filesrc)                \
  X(dwarf_formref_die)            \
  X(dwarf_formstring)             \
  X(dwarf_formudata)              \
  X(dwarf_getscopes)              \
  X(dwarf_getscopes_die)          \
  X(dwarf_getsrcfiles)            \
  X(dwarf_haspc)                  \
  X(dwarf_tag)

#define XPURUN_LIBDW_MEMBER(name) decltype(&::name) name = nullptr;
  XPURUN_LIBDW_FUNCTIONS(XPURUN_LIBDW_MEMBER)
#undef XPURUN_LIBDW_MEMBER
};

// Loads the library once; later calls return the same result. No debuginfod server is ever asked:
// DEBUGINFOD_URLS is removed from this process's environment first, and the find_debuginfo callback is
// xpurun's own.
base::Result<const LibDw*> load_libdw();

}  // namespace xpurun::stackdump
