#include "launcher/output/footer.h"

#include "launcher/output/status_line.h"
#include "tests/unit/launcher/in_fork.h"
#include "tests/unit/launcher/no_descriptors.h"
#include "tests/unit/launcher/services/terminal.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdlib>
#include <fcntl.h>
#include <optional>
#include <sys/wait.h>
#include <unistd.h>

using namespace xpurun;
using namespace xpurun::launcher;
using test::NoDescriptors;
using test::Terminal;

namespace {

struct FooterScene {
  explicit FooterScene(int rows = 24, const char* term = "xterm")
      : terminal(rows, 80), record(terminal.fd()) {
    REQUIRE(::setenv("TERM", term, 1) == 0);
    footer.emplace(terminal.fd(), record);
  }
  ~FooterScene() { ::unsetenv("TERM"); }
  Terminal terminal;
  FooterRecord record;
  std::optional<Footer> footer;
};

// Moves the cursor out of the last row, then makes the rows above it scroll.
std::string reserves(int rows) {
  return fmt::format("^D^[A^7^[1;{}r^8", rows - 1);
}
std::string draws(int row, const std::string& text) {
  return fmt::format("^7^[{};1H^[2K^[2m{}^[0m^8", row, text);
}
std::string removes(int row) {
  return fmt::format("^7^[r^[{};1H^[2K^8", row);
}

}  // namespace

TEST_CASE("the line is below the scrolling rows, and leaves no trace") {
  FooterScene s;
  CHECK(s.footer->columns() == 79);
  s.footer->show("one");
  CHECK(s.terminal.seen() == reserves(24) + draws(24, "one"));
  CHECK(s.record.row() == 24);
  s.footer->show("two");
  CHECK(s.terminal.seen() == draws(24, "two"));
  s.footer->hide();
  CHECK(s.terminal.seen() == removes(24));
  CHECK(s.record.row() == 0);
  s.footer->hide();
  CHECK(s.terminal.seen().empty());
  s.footer->show("three");
  CHECK(s.terminal.seen() == reserves(24) + draws(24, "three"));
  s.footer.reset();
  CHECK(s.terminal.seen() == removes(24));
}

TEST_CASE("the line follows the size of the terminal") {
  FooterScene s;
  s.footer->show("x");
  (void)s.terminal.seen();
  SUBCASE("larger: the old row is cleared") {
    s.terminal.resize(30, 100);
    s.footer->show("y");
    CHECK(s.terminal.seen() == removes(24) + reserves(30) + draws(30, "y"));
    CHECK(s.footer->columns() == 99);
  }
  SUBCASE("smaller: the old row has gone") {
    s.terminal.resize(10, 80);
    s.footer->show("y");
    CHECK(s.terminal.seen() == reserves(10) + draws(10, "y"));
    CHECK(s.record.row() == 10);
  }
  SUBCASE("too small for a line") {
    s.terminal.resize(5, 1);
    s.footer->show("y");
    CHECK(s.terminal.seen().empty());
    CHECK(s.footer->columns() == 0);
    CHECK_FALSE(s.footer->usable());
  }
}

TEST_CASE("what is no capable terminal gets no line") {
  SUBCASE("a dumb terminal") {
    FooterScene s(24, "dumb");
    s.footer->show("x");
    CHECK(s.terminal.seen().empty());
    CHECK(s.footer->columns() == 0);
  }
  SUBCASE("a terminal of another session") {
    const FooterScene s;
    CHECK_FALSE(s.footer->usable());
  }
  SUBCASE("a pipe") {
    int ends[2];
    REQUIRE(::pipe2(ends, O_NONBLOCK) == 0);
    const base::UniqueFd out(ends[0]);
    const base::UniqueFd in(ends[1]);
    FooterRecord record(in.get());
    Footer footer(in.get(), record);
    footer.show("x");
    footer.hide();
    CHECK_FALSE(footer.usable());
    char byte = 0;
    CHECK(::read(out.get(), &byte, 1) == -1);
  }
  SUBCASE("no descriptor is free to open the terminal again") {
    const Terminal terminal(24, 80);
    FooterRecord record(terminal.fd());
    std::optional<Footer> footer;
    REQUIRE(::setenv("TERM", "xterm", 1) == 0);
    {
      const NoDescriptors full;
      footer.emplace(terminal.fd(), record);
    }
    ::unsetenv("TERM");
    footer->show("x");
    CHECK(footer->columns() == 0);
    CHECK(terminal.seen().empty());
  }
}

