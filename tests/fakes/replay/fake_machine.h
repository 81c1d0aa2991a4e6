// What the libraries of the simulated machine share: settings, streams, memory, the log of calls.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

namespace fake_replay {

inline double number(const char* name, double otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::atof(text);
}

inline double slowness(int device) {
  const char* text = std::getenv("FAKE_REPLAY_SLOW");
  return text != nullptr && std::atoi(text) == device && std::strchr(text, ':') != nullptr
             ? std::atof(std::strchr(text, ':') + 1)
             : 1;
}

struct Stream {
  int device = 0;
  double now_ns = 0;
  void work(double ns) { now_ns += ns * slowness(device); }
};

// Whether [address, address + bytes) lies in one allocation.
bool is_inside(const void* pointer, uint64_t bytes);
// Appends a line that differs from all before to the log.
void log(const std::string& line);

template <typename T>
int make(void** out, T value) {
  *out = new T(std::move(value));
  return 0;
}
template <typename T>
int destroy(void* object) {
  delete static_cast<T*>(object);
  return 0;
}

}  // namespace fake_replay
