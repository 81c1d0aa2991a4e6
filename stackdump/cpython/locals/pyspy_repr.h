// A value as py-spy 0.4 writes it as `repr` of `dump --json --locals`: the elements of lists, tuples and
// dicts within 128 bytes, numbers in full digits, "<Thread at 0x7f00>" for other objects. Unlike py-spy,
// values of keys with secret-looking names, and secrets in texts, are masked.
#pragma once

#include "stackdump/cpython/offsets/offsets.h"
#include "stackdump/memory/remote_memory.h"

#include <string>

namespace xpurun::stackdump {

// "?" for a value that cannot be read, or contains one.
std::string pyspy_repr(RemoteMemory& memory, Addr object, const Offsets& offsets);

}  // namespace xpurun::stackdump
