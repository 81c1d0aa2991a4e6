// SymbolCache: symbol names found in an image, stored on disk so that other ranks of the host and later dumps
// need not search the symbol tables again. One small file per build id, written under a temporary name and
// renamed: any number of processes may use it at once, the last writer wins, and a damaged file counts as
// absent. No function fails: without a usable directory every name is looked up.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace xpurun::stackdump {

// The symbol that covers [lo, hi) (virtual addresses in the file); no other symbol starts or ends inside.
struct SymbolRange {
  uint64_t lo = 0;
  uint64_t hi = 0;
  std::string name;    // as in the symbol table; empty: no symbol
  uint64_t begin = 0;  // of the symbol
  bool operator==(const SymbolRange&) const = default;
};

class SymbolCache {
 public:
  static constexpr uint64_t kMaxBytes = uint64_t{64} << 20;  // of all files together
  static constexpr size_t kMaxRanges = 32768;                // of one image
  static constexpr size_t kMaxName = 4096;                   // longer names are cut

  // Identifies an image and its available symbols, because the same image may be stripped elsewhere.
  struct Key {
    std::string build_id;
    uint64_t image_size = 0;
    uint64_t debug_size = 0;  // size of its separate debug file, 0 if none
    auto operator<=>(const Key&) const = default;
  };

  // An empty directory name means no cache.
  explicit SymbolCache(std::string directory, uint64_t max_bytes = kMaxBytes);
  // $XDG_CACHE_HOME/xpurun/sym or ~/.cache/xpurun/sym; empty if there is no home.
  static std::string default_directory();

  // Ordered by lo, without overlaps.
  std::vector<SymbolRange> load(const Key& key);
  // Keeps the ranges in memory until save().
  void add(const Key& key, const std::vector<SymbolRange>& ranges);
  // Writes the added names, merged with names that others have written, and deletes the oldest files
  // beyond the limit.
  void save();

 private:
  std::string path_of(const Key& key) const;
  std::vector<SymbolRange> read(const Key& key) const;
  bool usable();
  void evict() const;

  std::string directory_;
  uint64_t max_bytes_;
  int usable_ = -1;  // not yet known
  std::map<Key, std::vector<SymbolRange>> added_;
};

// File content. Public for tests and fuzzing. Damaged content gives an empty result.
std::string encode_symbols(const std::vector<SymbolRange>& ranges, const std::string& build_id);
std::vector<SymbolRange> decode_symbols(const std::string& content, const std::string& build_id);

}  // namespace xpurun::stackdump
