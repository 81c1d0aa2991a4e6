// Test program: `report_tool report DIR` and `report_tool stacks DIR OUT` call the report library as the
// product does and print the notes. Tests of the content of the files are written in Python.
#include "report/build/build.h"

#include <cstdio>
#include <string_view>

using namespace xpurun;

int main(int argc, char** argv) {
  const std::string_view what = argc > 1 ? argv[1] : "";
  if (!(what == "report" && argc == 3) && !(what == "stacks" && argc == 4)) {
    std::fprintf(stderr, "usage: report_tool report DIR | report_tool stacks DIR OUT\n");
    return 2;
  }
  const auto built = what == "report" ? report::build_report(model::RunDir(argv[2]), {})
                                      : report::build_stacks(argv[2], argv[3], {});
  if (!built) {
    std::fprintf(stderr, "%s", base::to_text(built.error()).c_str());
    return 1;
  }
  for (const std::string& note : built->notes) {
    std::printf("note: %s\n", note.c_str());
  }
  return 0;
}
