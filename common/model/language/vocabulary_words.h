// The closed vocabularies of a run directory as people read them; name_of() gives their names in files.
#pragma once

#include "common/base/tr.h"
#include "common/model/vocabulary.h"

#include <string>

namespace xpurun::model {

template <typename E>
std::string word_of(E value) {
  return name_of(value).empty() ? "" : base::tr(name_of(value));
}

}  // namespace xpurun::model
