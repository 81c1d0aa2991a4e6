// RelayMemory: the state that a successor needs after a relay was killed, in shared memory of the keeper: the
// descriptors, which the keeper has open too. One relay at a time writes it.
#pragma once

#include "common/wire/logs.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace xpurun::launcher {

struct KeptPipe {
  int fd = -1;
  uint32_t rank = 0;
  wire::LogStream which = wire::LogStream::out;
};

class RelayMemory {
 public:
  // If the mapping fails, nothing is recorded.
  RelayMemory(int listener, int channel);

  void add(const KeptPipe& pipe);
  void remove(int fd);
  std::vector<KeptPipe> pipes() const;

  // -1: closed.
  int listener() const { return shared_ == nullptr ? -1 : shared_->listener; }
  int channel() const { return shared_ == nullptr ? -1 : shared_->channel; }
  bool finishing() const { return shared_ != nullptr && shared_->finishing; }
  void close_listener();
  void close_channel();
  void finish();

  bool works() const { return shared_ != nullptr; }
  // The recorded descriptors.
  std::vector<int> descriptors() const;

 private:
  static constexpr size_t kMostPipes = 8192;
  struct Shared {
    int listener = -1;
    int channel = -1;
    bool finishing = false;
    KeptPipe pipes[kMostPipes];
  };
  Shared* shared_ = nullptr;  // never unmapped: the process ends with it
};

}  // namespace xpurun::launcher
