// Python's messages about the end of a process: matching them to endings, and their words.
#pragma once

#include "common/model/run_manifest.h"
#include "report/diagnosis/waits/wait_patterns.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace xpurun::report {

// Of the records of the process's pid, the one that explains its end: the exception that ended the main
// thread, else the call whose code is the process's exit status. Null if there is none.
const model::PythonException* last_word(const std::vector<const model::PythonException*>& of_pid,
                                        const model::ProcessRecord& process);

// The innermost line of the user's code among the frames; empty function if none.
model::CodeLocation place_of(const model::PythonException& exception);

// "KeyError: 'label' at data.py:21 (in collate)"
std::string words_of(const model::ExceptionLink& link);

// "raised KeyError: 'label' at data.py:21 (in collate)"
std::string raised_words(const model::PythonException& exception);
// What sys.exit(1) or os._exit(1) was called for by an exit hook or an exception handler, without a message:
// the exception that it was handling, with a line of the program; null: nothing of that kind.
const model::ExceptionLink* handled_by_exit(const model::PythonException& exception);
// The same as an exception that ended the main thread, where a library has caught it and calls sys.exit()
// (torch.multiprocessing.spawn); empty for any other.
std::optional<model::PythonException> raised_in_library(const model::PythonException& exception);
// "called sys.exit('no data') at train.py:7 (in main)"
std::string exit_words(const model::PythonException& exception);
std::string advice_on(const model::PythonException& exception);
// The advice where nothing better is known.
std::string whole_traceback_words(const std::string& page);
// Whether a next step is that, with any page.
bool asks_for_traceback(std::string_view next);

model::VerdictException for_verdict(const model::PythonException& exception);

// Adds evidence lines: the end of the traceback and the exceptions that it was raised from or during.
void add_traceback(const model::PythonException& exception, std::vector<std::string>& out);

// The wait that the exception left; none if it was raised elsewhere.
std::optional<Wait> wait_left_by(const model::PythonException& exception);
// The exception left a call that waits for other ranks, so a failure of theirs may have caused it.
bool waited_for_peers(const model::PythonException& exception);

// The message says that the connection to another process broke.
bool says_peer_is_gone(const model::PythonException& exception);
// Whether a data loader of PyTorch misses one of its workers.
bool misses_worker(const model::PythonException& exception);

// The message is that of a backend (gloo, NCCL's watchdog, monitored_barrier) that waited for another rank in
// vain.
bool says_backend_gave_up(std::string_view message);
bool says_backend_gave_up(const model::PythonException& exception);

// gloo got a message that is longer than the buffer of the call that waits for it.
bool says_foreign_message(std::string_view message);

// Both are null, or both are of the same type with the same message.
bool is_alike(const model::PythonException* a, const model::PythonException* b);

// An allocation of host memory failed, of Python, NumPy, C++ or PyTorch.
bool lacks_host_memory(const model::PythonException& exception);

}  // namespace xpurun::report
