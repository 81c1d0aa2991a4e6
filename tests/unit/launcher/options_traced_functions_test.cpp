#include "launcher/options/run_settings.h"
#include "launcher/options/values/traced_functions.h"

#include <doctest/doctest.h>

using namespace xpurun::launcher;

TEST_CASE("names of functions get one form, each once") {
  CHECK(*traced_functions("") == "");
  CHECK(*traced_functions(" train:step , a.b:C.D.run,,train:step") == "train:step,a.b:C.D.run");
  CHECK(
      *traced_functions("torch.utils.data.dataloader@_BaseDataLoaderIter@__next__,torch@cuda@synchronize") ==
      "torch.utils.data.dataloader:_BaseDataLoaderIter.__next__,torch:cuda.synchronize");
  CHECK(*traced_functions("modül:größe") == "modül:größe");
  CHECK(*traced_functions("torch@all,torch.distributed.all_gather,main") ==
        "torch:all,torch:distributed.all_gather,__main__:main");
}

TEST_CASE("what is no name is refused") {
  for (const char* bad : {"train:", ":step", "train:a:b", "train:1a", "tr ain:a", "a..b:c", "a:b@c", "a:b;c",
                          "a:b.", "@", ".", "a.", "good:f,b d"}) {
    CAPTURE(bad);
    CHECK_FALSE(traced_functions(bad));
  }
  std::string many;
  for (int i = 0; i < 201; ++i) {
    many += "m:f" + std::to_string(i) + ",";
  }
  CHECK_FALSE(traced_functions(many));
}

TEST_CASE("the option may be repeated, and short calls have a limit") {
  const auto options = [](const std::vector<std::string>& words) {
    const auto parsed = parse_words(*find_command("run"), words);
    REQUIRE(parsed);
    return to_run_options(parsed->settings);
  };
  const auto both = options({"--trace-python", "a:b,c:d", "--trace-python=e@f", "--trace-python-min=2ms"});
  REQUIRE(both);
  CHECK(both->trace_python == "a:b,c:d,e:f");
  CHECK(both->trace_python_min_s == 0.002);
  const auto without = options({});
  CHECK(without->trace_python.empty());
  CHECK(without->trace_python_min_s == doctest::Approx(20e-6));
  const auto bad = options({"--trace-python", "st ep"});
  REQUIRE_FALSE(bad);
  CHECK(bad.error().what == "--trace-python: 'st ep' is not module:function or module:Class.method");
}
