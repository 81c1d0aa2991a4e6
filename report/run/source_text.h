// SourceText: lines of source files for the report. Lines that the run directory holds (source.json) are
// those of the run and stay; reading adds what is missing from the files of this host.
#pragma once

#include "common/model/evidence/source_record.h"
#include "common/model/run_manifest.h"
#include "report/tree/stack_classes.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace xpurun::report {

// A piece of a file with the line where a culprit was.
struct SourceExcerpt {
  std::string function;
  std::string file;
  int line = 0;
  bool changed = false;  // the file, after the run began
  std::vector<model::SourceLine> lines;
};

class SourceText {
 public:
  // A line that is there already stays.
  void add(const model::SourceRecord& record);
  // Files that are unreadable, not regular or very large are skipped. Relative names are below `run.cwd`.
  void read(const std::string& file, int line, int around, const model::RunManifest& run);
  // Null if unknown. Valid until the next add() or read().
  const std::string* find(const std::string& file, int line) const;
  // Lines around `line` without a gap; empty if the line itself is unknown.
  SourceExcerpt excerpt(const std::string& file, int line, int around) const;

  bool empty() const { return files_.empty(); }
  model::SourceRecord record() const;

 private:
  struct File {
    bool changed = false;
    std::map<int, std::string> lines;
  };
  struct Loaded {
    bool changed = false;
    std::vector<std::string> lines;
  };
  const Loaded& load(const std::string& file, const model::RunManifest& run);

  std::map<std::string, File> files_;
  std::map<std::string, Loaded> loaded_;
};

// The lines of the culprit's code that the report shows.
struct CulpritPlace {
  std::string function;
  std::string file;
  int line = 0;
  int around = 0;  // lines before and behind
};
std::vector<CulpritPlace> culprit_places(const model::Verdict& verdict, const model::RunManifest& run,
                                         const std::vector<StackClass>& classes);

// Reads what the report needs: the lines of all Python frames, and more around the culprit's.
void read_source(SourceText& text, const std::vector<CulpritPlace>& places,
                 const std::vector<StackClass>& classes, const model::RunManifest& run);
// Puts known lines beside the frames of the classes.
void add_source_lines(const SourceText& text, std::vector<StackClass>& classes);
std::vector<SourceExcerpt> excerpts(const SourceText& text, const std::vector<CulpritPlace>& places);

}  // namespace xpurun::report
