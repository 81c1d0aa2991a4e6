#include "common/model/frame_text.h"

#include <doctest/doctest.h>

using namespace xpurun::model;

TEST_CASE("a source file that is named after its purpose is shown with its package") {
  CHECK(source_name("/home/u/job/train.py") == "train.py");
  CHECK(source_name("/home/u/job/model/__init__.py") == "model/__init__.py");
  CHECK(source_name("model/__main__.py") == "model/__main__.py");
  CHECK(source_name("/__init__.py") == "__init__.py");
  CHECK(source_name("__init__.py") == "__init__.py");
  CHECK(source_name("<frozen __init__>") == "<frozen __init__>");
  CHECK(source_name("") == "");
}

TEST_CASE("frames and lines have the name of a source file") {
  Frame f{.kind = FrameKind::python, .func = "fill", .file = "/job/data/__init__.py", .line = 12};
  CHECK(frame_label(f) == "fill (data/__init__.py:12)");
  CHECK(line_label(f.func, f.file, f.line) == "data/__init__.py:12 fill");
  CHECK(short_location(f) == "data/__init__.py:12");
}
