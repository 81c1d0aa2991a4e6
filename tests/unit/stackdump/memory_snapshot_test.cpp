#include "stackdump/memory/live_memory.h"
#include "stackdump/memory/snapshot_memory.h"

#include <doctest/doctest.h>

#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

using namespace xpurun::stackdump;

namespace {

// Three pages, the middle one unreadable; `last` is filled with 'c', the first with 'a'.
struct Pages {
  char* base = static_cast<char*>(
      ::mmap(nullptr, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  Pages() {
    std::memset(base, 'a', 4096);
    std::memset(base + 8192, 'c', 4096);
    ::munmap(base + 4096, 4096);
  }
  ~Pages() {
    ::munmap(base, 4096);
    ::munmap(base + 8192, 4096);
  }
  Addr at(size_t offset) const { return reinterpret_cast<Addr>(base) + offset; }
};

}  // namespace

TEST_CASE("live memory reads mapped ranges and refuses others") {
  const Pages pages;
  LiveMemory live(::getpid());
  CHECK(live.bytes(pages.at(4090), 6) == "aaaaaa");
  CHECK_FALSE(live.bytes(pages.at(4090), 7));
  CHECK_FALSE(live.bytes(0, 1));
  CHECK_FALSE(live.bytes(~Addr{0} - 3, 8));
  char a[8] = "";
  char b[8] = "";
  const std::span<std::byte> buffers[] = {std::as_writable_bytes(std::span(a, 3)),
                                          std::as_writable_bytes(std::span(b, 5))};
  const AddrRange good[] = {{pages.at(0), pages.at(2)}, {pages.at(8192), pages.at(8198)}};
  CHECK(live.read_ranges(good, buffers) == 8);
  CHECK(std::string(a) == "aac");
  CHECK(std::string(b) == "ccccc");
  const AddrRange bad[] = {{pages.at(4094), pages.at(4098)}, {pages.at(8192), pages.at(8196)}};
  CHECK(live.read_ranges(bad, buffers) < 8);
}

TEST_CASE("more ranges than fit one system call, some of them unreadable") {
  const Pages pages;
  constexpr size_t kCount = 2500;
  std::vector<char> memory((2 * kCount + 2) * 4096);
  const Addr first = (reinterpret_cast<Addr>(memory.data()) + 4095) & ~Addr{4095};
  std::vector<AddrRange> ranges;
  for (size_t i = 0; i < kCount; ++i) {
    const Addr a = first + 2 * i * 4096;  // every other page, so that none are neighbours
    *reinterpret_cast<char*>(a) = static_cast<char>(i);
    ranges.push_back({a + 10, a + 12});
    *reinterpret_cast<char*>(a + 10) = static_cast<char>(i % 100);
  }
  ranges[1500] = {pages.at(4096), pages.at(4100)};
  ranges[1501] = {pages.at(8192), pages.at(8200)};
  LiveMemory live(::getpid());
  PageCopier copier(::getpid());
  SnapshotMemory snapshot(live);
  SUBCASE("by one thread") {}
  SUBCASE("by two threads") {
    snapshot.share_work(copier);
    for (int i = 0; i < 100; ++i) {  // the second thread comes sometimes early, sometimes late
      snapshot.clear();
      snapshot.prefetch(ranges);
    }
    snapshot.clear();
  }
  snapshot.reserve(100);  // less than needed
  snapshot.prefetch(ranges);
  snapshot.freeze();
  for (size_t i = 0; i < kCount; ++i) {
    const auto value = snapshot.value<char>(ranges[i].lo);
    CHECK(value.has_value() == (i != 1500));
    if (value) {
      CHECK(*value == (i == 1501 ? 'c' : static_cast<char>(i % 100)));
    }
  }
  CHECK(snapshot.ranges().size() == kCount - 1);
}

TEST_CASE("a frozen snapshot keeps its pages and fetches no more") {
  const Pages pages;
  LiveMemory live(::getpid());
  SnapshotMemory memory(live);
  memory.prefetch({{pages.at(0), pages.at(4096)}, {pages.at(4096), pages.at(4097)}});
  CHECK(memory.ranges() == std::vector<AddrRange>{{pages.at(0), pages.at(4096)}});
  memory.freeze();
  pages.base[0] = 'z';
  CHECK(memory.bytes(pages.at(0), 2) == "aa");
  CHECK_FALSE(memory.bytes(pages.at(8192), 1));
  CHECK_FALSE(memory.bytes(pages.at(4095), 2));
}

TEST_CASE("a live snapshot fetches each page once, across page borders") {
  char text[8192];
  std::memset(text, 'x', sizeof text);
  LiveMemory live(::getpid());
  SnapshotMemory memory(live);
  const Addr a = reinterpret_cast<Addr>(text);
  CHECK(memory.bytes(a, sizeof text) == std::string(sizeof text, 'x'));
  const size_t pages = memory.page_count();
  CHECK(pages <= 3);
  text[5000] = 'y';
  CHECK(memory.bytes(a + 5000, 1) == "x");
  CHECK(memory.page_count() == pages);
  memory.clear();
  CHECK(memory.bytes(a + 5000, 1) == "y");
  CHECK_FALSE(memory.bytes(~Addr{0}, 2));
}

TEST_CASE("strings must end with a NUL") {
  LiveMemory live(::getpid());
  const char text[] = "hello";
  CHECK(live.c_string(reinterpret_cast<Addr>(text)) == "hello");
  const std::string endless(5000, 'e');
  CHECK_FALSE(live.c_string(reinterpret_cast<Addr>(endless.data()), 100));
}

TEST_CASE("a snapshot has a limit of pages") {
  const std::string text(20 * 4096, 'p');
  LiveMemory live(::getpid());
  SnapshotMemory memory(live, 8);
  CHECK_FALSE(memory.bytes(reinterpret_cast<Addr>(text.data()), text.size()));
  CHECK(memory.page_count() == 8);
  memory.clear();
  CHECK(memory.bytes(reinterpret_cast<Addr>(text.data()), 4096) == text.substr(0, 4096));
}
