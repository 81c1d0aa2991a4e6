// Storage: changes the run directory for the supervisor. A file system may stall for minutes (NFS, FUSE, a
// failing disk), and the event loop must not stall with it. The caller submits operations; the result comes
// later or never. Operations are performed in the order of submission. Event loop's thread only.
#pragma once

#include "common/base/ids.h"
#include "common/base/result.h"
#include "launcher/storage/file_operation.h"

#include <functional>
#include <string>

namespace xpurun::launcher {

enum class Written {
  all,      // everything submitted so far is on disk
  not_all,  // the newest text of a file is not on disk; problem() says why
  stalled,  // the file system does not answer
};

class Storage {
 public:
  // Called from the event loop, once.
  using Done = std::function<void(const base::Status&)>;

  Storage() = default;
  virtual ~Storage() = default;
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  virtual void submit(FileOperation operation, Done done) = 0;
  // Calls `then` later, from the loop, when everything submitted so far has been tried, or after `patience_s`
  // without an answer of the file system.
  virtual void when_written(double patience_s, std::function<void(Written)> then) = 0;
  // Why the newest text of a replaced file is not on disk; empty if there is no problem.
  virtual std::string problem() const = 0;
  // The process that performs the operations; 0: the calling process.
  virtual base::Pid pid() const { return 0; }

  // drain() and finish() block, as long as answers come at least every `patience_s`. Only for use before the
  // job starts and after it has ended. drain() returns whether everything has been tried.
  virtual bool drain(double /*patience_s*/) { return true; }
  // Also waits for the release of the directory's lock. Nothing may be submitted afterwards.
  virtual void finish(double /*patience_s*/) {}

  void make_dirs(std::string path, Done done = {}) {
    submit({FileAction::make_dirs, std::move(path)}, std::move(done));
  }
  void replace(std::string path, std::string text, Done done = {}) {
    submit({FileAction::replace, std::move(path), std::move(text)}, std::move(done));
  }
  void create(std::string path, std::string text, Done done) {
    submit({FileAction::create, std::move(path), std::move(text)}, std::move(done));
  }
  void append(std::string path, std::string text, Done done) {
    submit({FileAction::append, std::move(path), std::move(text)}, std::move(done));
  }
  void append_or_create(std::string path, std::string text) {
    submit({FileAction::append_or_create, std::move(path), std::move(text)}, {});
  }
  void remove(std::string path) { submit({FileAction::remove, std::move(path)}, {}); }
  void remove_tree(std::string path) { submit({FileAction::remove_tree, std::move(path)}, {}); }
  void probe(std::string path) { submit({FileAction::probe, std::move(path)}, {}); }
};

}  // namespace xpurun::launcher
