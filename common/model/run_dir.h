// RunDir: creates a run directory and its "latest" link, and names everything inside. docs/rundir.md is the
// specification.
#pragma once

#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/model/vocabulary.h"

#include <string>
#include <string_view>
#include <vector>

namespace xpurun::model {

class RunDir {
 public:
  // Refers to an existing directory, unchecked.
  explicit RunDir(std::string path) : path_(std::move(path)) {}

  // Creates `<parent>/<UTC>-<name>-<hex>` (0700) and points `<parent>/latest` at it.
  static base::Result<RunDir> create(const std::string& parent, std::string_view name);
  // Creates exactly `path`; an existing directory must be empty.
  static base::Result<RunDir> create_at(const std::string& path);
  // Accepts a run directory, the name of one below ./xpurun-runs ("latest" is one), or a directory that
  // contains a "latest" link.
  static base::Result<RunDir> find(const std::string& path);

  const std::string& path() const { return path_; }
  std::string id() const;  // last path component
  // The path of `name` inside the run directory; the file need not exist.
  std::string file(std::string_view name) const;
  std::string run_json() const { return file("run.json"); }
  std::string verdict_json() const { return file("verdict.json"); }
  std::string source_json() const { return file("source.json"); }
  std::string report_html() const { return file("report.html"); }
  std::string report_json() const { return file("report.json"); }
  std::string log() const { return file("xpurun.log"); }
  std::string stacks_dir() const { return file("stacks"); }
  // "dumps/1-hang", relative to the run directory.
  static std::string dump_name(int n, DumpReason why);
  // Directories below dumps/, ordered by number.
  std::vector<std::string> dumps() const;

 private:
  std::string path_;
};

// "rank-2" for ranks, "<host>-<pid>" for other processes: unique when dumps of several hosts are combined.
std::string process_key(base::Rank rank, ProcessRole role, std::string_view host, base::Pid pid);

}  // namespace xpurun::model
