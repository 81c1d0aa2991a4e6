// The system call that a thread is in, from the text of /proc/PID/syscall, and what the thread waits for in
// such a call.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace xpurun::base {

struct SystemCall {
  int64_t number = -1;  // -1: in no system call
  std::array<uint64_t, 6> arguments{};
};

// The text is "running" for a thread on a CPU, "-1 SP PC" outside of system calls, and else the number, six
// arguments, SP and PC in hexadecimal.
SystemCall parse_system_call(std::string_view text);

enum class CallKind {
  none,       // no system call
  restarted,  // continues an interrupted call, whose number is unknown
  sleep,      // also select() and poll() of nothing, as Python's time.sleep() before 3.11
  child,      // waits for the end of a process
  lock,
  receive,  // the thread wakes only to move data, or at the end of the file
  send,     // likewise
  ready,    // poll() and select()
  events,   // epoll
  accept,
  signal,
  other,
};
CallKind kind_of(const SystemCall& call);
// Of a call whose arguments are not known.
CallKind kind_of_name(std::string_view name);

// Receives or sends.
bool transfers(CallKind kind);

// "futex"; "#9999" for a call in which threads of a training job do not wait; empty for no call.
std::string name_of(const SystemCall& call);

// The descriptor that is the first argument of the call; -1: the call has none.
int descriptor_of(const SystemCall& call);

}  // namespace xpurun::base
