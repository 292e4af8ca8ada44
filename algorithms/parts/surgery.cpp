#include "algorithms/parts/surgery.h"

#include "base/log.h"
#include "composer/logging/logger.h"
#include "composer/loop/state.h"

namespace composer {

void Surgery::log_count(const State& state, const std::string& metric, const std::string& before,
                        const std::string& after) const {
  log::info(before + " " + std::to_string(replacements_.size()) + " " + after);
  state.logger->log(metric, static_cast<double>(replacements_.size()));
}

}  // namespace composer
