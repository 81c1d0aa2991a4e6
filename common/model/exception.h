// PythonException: what Python's bootstrap (preload/python/) told of a process: an exception that nobody
// caught, or a call that ended the process. Schema of one message "xpurun.exception/1"; in run.json a list.
// Everything in it comes from the job and is not to be believed.
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
  raised,      // left the main thread's code: it ends the process
  thread,      // ended another thread
  unraisable,  // Python could only print it: a destructor's, a callback's
  sys_exit,    // sys.exit() was called; counts if the process ended so
  os_exit,     // os._exit() was called
};
template <>
inline constexpr std::array<std::string_view, 5> kNames<ExceptionKind> = {"raised", "thread", "unraisable",
                                                                          "sys_exit", "os_exit"};

// How an exception of a chain belongs to the one before it.
enum class Relation {
  none,     // the first
  cause,    // raise ... from
  context,  // was being handled
  member,   // of an exception group
};
template <>
inline constexpr std::array<std::string_view, 4> kNames<Relation> = {"", "cause", "context", "member"};

struct PythonFrame {
  std::string file;
  int line = 0;
  std::string function;  // qualified where the interpreter knows (3.11)
  std::string source;    // the line's text; empty if it could not be read
};

struct ExceptionLink {
  Relation relation = Relation::none;
  std::string type;  // with its module, "torch.OutOfMemoryError"; "SystemExit" for calls that end
  std::string message;
  std::vector<PythonFrame> frames;  // outermost first
  int left_out = 0;                 // frames from the middle

  bool empty() const { return type.empty(); }
};

struct PythonException {
  ExceptionKind kind = ExceptionKind::raised;
  base::Pid pid = 0;
  base::Tid tid = 0;  // as the process sees itself (its own PID namespace)
  base::Rank rank = base::kNoRank;
  std::string thread;  // Python's name of the thread
  double at_s = 0;     // since the run began
  int64_t wall_ns = 0;
  int code = -1;                     // status of a call that ends the process; -1: none
  std::vector<ExceptionLink> chain;  // what ended the thread first, then what led to it
  size_t node = 0;                   // in RunManifest::nodes; not kept
};

// Whether the record is of an exception, not of a call that ends the process.
constexpr bool is_exception(ExceptionKind kind) {
  return kind == ExceptionKind::raised || kind == ExceptionKind::thread || kind == ExceptionKind::unraisable;
}

// One message of the bootstrap. Fails if it has no chain. Secrets in messages and source lines are masked.
base::Result<PythonException> exception_from_message(std::string_view json);

// The variables by which the sender of a message knows which rank it is; empty if it is none.
std::map<std::string, std::string> identity_in_message(std::string_view json);

// Keeps the places of the chain's first exception, and of its message the beginning: of records in a crowd.
void drop_details(PythonException& exception);

// As Python prints it: "Traceback (most recent call last):" and what follows, causes first.
std::string traceback_text(const PythonException& exception);

// "KeyError: 'label'": type and first line of the message, as one line.
std::string headline(const ExceptionLink& link);

// What PyTorch's allocator says when the GPU's memory is used up. Bytes; nothing where it does not say.
struct OutOfMemory {
  std::optional<uint64_t> asked;
  std::optional<uint64_t> total;
  std::optional<uint64_t> free;
  std::optional<uint64_t> allocated;  // by PyTorch
  std::optional<uint64_t> reserved;   // by PyTorch, without those allocated
};
// The figures in PyTorch's message (1.10 to 2.11); nothing if the exception is another one.
std::optional<OutOfMemory> out_of_memory(const ExceptionLink& link);

}  // namespace xpurun::model
