#include "common/model/rank_set.h"

#include <doctest/doctest.h>

#include <climits>
#include <set>

using xpurun::model::RankSet;

TEST_CASE("a list with many gaps is cut in sentences, and quick to make") {
  RankSet even;
  for (int r = 0; r < 16; r += 2) {
    even.insert(r);
  }
  CHECK(even.brief() == even.text());
  even.insert(17);
  CHECK(even.brief() == "0,2,4,6,8,10,... (9 ranks)");
  CHECK(RankSet::range(0, 8191).brief() == "0-8191");
  // Quadratic work would take minutes.
  std::vector<xpurun::base::Rank> down;
  for (int r = 1'000'000; r > 0; r -= 2) {
    down.push_back(r);
  }
  const RankSet many = RankSet::of(down);
  CHECK(many.size() == down.size());
  CHECK(RankSet::parse(many.text()) == many);
  CHECK(RankSet::of({3, 1, 1, 2}) == RankSet::range(1, 3));
}

TEST_CASE("rank sets print and parse ranges") {
  CHECK(RankSet{0, 1, 3}.text() == "0-1,3");
  CHECK(RankSet{3, 1, 0, 2}.text() == "0-3");
  CHECK(RankSet::parse("0-7,9")->size() == 9);
  CHECK(RankSet::parse("")->empty());
  for (const char* bad : {"a", "1-", "-1", "3-1", "1,,2", "1 2"}) {
    CAPTURE(bad);
    CHECK_FALSE(RankSet::parse(bad));
  }
}

TEST_CASE("rank sets obey the laws of sets") {
  // Against std::set over pseudo-random members.
  unsigned seed = 12345;
  for (int round = 0; round < 200; ++round) {
    std::set<int> a_ref, b_ref;
    RankSet a, b;
    for (int i = 0; i < 20; ++i) {
      seed = seed * 1103515245 + 12345;
      const int x = static_cast<int>(seed >> 16) % 30, y = static_cast<int>(seed >> 20) % 30;
      a_ref.insert(x);
      a.insert(x);
      b_ref.insert(y);
      b.insert(y);
    }
    std::set<int> minus = a_ref, both = a_ref;
    for (int y : b_ref) {
      minus.erase(y);
      both.insert(y);
    }
    RankSet joined = a;
    joined.insert(b);
    CHECK(joined.ranks() == std::vector<int>(both.begin(), both.end()));
    CHECK(a.minus(b).ranks() == std::vector<int>(minus.begin(), minus.end()));
    CHECK(joined.contains(b));
    CHECK(RankSet::parse(a.text()) == a);
    for (int r = 0; r < 30; ++r) {
      CHECK(a.contains(r) == (a_ref.count(r) == 1));
    }
  }
}

TEST_CASE("rank sets hold the first and the last of all numbers") {
  RankSet s{INT_MAX};
  s.insert(5);
  s.insert(INT_MAX);
  s.insert(INT_MIN);
  CHECK(s.ranks() == std::vector<int>{INT_MIN, 5, INT_MAX});
  CHECK(s.minus(RankSet{INT_MAX}).ranks() == std::vector<int>{INT_MIN, 5});
  CHECK(RankSet::range(0, INT_MAX).minus(RankSet::range(1, INT_MAX)) == RankSet{0});
  CHECK(RankSet::range(INT_MIN, INT_MAX).size() == size_t{1} << 32);
}
