// Closes descriptors by their numbers, for a process that goes on in a copy of xpurun and must not keep open
// what it does not use. For a process with one thread: descriptors that another thread opens meanwhile may be
// missed.
#pragma once

namespace xpurun::base {

// Closes the open descriptors of the numbers `first` to `last`.
void close_descriptors(unsigned first, unsigned last);

// The same without the system call, which Linux before 5.9 does not have: closes those that /proc/self/fd
// lists.
void close_listed(unsigned first, unsigned last);

}  // namespace xpurun::base
