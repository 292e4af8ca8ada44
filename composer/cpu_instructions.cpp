#include "composer/cpu_instructions.h"

#include <ATen/cpu/Utils.h>

namespace composer {

bool has_instructions(const std::string& name) {
  static const auto capabilities = at::cpu::get_cpu_capabilities();
  const auto found = capabilities.find(name);
  return found != capabilities.end() && found->second.isBool() && found->second.toBool();
}

}  // namespace composer
