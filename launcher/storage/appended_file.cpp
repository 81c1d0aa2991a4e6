#include "launcher/storage/appended_file.h"

namespace xpurun::launcher {

AppendedFile::AppendedFile(Storage& storage, const std::string& directory, const std::string& name,
                           const std::string& head)
    : storage_(&storage), path_(directory + "/" + name), bytes_(head.size()) {
  storage_->make_dirs(directory, note_failure());
  storage_->create(path_, head, note_failure());
}

Storage::Done AppendedFile::note_failure() const {
  // The status is shared, because the result may come after this object was moved or destroyed.
  return [status = status_](const base::Status& result) {
    if (*status && !result) {
      *status = result;
    }
  };
}

void AppendedFile::append(std::string block) {
  if (*status_ && !block.empty()) {
    bytes_ += block.size();
    storage_->append(path_, std::move(block), note_failure());
  }
}

}  // namespace xpurun::launcher
