// Ink: colour on a terminal, none elsewhere. Colour never carries the meaning alone: a word always does.
#pragma once

#include <string>
#include <string_view>

namespace xpurun::launcher {

class Ink {
 public:
  enum class Colour { good, doubtful, bad, strong, faint };

  // Coloured if the stream behind fd may be (NO_COLOR, TERM, FORCE_COLOR).
  static Ink for_stream(int fd);
  static Ink plain() { return Ink(false); }
  static Ink coloured() { return Ink(true); }

  bool is_on() const { return on_; }
  std::string paint(Colour colour, std::string_view text) const;

 private:
  explicit Ink(bool on) : on_(on) {}
  bool on_;
};

}  // namespace xpurun::launcher
