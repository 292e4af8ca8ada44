#include "composer/recipe/registry.h"

namespace composer {

std::vector<std::string> CatalogBase::names() const {
  std::vector<std::string> names;
  for (const auto& [name, doc] : docs_) names.push_back(name);
  return names;
}

const std::string& CatalogBase::doc(std::string_view name) const {
  const auto found = docs_.find(name);
  if (found == docs_.end())
    throw std::logic_error("no " + kind_ + " is named '" + std::string(name) + "'");
  return found->second;
}

void CatalogBase::note(const std::string& name, std::string doc) {
  if (!docs_.emplace(name, std::move(doc)).second)
    throw std::logic_error("the " + kind_ + " '" + name + "' is registered twice");
}

std::vector<const CatalogBase*> Registry::catalogs() const {
  return {
#define X(kind, Base, word) &kind,
      COMPOSER_KINDS(X)
#undef X
  };
}

Registry& registry() {
  static Registry instance;
  return instance;
}

}  // namespace composer
