#include "nn/network/library_names.h"

namespace composer {

std::string LibraryNames::name_of(const std::string& ours) const {
  for (size_t end = ours.size(); end != std::string::npos && end > 0;
       end = ours.rfind('.', end - 1))
    if (const auto found = paths.find(ours.substr(0, end)); found != paths.end())
      return found->second + ours.substr(end);
  return ours;
}

}  // namespace composer
