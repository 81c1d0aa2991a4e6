// The text of the documents of which the model has structs. A room that only writes such a document need not
// compile JSON.
#pragma once

#include <string>

namespace xpurun::model {

// As json_text(to_json(document), indent). Of RunManifest, DumpManifest and the others that
// document_text.cpp lists.
template <typename T>
std::string document_text(const T& document, int indent = -1);

}  // namespace xpurun::model
