#include "launcher/ending/helper_list.h"

#include <doctest/doctest.h>

using namespace xpurun;
using launcher::HelperList;

namespace {

struct BusyOwner {
  bool busy() const { return helper != 0; }
  bool helper_ended(base::Pid pid, base::WaitStatus status) {
    ended = pid == helper ? status : ended;
    return pid == helper;
  }
  base::Pid helper = 0;
  base::WaitStatus ended;
};

struct KnownOwner : BusyOwner {
  bool is_helper(base::Pid pid) const { return pid == helper; }
};

}  // namespace

TEST_CASE("helpers: a reaped child goes to the part that has started the child") {
  BusyOwner dumps;
  KnownOwner relay;
  relay.helper = 7;
  HelperList helpers;
  helpers.add_busy(dumps);
  helpers.add_known(relay);
  CHECK(helpers.may_be_helper(7));
  CHECK_FALSE(helpers.may_be_helper(8));
  CHECK_FALSE(helpers.helper_ended(8, base::WaitStatus::of_exit(0)));
  dumps.helper = 9;
  CHECK(helpers.may_be_helper(8));  // a busy part does not know the pids of all its helpers
  CHECK(helpers.helper_ended(9, base::WaitStatus::of_exit(3)));
  CHECK(dumps.ended.exit_code() == 3);
  CHECK_FALSE(helpers.helper_ended(8, base::WaitStatus::of_exit(0)));
  CHECK(helpers.helper_ended(7, base::WaitStatus::of_exit(4)));
  CHECK(relay.ended.exit_code() == 4);
  CHECK(dumps.ended.exit_code() == 3);
}
