#include "launcher/nodes/agent/protocol/job_archive.h"

#include "common/base/os/io.h"
#include "launcher/nodes/agent/protocol/wire.h"
#include "launcher/nodes/node_limits.h"

#include <algorithm>
#include <set>
#include <utility>
#include <variant>

namespace xpurun::nodes {

using namespace launcher;

namespace {

// The first file of the archive: the GatheredMessage of the node that has judged.
constexpr std::string_view kListFile = "gathered";
constexpr std::string_view kNodes = "nodes";

bool sane(const GatheredNode& n) {
  const bool named = n.node.empty() || valid_node_name(n.node);
  return named && n.host.size() <= kLongestName && n.node_rank >= 0 && n.node_rank < kMostNodes &&
         n.reason.size() <= kLongestText && (n.dump.empty() || safe_path(n.dump)) &&
         n.ranks.size() <= kMostRanksOfNode && std::all_of(n.ranks.begin(), n.ranks.end(), [](base::Rank r) {
           return r >= 0 && r < kMostRanksOfJob;
         });
}

base::Result<GatheredMessage> read_list(const std::vector<ArchiveFile>& files) {
  if (files.empty() || files.front().path != kListFile) {
    return base::fail("the files of the job have no list of the nodes");
  }
  XPURUN_TRY_ASSIGN(FromHelper message, from_helper_from_line(files.front().bytes));
  auto* list = std::get_if<GatheredMessage>(&message);
  if (list == nullptr || list->nodes.size() > static_cast<size_t>(kMostNodes) ||
      !std::all_of(list->nodes.begin(), list->nodes.end(), [](const GatheredNode& n) { return sane(n); })) {
    return base::fail("the list of the nodes is malformed or beyond a limit");
  }
  return std::move(*list);
}

// Clocks and directories as this node sees them. `with_files`: names of nodes.
base::Status turn_to(const JobReader& reader, const std::set<std::string>& with_files,
                     GatheredMessage& list) {
  const auto find = [&list](const std::string& name) {
    return std::find_if(list.nodes.begin(), list.nodes.end(),
                        [&name](const GatheredNode& n) { return n.node == name; });
  };
  const auto own = find(reader.self);
  if (own == list.nodes.end() || find(reader.judge) == list.nodes.end()) {
    return base::fail("this node, or the one that has judged, is not in the list of the nodes");
  }
  const int64_t offset = own->offset_ns;
  const int64_t uncertainty = own->uncertainty_ns;
  for (GatheredNode& n : list.nodes) {
    const bool measured = n.uncertainty_ns >= 0 && uncertainty >= 0;
    if (n.node == reader.self) {
      n.offset_ns = 0;
      n.uncertainty_ns = 0;
    } else if (!measured || __builtin_sub_overflow(n.offset_ns, offset, &n.offset_ns) ||
               __builtin_add_overflow(n.uncertainty_ns, uncertainty, &n.uncertainty_ns)) {
      n.offset_ns = 0;
      n.uncertainty_ns = -1;
    }
    const bool here = n.node != reader.self && with_files.count(n.node) != 0;
    n.directory = here ? std::string(kNodes) + "/" + n.node : std::string();
  }
  return {};
}

}  // namespace

std::string pack_job(const JobContent& content) {
  std::vector<ArchiveFile> files = {{std::string(kListFile), to_line(FromHelper(content.gathered))}};
  size_t total = 0;
  for (const GatheredNode& n : content.gathered.nodes) {
    const bool own = n.node == content.node;
    if (!own && n.directory.empty()) {
      continue;
    }
    size_t left_out = 0;
    const std::string directory = own ? content.run_directory : content.run_directory + "/" + n.directory;
    for (ArchiveFile& file : files_of_dump({.run_directory = directory, .dump = n.dump}, left_out)) {
      total += file.bytes.size();
      if (total > kMostUnpackedJobFiles || files.size() >= kMostArchiveFiles) {
        return "";
      }
      files.push_back({n.node + "/" + file.path, std::move(file.bytes)});
    }
  }
  return pack_files(files);
}

base::Result<JobFiles> read_job(const JobReader& reader, std::string_view archive) {
  // Room for the list and for the headers of the files.
  constexpr size_t kMost = kMostUnpackedJobFiles + kLongestLine;
  XPURUN_TRY_ASSIGN(auto files, unpack_files(archive, kMost));
  JobFiles out;
  XPURUN_TRY_ASSIGN(out.gathered, read_list(files));
  std::set<std::string> names;
  for (const GatheredNode& n : out.gathered.nodes) {
    if (!n.node.empty() && !names.insert(n.node).second) {
      return base::fail("the list of the nodes has a name twice");
    }
  }
  std::set<std::string> with_files;
  for (auto file = files.begin() + 1; file != files.end(); ++file) {
    const size_t slash = file->path.find('/');
    const std::string node = file->path.substr(0, slash);
    if (slash == std::string::npos || names.count(node) == 0) {
      return base::fail("the files of the job have one of no node");
    }
    // This node has its own files.
    if (node != reader.self) {
      with_files.insert(node);
      out.files.push_back(std::move(*file));
    }
  }
  XPURUN_TRY(turn_to(reader, with_files, out.gathered));
  return out;
}

base::Result<GatheredMessage> unpack_job(const std::string& run_directory, const JobReader& reader,
                                         std::string_view archive) {
  XPURUN_TRY_ASSIGN(JobFiles job, read_job(reader, archive));
  const std::string directory = run_directory + "/" + std::string(kNodes);
  XPURUN_TRY(base::make_own_dir(directory));
  XPURUN_TRY(write_files(directory, job.files));
  return std::move(job.gathered);
}

}  // namespace xpurun::nodes
