#include "launcher/nodes/agent/protocol/archive.h"

#include "common/base/os/io.h"
#include "common/base/strings.h"
#include "common/model/collectives.h"
#include "common/model/json/json_text.h"
#include "common/model/json_fields.h"
#include "launcher/nodes/agent/protocol/packed.h"
#include "launcher/nodes/node_limits.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <sys/stat.h>

namespace xpurun::nodes {

namespace fs = std::filesystem;
using nlohmann::json;
using namespace launcher;

namespace {

constexpr int kDeepestPath = 16;
// Snapshots and logs of a node with --collect all; the rest of a dump is far smaller.
constexpr size_t kMostRawBytes = kMostUnpackedBytes / 2;

bool wanted(const std::string& name, const fs::path& relative, bool all) {
  static constexpr std::string_view kNames[] = {"dump.json",     "collectives.json", "timing.json",
                                                "evidence.json", "gpu.json",         "kernel.json"};
  return all || std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames) ||
         name.ends_with(".stacks.json") || *relative.begin() == "flight_recorder";
}

class Packer {
 public:
  explicit Packer(std::string root) : root_(std::move(root)) {}

  void add(const std::string& path) {
    struct stat info {};
    const std::string whole = root_ + "/" + path;
    // A link could lead to any file of the user.
    if (::lstat(whole.c_str(), &info) != 0 || !S_ISREG(info.st_mode) || files_.size() >= kMostArchiveFiles ||
        !safe_path(path) || total_ + static_cast<size_t>(info.st_size) > kMostRawBytes) {
      ++left_out_;
      return;
    }
    auto bytes = base::read_regular_file(whole, kMostRawBytes - total_);
    if (!bytes) {
      ++left_out_;
      return;
    }
    total_ += bytes->size();
    files_.push_back({.path = path, .bytes = std::move(*bytes)});
  }

  void add_below(const std::string& directory, bool all) {
    std::error_code error;
    std::vector<std::string> paths;
    for (fs::recursive_directory_iterator it(root_ + "/" + directory, error), end; !error && it != end;
         it.increment(error)) {
      const fs::path relative = it->path().lexically_relative(root_ + "/" + directory);
      std::error_code ignored;
      if (!it->is_directory(ignored) && wanted(it->path().filename().string(), relative, all)) {
        paths.push_back(directory + "/" + relative.string());
      }
    }
    std::sort(paths.begin(), paths.end());
    for (const std::string& path : paths) {
      add(path);
    }
  }

  std::vector<ArchiveFile> take() { return std::move(files_); }
  size_t left_out() const { return left_out_; }

 private:
  std::string root_;
  std::vector<ArchiveFile> files_;
  size_t total_ = 0;
  size_t left_out_ = 0;
};

}  // namespace

bool safe_path(std::string_view path) {
  if (path.empty() || path.size() > kLongestPath || path.find('\0') != std::string_view::npos) {
    return false;
  }
  const auto parts = base::split(path, '/');
  return parts.size() <= kDeepestPath && std::all_of(parts.begin(), parts.end(), [](std::string_view part) {
           return !part.empty() && part != "." && part != ".." && part.size() <= 255 &&
                  std::none_of(part.begin(), part.end(),
                               [](unsigned char c) { return c < 0x20 || c == 0x7f; });
         });
}

std::string pack_files(const std::vector<ArchiveFile>& files) {
  std::string text;
  for (const ArchiveFile& file : files) {
    nlohmann::ordered_json header;
    header["path"] = file.path;
    header["size"] = file.bytes.size();
    text += model::json_text(header) + "\n" + file.bytes;
  }
  return pack(text);
}

base::Result<std::vector<ArchiveFile>> unpack_files(std::string_view archive, size_t most) {
  XPURUN_TRY_ASSIGN(const std::string text, unpack(archive, most));
  std::vector<ArchiveFile> out;
  std::string_view rest = text;
  while (!rest.empty()) {
    const size_t end = rest.substr(0, 2 * kLongestPath).find('\n');
    if (end == std::string_view::npos) {
      return base::fail("the archive has a header without an end");
    }
    const json header = model::parse_json(rest.substr(0, end));
    rest.remove_prefix(end + 1);
    const json* path = header.is_object() ? model::member(header, "path") : nullptr;
    const json* size = header.is_object() ? model::member(header, "size") : nullptr;
    if (path == nullptr || !path->is_string() || size == nullptr || !size->is_number_unsigned() ||
        size->get<uint64_t>() > rest.size()) {
      return base::fail("the archive has a malformed header");
    }
    const auto& name = path->get_ref<const std::string&>();
    if (!safe_path(name)) {
      return base::fail("the archive has a path that is not allowed");
    }
    if (out.size() >= kMostArchiveFiles) {
      return base::fail("the archive has too many files");
    }
    const size_t length = size->get<uint64_t>();
    out.push_back({.path = name, .bytes = std::string(rest.substr(0, length))});
    rest.remove_prefix(length);
  }
  return out;
}

std::vector<ArchiveFile> files_of_dump(const ArchiveContent& content, size_t& left_out) {
  Packer packer(content.run_directory);
  packer.add("run.json");
  // The calls at the end of the job, if it has ended, and those of a mismatch.
  for (const std::string_view calls : {model::kCollectivesFile, model::kMismatchFile}) {
    if (base::file_exists(fmt::format("{}/{}", content.run_directory, calls))) {
      packer.add(std::string(calls));
    }
  }
  if (safe_path(content.dump)) {
    packer.add_below(content.dump, content.all);
  }
  if (content.all && base::file_exists(content.run_directory + "/ranks")) {
    packer.add_below("ranks", true);
  }
  left_out = packer.left_out();
  return packer.take();
}

std::string pack_dump(const ArchiveContent& content, size_t& left_out) {
  return pack_files(files_of_dump(content, left_out));
}

base::Status unpack_into(const std::string& directory, std::string_view archive) {
  XPURUN_TRY_ASSIGN(const auto files, unpack_files(archive));
  return write_files(directory, files);
}

base::Status write_files(const std::string& directory, const std::vector<ArchiveFile>& files) {
  XPURUN_TRY(base::make_dirs(directory));
  for (const ArchiveFile& file : files) {
    std::string parent = directory;
    const auto parts = base::split(file.path, '/');
    for (size_t i = 0; i + 1 < parts.size(); ++i) {
      parent += "/" + std::string(parts[i]);
      XPURUN_TRY(base::make_own_dir(parent));
    }
    XPURUN_TRY(base::write_file_atomic(directory + "/" + file.path, file.bytes));
  }
  return {};
}

}  // namespace xpurun::nodes
