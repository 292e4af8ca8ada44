#include "algorithms/parts/surgery.h"

#include "base/error.h"
#include "base/log.h"
#include "composer/logging/logger.h"
#include "composer/loop/state.h"

namespace composer {

void Surgery::log_count(const State& state, const std::string& metric, const std::string& before,
                        const std::string& after) const {
  log::info(before + " " + std::to_string(replacements_.size()) + " " + after);
  state.logger->log(metric, static_cast<double>(replacements_.size()));
}

std::vector<Replacement> replace_some(
    Block& root,
    const std::function<std::shared_ptr<Layer>(const std::string& path, Layer& layer)>& replace,
    const std::string& nothing) {
  auto replacements = replace_layers(root, replace);
  if (replacements.empty()) throw UserError(nothing);
  return replacements;
}

}  // namespace composer
