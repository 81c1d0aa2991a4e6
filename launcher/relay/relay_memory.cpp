#include "launcher/relay/relay_memory.h"

#include <algorithm>
#include <new>
#include <sys/mman.h>
#include <unistd.h>

namespace xpurun::launcher {

RelayMemory::RelayMemory(int listener, int channel) {
  // Shared and anonymous: all that are forked from here on see the same state.
  void* memory = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory != MAP_FAILED) {
    shared_ = new (memory) Shared;
    shared_->listener = listener;
    shared_->channel = channel;
  }
}

void RelayMemory::add(const KeptPipe& pipe) {
  if (shared_ == nullptr) {
    return;
  }
  auto* const free = std::find_if(std::begin(shared_->pipes), std::end(shared_->pipes),
                                  [](const KeptPipe& p) { return p.fd < 0; });
  if (free != std::end(shared_->pipes)) {
    *free = pipe;
  }
}

void RelayMemory::remove(int fd) {
  if (shared_ == nullptr) {
    return;
  }
  for (KeptPipe& pipe : shared_->pipes) {
    if (pipe.fd == fd) {
      pipe.fd = -1;
    }
  }
}

std::vector<KeptPipe> RelayMemory::pipes() const {
  std::vector<KeptPipe> out;
  if (shared_ != nullptr) {
    std::copy_if(std::begin(shared_->pipes), std::end(shared_->pipes), std::back_inserter(out),
                 [](const KeptPipe& p) { return p.fd >= 0; });
  }
  return out;
}

void RelayMemory::close_listener() {
  if (shared_ != nullptr) {
    shared_->listener = -1;
  }
}

void RelayMemory::close_channel() {
  if (shared_ != nullptr) {
    shared_->channel = -1;
  }
}

void RelayMemory::finish() {
  if (shared_ != nullptr) {
    shared_->finishing = true;
  }
}

void RelayMemory::end(int status) {
  if (shared_ != nullptr) {
    shared_->ended = status;
  }
  ::_exit(status);
}

base::Pid RelayMemory::pid(Part part) const {
  return shared_ == nullptr ? 0 : shared_->pids[static_cast<size_t>(part)].load();
}

void RelayMemory::set_pid(Part part, base::Pid pid) {
  if (shared_ != nullptr) {
    shared_->pids[static_cast<size_t>(part)] = pid;
  }
}

StreamProgress* RelayMemory::progress(uint32_t rank, wire::LogStream which) {
  for (StreamProgress* known : streams()) {
    if (known->rank == rank && known->which == which) {
      return known;
    }
  }
  if (shared_ == nullptr || shared_->streams_used == kMostStreams) {
    return nullptr;
  }
  StreamProgress& made = shared_->streams[shared_->streams_used++];
  made.rank = rank;
  made.which = which;
  return &made;
}

std::vector<StreamProgress*> RelayMemory::streams() const {
  std::vector<StreamProgress*> out;
  for (size_t i = 0; shared_ != nullptr && i < shared_->streams_used; ++i) {
    out.push_back(&shared_->streams[i]);
  }
  return out;
}

std::vector<int> RelayMemory::descriptors() const {
  std::vector<int> out = {listener(), channel()};
  for (const KeptPipe& pipe : pipes()) {
    out.push_back(pipe.fd);
  }
  std::erase(out, -1);
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace xpurun::launcher
