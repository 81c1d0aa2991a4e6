#include "launcher/storage/direct_storage.h"

namespace xpurun::launcher {

void DirectStorage::later(std::function<void()> what) {
  if (loop_ == nullptr) {
    what();
  } else {
    loop_->after(0, std::move(what));
  }
}

void DirectStorage::submit(FileOperation operation, Done done) {
  const base::Status status = perform(operation);
  failed_.note(std::move(operation), status);
  if (done) {
    later([done = std::move(done), status] { done(status); });
  }
}

void DirectStorage::when_written(double, std::function<void(Written)> then) {
  for (FileOperation& operation : failed_.to_retry()) {
    submit(std::move(operation), {});
  }
  later([this, then = std::move(then)] { then(failed_.none() ? Written::all : Written::not_all); });
}

}  // namespace xpurun::launcher
