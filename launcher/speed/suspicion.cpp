#include "launcher/speed/suspicion.h"

#include <utility>

namespace xpurun::launcher {

namespace {
constexpr int kLooks = 2;
}

Suspicion::News Suspicion::look(base::Rank suspect) {
  const base::Rank before = std::exchange(suspect_, suspect);
  News news;
  if (found_ != base::kNoRank) {
    without_ = suspect == found_ ? 0 : without_ + 1;
    if (without_ < kLooks) {
      return news;
    }
    news.over = std::exchange(found_, base::kNoRank);
    without_ = 0;
  }
  if (suspect != base::kNoRank && suspect == before) {
    found_ = suspect;
    news.found = true;
  }
  return news;
}

void Suspicion::forget() {
  *this = Suspicion();
}

}  // namespace xpurun::launcher
