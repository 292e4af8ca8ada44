#include "composer/loop/state.h"

#include "base/params/utf8.h"
#include "base/text.h"
#include "base/url_secrets.h"

namespace composer {

std::string State::sample_text(int64_t place) const {
  if (loader == nullptr || !indices.defined() || place >= indices.size(0)) return "";
  const auto index = indices.const_data_ptr<int64_t>()[place];
  const auto name = shown_utf8(without_secrets(loader->sample_name(index)));
  return name.empty() ? "" : composer::sample_text(name, index);
}

}  // namespace composer
