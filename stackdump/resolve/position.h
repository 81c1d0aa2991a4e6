// PositionReader: the position of the main thread of a Python process, read with process_vm_readv alone. For
// the supervisor's polls: stops nothing, opens no file of the target, holds bounded memory, survives any
// content. The process runs while it is read, so a frame chain may be torn; a torn chain only looks like
// progress.
#pragma once

#include "common/base/ids.h"
#include "common/base/result.h"
#include "stackdump/cpython/offsets/offsets.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace xpurun::stackdump {

// A line that a Python frame executes.
struct CodeLine {
  std::string function;
  std::string file;
  int line = 0;
};

struct Position {
  // Fingerprint of every Python frame's code, instruction and variables (except variables of waiting library
  // functions): changes when the thread makes progress.
  uint64_t fingerprint = 0;
  // The same without the instruction of the innermost frame. Where only the instruction changes, the thread
  // stays in one function whose variables do not change.
  uint64_t around = 0;
  int64_t instruction = 0;  // of the innermost frame; comparable within its function
  std::string function;     // innermost Python frame
  std::string file;
  int line = 0;
  bool has_python = false;  // the main thread has Python frames
  // From the innermost frame to the first one of the user's code, or to the outermost one, at most
  // kMostLines; see read().
  std::vector<CodeLine> lines;

  static constexpr size_t kMostLines = 64;
};

// A thread other than the main one.
struct ThreadPosition {
  uint64_t native_id = 0;  // in the process's own PID namespace; 0 before 3.11
  uint64_t fingerprint = 0;
  std::vector<CodeLine> lines = {};  // as of Position, if they are wanted
};

// A Python function by the name in its code object: qualified from 3.11 on.
struct CodeName {
  std::string function;
  std::string file;
};

class PositionReader {
 public:
  // Fails while the process has no initialised Python of a known version; try again later.
  static base::Result<PositionReader> open(base::Pid pid);
  PositionReader(PositionReader&&) noexcept;
  PositionReader& operator=(PositionReader&&) noexcept;
  ~PositionReader();

  enum class Lines { to_user, all };
  // Fails when the process is gone or has since started another program: open() again.
  // `is_user`, called with a file, ends the list of lines, unless all are wanted; without it, the list is
  // empty. Names are cached, so that every call has to give the same answer.
  base::Result<Position> read(const std::function<bool(std::string_view file)>& is_user = {},
                              Lines lines = Lines::to_user);
  // The positions of at most `most` other threads that run Python. `is_user`: as of read(). Fails like
  // read().
  base::Result<std::vector<ThreadPosition>> other_threads(
      size_t most, const std::function<bool(std::string_view file)>& is_user = {});
  // The main thread's innermost Python frames, innermost first, at most `most` of them. Fails like read().
  base::Result<std::vector<CodeName>> innermost(size_t most);
  // Where this interpreter keeps what is read here.
  const Offsets& offsets() const;

 private:
  struct State;
  explicit PositionReader(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace xpurun::stackdump
