#include "launcher/relay/relay_memory.h"

#include <algorithm>
#include <new>
#include <sys/mman.h>

namespace xpurun::launcher {

RelayMemory::RelayMemory(int listener, int channel) {
  // Shared and anonymous: a successor that is forked after this relay was killed sees the same state.
  void* memory = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory != MAP_FAILED) {
    shared_ = new (memory) Shared{.listener = listener, .channel = channel};
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
