#include "composer/state.h"

#include "composer/logging/url_secrets.h"
#include "composer/recipe/utf8.h"

namespace composer {

std::string State::sample_text(int64_t place) const {
  if (loader == nullptr || !indices.defined() || place >= indices.size(0)) return "";
  const auto index = indices.const_data_ptr<int64_t>()[place];
  const auto name = shown_utf8(without_secrets(loader->sample_name(index)));
  const auto number = "sample " + std::to_string(index);
  return name.empty() || name.ends_with(number) ? name : name + ", " + number;
}

}  // namespace composer
