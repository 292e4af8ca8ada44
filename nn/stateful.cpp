#include "nn/stateful.h"

#include "nn/state_dict.h"

namespace composer {

StateDict Stateful::state_dict() const { return {}; }

void Stateful::load_state_dict(const StateDict&) {}

}  // namespace composer
