// RelayMemory: what a relay must know to take over from one that was killed, in memory that outlives both:
// the descriptors that its keeper has open, too. One relay at a time writes it.
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
  // Null if there is no memory: then nothing is remembered.
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
  // The descriptors that are remembered.
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
