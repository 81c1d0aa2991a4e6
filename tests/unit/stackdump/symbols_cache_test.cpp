#include "stackdump/native/symbol_cache.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace xpurun::stackdump;
namespace fs = std::filesystem;

namespace {

struct Folder {
  std::string path;
  Folder() {
    char name[] = "/tmp/xpurun-sym-XXXXXX";
    path = ::mkdtemp(name);
  }
  ~Folder() { fs::remove_all(path); }
  std::string only_file() const { return fs::directory_iterator(path + "/sym")->path(); }
};

const SymbolCache::Key kKey{"abcdef0123", 100, 0};
const std::vector<SymbolRange> kRanges = {{16, 32, "f", 8}, {32, 64, ""}, {64, 65, "_Z1gv", 64}};

}  // namespace

TEST_CASE("symbols survive a round trip, and damaged files are refused") {
  const std::string whole = encode_symbols(kRanges, "ab");
  CHECK(decode_symbols(whole, "ab") == kRanges);
  CHECK(decode_symbols(whole, "ac").empty());
  CHECK(decode_symbols(whole, "abc").empty());
  for (size_t i = 0; i < whole.size(); ++i) {
    CHECK(decode_symbols(whole.substr(0, i), "ab").empty());
    std::string damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ 1);
    CHECK(decode_symbols(damaged, "ab").empty());
  }
}

TEST_CASE("the next dump loads the symbols that a dump saved, by image") {
  const Folder folder;
  SymbolCache first(folder.path + "/sym");
  CHECK(first.load(kKey).empty());
  first.add(kKey, kRanges);
  first.save();
  SymbolCache second(folder.path + "/sym");
  CHECK(second.load(kKey) == kRanges);
  CHECK(second.load({"abcdef0123", 101, 0}).empty());
  CHECK(second.load({"abcdef0123", 100, 7}).empty());
  // A second process adds an entry.
  second.add(kKey, {{70, 80, "h"}});
  second.save();
  CHECK(first.load(kKey).size() == 4);
  struct stat st {};
  REQUIRE(::stat(folder.only_file().c_str(), &st) == 0);
  CHECK((st.st_mode & 077) == 0);
}

TEST_CASE("a damaged file is ignored and rewritten") {
  const Folder folder;
  SymbolCache cache(folder.path + "/sym");
  cache.add(kKey, kRanges);
  cache.save();
  std::ofstream(folder.only_file(), std::ios::trunc) << "garbage";
  CHECK(cache.load(kKey).empty());
  cache.add(kKey, kRanges);
  cache.save();
  CHECK(cache.load(kKey) == kRanges);
}

TEST_CASE("without a directory there is no cache and no error") {
  for (const char* path : {"", "/proc/no/such", "/dev/null/sym"}) {
    SymbolCache cache(path);
    cache.add(kKey, kRanges);
    cache.save();
    CHECK(cache.load(kKey).empty());
  }
  // A directory that other users may write to is not used.
  const Folder folder;
  fs::create_directory(folder.path + "/sym");
  SymbolCache mine(folder.path + "/sym");
  mine.add(kKey, kRanges);
  mine.save();
  ::chmod((folder.path + "/sym").c_str(), 0777);
  CHECK(SymbolCache(folder.path + "/sym").load(kKey).empty());
}

TEST_CASE("the oldest files are removed when there are too many") {
  const Folder folder;
  for (int i = 0; i < 20; ++i) {
    SymbolCache cache(folder.path + "/sym", 1000);
    const SymbolCache::Key key{"id" + std::to_string(i), 1, 0};
    cache.add(key, {{1, 2, std::string(100, 'x')}});
    cache.save();
    if (i == 0) {
      const timespec old[2] = {{.tv_sec = 1}, {.tv_sec = 1}};
      ::utimensat(AT_FDCWD, folder.only_file().c_str(), old, 0);
    }
  }
  uint64_t total = 0;
  for (const auto& entry : fs::directory_iterator(folder.path + "/sym")) {
    total += entry.file_size();
  }
  CHECK(total <= 1000);
  CHECK(total > 0);
  CHECK(SymbolCache(folder.path + "/sym").load({"id0", 1, 0}).empty());
}

TEST_CASE("concurrent writers leave a complete file") {
  const Folder folder;
  std::vector<std::thread> writers;
  for (uint64_t w = 0; w < 8; ++w) {
    writers.emplace_back([&folder, w] {
      for (uint64_t i = 0; i < 20; ++i) {
        SymbolCache cache(folder.path + "/sym");
        cache.load(kKey);
        cache.add(kKey, {{1000 * w + 10 * i, 1000 * w + 10 * i + 5, "w" + std::to_string(w)}});
        cache.save();
      }
    });
  }
  for (auto& w : writers) {
    w.join();
  }
  const auto left = SymbolCache(folder.path + "/sym").load(kKey);
  CHECK(left.size() >= 20);
  CHECK(left.size() <= 160);
}
