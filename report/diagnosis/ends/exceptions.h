// What Python told of a process's end, for endings and in words.
#pragma once

#include "common/model/run_manifest.h"

#include <string>
#include <vector>

namespace xpurun::report {

// The record that explains the process's end, null if there is none: what ended the main thread, else the
// call whose code is the process's exit status.
const model::PythonException* last_word(const model::RunManifest& run, const model::ProcessRecord& process);

// The innermost line of the user's code among the frames; empty function if there are none.
model::CodeLocation place_of(const model::PythonException& exception);

// "KeyError: 'label' at data.py:21 (in collate)"
std::string words_of(const model::ExceptionLink& link);

// "raised KeyError: 'label' at data.py:21 (in collate)"
std::string raised_words(const model::PythonException& exception);
// "called sys.exit('no data') at train.py:7 (in main)"
std::string exit_words(const model::PythonException& exception);
std::string advice_on(const model::PythonException& exception);

// The end of the traceback, and what it was raised from or during, as lines of evidence.
void add_traceback(const model::PythonException& exception, std::vector<std::string>& out);

// The exception came out of a call that waits for other ranks: their failure may be its reason.
bool waited_for_peers(const model::PythonException& exception);

// Both are null, or both are of the same type with the same message.
bool is_alike(const model::PythonException* a, const model::PythonException* b);

}  // namespace xpurun::report
