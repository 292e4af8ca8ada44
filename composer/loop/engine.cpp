#include "composer/loop/engine.h"

#include <ATen/record_function.h>

#include "composer/loop/state.h"
#include "nn/device/exception_text.h"

namespace composer {

void Engine::arrange() {
  for (size_t index = 0; index < event_count; ++index) {
    const auto event = static_cast<Event>(index);
    auto& [algorithms, callbacks] = listeners_[index];
    algorithms.clear(), callbacks.clear();
    for (const auto& member : algorithms_)
      if (listens(member, event)) algorithms.push_back(&member);
    for (const auto& member : callbacks_)
      if (listens(member, event)) callbacks.push_back(&member);
    if (closing(event)) std::reverse(algorithms.begin(), algorithms.end());
    std::stable_sort(algorithms.begin(), algorithms.end(), [&](const auto* a, const auto* b) {
      return a->component->order(event) < b->component->order(event);
    });
  }
  arranged_ = true;
}

void Engine::run(Event event, State& state, bool watched) {
  if (!arranged_) arrange();
  const auto& listeners = listeners_[static_cast<size_t>(event)];
  if (listeners.algorithms.empty() && (listeners.callbacks.empty() || !watched)) return;

  RECORD_USER_SCOPE(name(event));
  const auto run_algorithms = [&] {
    for (const auto* member : listeners.algorithms) try {
        RECORD_USER_SCOPE(member->name);
        member->component->run(event, state);
      } catch (...) {
        rethrow_of("algorithms." + member->name, name(event));
      }
  };
  const auto run_callbacks = [&] {
    if (!watched) return;
    for (const auto* member : listeners.callbacks) try {
        RECORD_USER_SCOPE(member->name);
        member->component->run(event, state, *state.logger, control_);
      } catch (...) {
        rethrow_of("callbacks." + member->name, name(event));
      }
  };
  if (event == Event::init) {
    run_callbacks();
    run_algorithms();
  } else {
    run_algorithms();
    run_callbacks();
  }
}

bool Engine::acts_before_last(Event event) const {
  return std::ranges::any_of(algorithms_, [event](const auto& member) {
    return listens(member, event) && member.component->order(event) != Algorithm::Order::last;
  });
}

std::vector<std::string> Engine::order(Event event) {
  if (!arranged_) arrange();
  const auto& [algorithms, callbacks] = listeners_[static_cast<size_t>(event)];
  std::vector<std::string> names;
  for (const auto* member : algorithms) names.push_back(member->name);
  for (const auto* member : callbacks) names.push_back(member->name);
  if (event == Event::init)
    std::rotate(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(algorithms.size()),
                names.end());
  return names;
}

}  // namespace composer
