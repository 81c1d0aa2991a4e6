// PythonException: a report of Python's bootstrap (preload/python/) about a process: an uncaught exception,
// or a call that ended the process. One message has the schema "xpurun.exception/1"; run.json holds a list.
// The content comes from the job and is not trusted.
#pragma once

#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/model/names.h"
#include "common/model/verdict.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace xpurun::model {

inline constexpr std::string_view kExceptionSchema = "xpurun.exception/1";

enum class ExceptionKind {
  raised,      // left the main thread's code and ended the process
  thread,      // ended another thread
  unraisable,  // Python could only print it: raised in a destructor or a callback
  sys_exit,    // sys.exit() was called; counts if the process ended that way
  os_exit,     // os._exit() was called
  kept,        // a future or a task keeps it, until somebody asks for the result
  logged,      // the program has caught it, and has logged or printed it
};
template <>
inline constexpr std::array<std::string_view, 7> kNames<ExceptionKind> = {
    "raised", "thread", "unraisable", "sys_exit", "os_exit", "kept", "logged"};

// Caught by the program or by a library: no thread has ended. It matters only where the job stands
// afterwards.
constexpr bool is_swallowed(ExceptionKind kind) {
  return kind == ExceptionKind::kept || kind == ExceptionKind::logged;
}

// How an exception of a chain relates to the one before it.
enum class Relation {
  none,     // the first
  cause,    // raise ... from
  context,  // was being handled at the time
  member,   // member of an exception group
};
template <>
inline constexpr std::array<std::string_view, 4> kNames<Relation> = {"", "cause", "context", "member"};

struct PythonFrame {
  std::string file;
  int line = 0;
  std::string function;  // qualified if the interpreter provides it (3.11)
  std::string source;    // text of the line; empty if unreadable
};

// Who has a port that a process wanted.
struct PortHolder {
  int port = 0;
  base::Pid pid = 0;    // 0: not found, such as a process of another user
  std::string command;  // its arguments, shortened
  bool empty() const { return port == 0; }
};

struct ExceptionLink {
  Relation relation = Relation::none;
  std::string type;  // with its module, "torch.OutOfMemoryError"; "SystemExit" for calls that end the process
  std::string message;
  std::vector<PythonFrame> frames;  // outermost first
  int left_out = 0;                 // number of frames omitted from the middle
  uint64_t largest_free = 0;        // CUDA out of memory: bytes of the largest free block; 0: unknown
  PortHolder port_holder;           // address in use: found when the exception came

  bool empty() const { return type.empty(); }
};

struct PythonException {
  ExceptionKind kind = ExceptionKind::raised;
  base::Pid pid = 0;
  base::Tid tid = 0;  // in the process's own PID namespace
  base::Rank rank = base::kNoRank;
  std::string thread;  // Python's name of the thread
  double at_s = 0;     // seconds since the run began
  int64_t wall_ns = 0;
  int code = -1;                     // status of a call that ends the process; -1: none
  std::vector<ExceptionLink> chain;  // the exception that ended the thread first, then its causes
  size_t node = 0;                   // index into RunManifest::nodes; not kept
};

// Whether the record describes an exception, as opposed to a call that ends the process.
constexpr bool is_exception(ExceptionKind kind) {
  return kind == ExceptionKind::raised || kind == ExceptionKind::thread || kind == ExceptionKind::unraisable;
}

// Parses one message of the bootstrap. Fails if there is no chain. Masks secrets in messages and source
// lines.
base::Result<PythonException> exception_from_message(std::string_view json);

// The variables that give the message's sender its rank; empty for a process without a rank.
std::map<std::string, std::string> identity_in_message(std::string_view json);

// The parent of the message's sender; 0: the message does not say.
base::Pid parent_in_message(std::string_view json);

// Keeps only the positions of the chain's first exception and the beginning of its message. For runs with
// very many records.
void drop_details(PythonException& exception);

// In Python's format: "Traceback (most recent call last):" and so on, causes first.
std::string traceback_text(const PythonException& exception);

// "KeyError: 'label'": type and first line of the message, on one line.
std::string headline(const ExceptionLink& link);

// The figures of PyTorch's allocator when GPU memory is exhausted. Bytes; empty where the message has none.
struct OutOfMemory {
  std::optional<uint64_t> asked;
  std::optional<uint64_t> total;
  std::optional<uint64_t> free;
  std::optional<uint64_t> allocated;  // by PyTorch
  std::optional<uint64_t> reserved;   // by PyTorch, without the allocated bytes
  std::optional<uint64_t> largest;    // free block of that; from the allocator, not from the message
  std::optional<uint64_t> others;     // in use by other processes
  base::Pid other = 0;                // the one with most of that, as the driver numbers it
};
// Parses PyTorch's message (1.10 to 2.11); empty for any other exception.
std::optional<OutOfMemory> out_of_memory(const ExceptionLink& link);

// The port of a message "address already in use" (torch's store, gRPC, asyncio); 0: another message, or
// one that does not name the port.
int port_in_use(const ExceptionLink& link);

}  // namespace xpurun::model
