// Destinations of a verdict besides the terminal: systemd's journal and Kubernetes' termination log.
#include "common/base/os/io.h"
#include "common/base/os/temporary_directory.h"
#include "launcher/options/run_options.h"
#include "launcher/output/journald.h"
#include "launcher/output/termination_message.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstring>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

using namespace xpurun;
using namespace xpurun::launcher;

namespace {

model::Verdict verdict() {
  model::Verdict v;
  v.id = "crash.signal";
  v.kind = model::VerdictKind::crash;
  v.level = model::VerdictLevel::confirmed;
  v.confidence = model::Confidence::high;
  v.ranks = {2, 5};
  v.where = {.function = "load", .file = "/t/data.py", .line = 7};
  v.sentence = "crash: rank 2 died of SIGABRT\x1b[31m";
  v.evidence = {"first", "second"};
  v.next = {.text = "look at the stack", .command = "xpurun stacks"};
  return v;
}

}  // namespace

TEST_CASE("the journal entry has one line per field") {
  const std::string entry = journal_entry(verdict(), "/runs/a");
  for (const char* line :
       {"PRIORITY=3\n", "SYSLOG_IDENTIFIER=xpurun\n", "XPURUN_VERDICT=crash.signal\n", "XPURUN_KIND=crash\n",
        "XPURUN_RANK=2\nXPURUN_RANK=5\n", "XPURUN_RUN_DIR=/runs/a\n", "CODE_FILE=/t/data.py\n",
        "CODE_LINE=7\n", "CODE_FUNC=load\n"}) {
    CAPTURE(line);
    CHECK(entry.find(line) != std::string::npos);
  }
  CHECK(entry.find(fmt::format("MESSAGE_ID={}\n", kVerdictMessageId)) != std::string::npos);
  CHECK(entry.find('\x1b') == std::string::npos);
  // A value with a line break comes after its length.
  const std::string evidence("XPURUN_EVIDENCE\n\x0c\0\0\0\0\0\0\0first\nsecond\n", 16 + 8 + 13);
  CHECK(entry.find(evidence) != std::string::npos);
}

TEST_CASE("the largest entry still fits into a datagram") {
  model::Verdict v = verdict();
  v.ranks = model::RankSet::range(0, 100'000);
  v.sentence = std::string(100'000, 'x');
  v.evidence = {std::string(100'000, 'x')};
  CHECK(journal_entry(v, std::string(100'000, 'x')).size() < 64 << 10);
}

TEST_CASE("the journal is used only if standard error goes there") {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  struct stat about {};
  REQUIRE(::fstat(ends[1], &about) == 0);
  const std::string right = fmt::format("{}:{}", about.st_dev, about.st_ino);
  CHECK(logs_to_journal(right.c_str(), ends[1]));
  CHECK_FALSE(logs_to_journal(fmt::format("{}:{}", about.st_dev, about.st_ino + 1).c_str(), ends[1]));
  CHECK_FALSE(logs_to_journal(nullptr, ends[1]));
  CHECK_FALSE(logs_to_journal("", ends[1]));
  CHECK_FALSE(logs_to_journal("journal", ends[1]));
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST_CASE("the entry arrives as one datagram; without a journal there is no effect") {
  const auto dir = base::TemporaryDirectory::create("xpurun-test-");
  REQUIRE(dir);
  const std::string path = dir->path() + "/socket";
  send_to_journal("x", path.c_str());
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strcpy(address.sun_path, path.c_str());
  const base::UniqueFd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  REQUIRE(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0);
  const std::string entry = journal_entry(verdict(), "/runs/a");
  send_to_journal(entry, path.c_str());
  std::string got(64 << 10, '\0');
  const ssize_t n = ::recv(socket.get(), got.data(), got.size(), MSG_DONTWAIT);
  REQUIRE(n > 0);
  CHECK(got.substr(0, static_cast<size_t>(n)) == entry);
}

TEST_CASE("the termination log is Kubernetes' own, or the requested file") {
  CHECK(TerminationLog{.automatic = true}.path(true) == "/dev/termination-log");
  CHECK(TerminationLog{.automatic = true}.path(false).empty());
  CHECK(TerminationLog{}.path(true).empty());
  CHECK(TerminationLog{.file = "/tmp/x"}.path(false) == "/tmp/x");
}

TEST_CASE("the termination message stays within Kubernetes' limit and loses evidence first") {
  CHECK(termination_message(verdict()) ==
        "crash: rank 2 died of SIGABRT?[31m\nfirst\nsecond\nnext: look at the stack: xpurun stacks\n");
  model::Verdict v = verdict();
  v.evidence.assign(100, std::string(90, 'e'));
  const std::string text = termination_message(v);
  CHECK(text.size() <= kTerminationBytes);
  CHECK(text.size() > kTerminationBytes - 200);
  CHECK(text.ends_with("next: look at the stack: xpurun stacks\n"));
  v.sentence = std::string(10'000, 's');
  v.next.text = std::string(10'000, 'n');
  CHECK(termination_message(v).size() <= kTerminationBytes);
}

TEST_CASE("a later message replaces an earlier one; anything but a file is left alone") {
  const auto dir = base::TemporaryDirectory::create("xpurun-test-");
  REQUIRE(dir);
  const std::string file = dir->path() + "/log";
  write_termination_message(file, "a long first message\n");
  write_termination_message(file, "second\n");
  CHECK(*base::read_file(file) == "second\n");
  const std::string fifo = dir->path() + "/fifo";
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  write_termination_message(fifo, "x");
  const std::string link = dir->path() + "/link";
  REQUIRE(::symlink(file.c_str(), link.c_str()) == 0);
  write_termination_message(link, "through a link");
  CHECK(*base::read_file(file) == "second\n");
}