TEST_CASE("a terminal that Ctrl-S has stopped does not block") {
  FooterScene s;
  s.terminal.stop();
  s.footer->show("lost");
  s.terminal.go_on();
  CHECK(s.terminal.seen().empty());
  s.footer->show("seen");
  CHECK(s.terminal.seen() == reserves(24) + draws(24, "seen"));
  s.terminal.stop();
  s.footer->show("lost");
  s.terminal.go_on();
  s.footer->show("seen");
  CHECK(s.terminal.seen() == draws(24, "seen"));
  s.terminal.stop();
  s.footer->hide();
  s.terminal.go_on();
  CHECK(s.record.row() == 24);
  s.record.remove_line();
  CHECK(s.terminal.seen() == removes(24));
}

TEST_CASE("the line is removed although another process writes at that moment") {
  FooterScene s;
  s.footer->show("x");
  (void)s.terminal.seen();
  const pid_t other = ::fork();
  if (other == 0) {
    const std::string text(1 << 18, 'o');
    (void)!::write(s.terminal.fd(), text.data(), text.size());
    ::_exit(0);
  }
  while (!s.terminal.full()) {
    ::usleep(1000);
  }
  // It waits in write() for a reader now, and holds the terminal.
  const pid_t fork = ::fork();
  if (fork == 0) {
    s.record.remove_line();
    ::_exit(0);
  }
  std::string seen;
  for (const pid_t writer : {other, fork}) {
    while (::waitpid(writer, nullptr, WNOHANG) == 0) {
      seen += s.terminal.ready();
    }
  }
  CHECK((seen + s.terminal.seen()).ends_with(removes(24)));
}

namespace {

struct StatusLineScene {
  EventLoop loop = std::move(*EventLoop::create_simulated(0));
  FooterScene base;
  std::string text = "state";
  int made = 0;
  StatusLine line{loop, base.terminal.fd(), base.record, [this](size_t columns) {
                    ++made;
                    return text.empty() ? text : fmt::format("{} in {}", text, columns);
                  }};
  void run_for(double seconds) {
    loop.after(seconds, [this] { loop.stop(); });
    REQUIRE(loop.run());
  }
};

// The result of a scene in the foreground of its terminal.
std::string in_foreground(const std::function<std::string(StatusLineScene&)>& scene) {
  return test::in_fork([&] {
    StatusLineScene s;
    s.base.terminal.become_ours();
    s.line.start();
    return scene(s);
  });
}

}  // namespace

TEST_CASE("the status line comes after a second, then twice a second") {
  CHECK(in_foreground([](StatusLineScene& s) {
          s.run_for(0.9);
          return fmt::format("{} {}", s.made, s.base.terminal.seen());
        }) == "0 ");
  CHECK(in_foreground([](StatusLineScene& s) {
          s.run_for(1.1);
          return fmt::format("{} {}", s.made, s.base.terminal.seen());
        }) == "1 " + reserves(24) + draws(24, "state in 79"));
  CHECK(in_foreground([](StatusLineScene& s) {
          s.run_for(10.1);
          return fmt::format("{}", s.made);
        }) == "19");
}

TEST_CASE("the status line is removed, and comes back unless it was stopped") {
  const auto seen_after = [](void (*change)(StatusLineScene&)) {
    return in_foreground([change](StatusLineScene& s) {
      s.run_for(1.1);
      (void)s.base.terminal.seen();
      change(s);
      const std::string at_once = s.base.terminal.seen();
      s.run_for(0.5);
      return at_once + " " + s.base.terminal.seen();
    });
  };
  const std::string again = reserves(24) + draws(24, "state in 79");
  CHECK(seen_after([](StatusLineScene& s) { s.line.hide(); }) == removes(24) + " " + again);
  CHECK(seen_after([](StatusLineScene& s) { s.line.stop(); }) == removes(24) + " ");
  CHECK(seen_after([](StatusLineScene& s) { s.text = ""; }) == " ");
}

TEST_CASE("in the background nothing is drawn, and nothing is computed") {
  StatusLineScene s;
  s.line.start();
  s.run_for(10);
  CHECK(s.made == 0);
  CHECK(s.base.terminal.seen().empty());
}
