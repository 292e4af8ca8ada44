// Runs the algorithms and callbacks of each event, in their order.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "composer/loop/algorithm.h"

namespace composer {

/// A component under the name that recipes, logs and checkpoints know it by.
template <class T>
struct Member {
  std::string name;
  std::shared_ptr<T> component;
  EventSet events;
};

/// Whether the component's class overrides the event's function, and the component needs the event.
template <class T>
bool listens(const Member<T>& member, Event event) {
  return member.events[static_cast<size_t>(event)] && member.component->listens(event);
}

/// Algorithms run in the listed order, reversed on closing events, unless Algorithm::order() says
/// otherwise. Callbacks run after them in the listed order, but before them at init.
class Engine {
 public:
  Engine() = default;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  void add(Member<Algorithm> algorithm) {
    algorithms_.push_back(std::move(algorithm)), arranged_ = false;
  }
  void add(Member<Callback> callback) {
    callbacks_.push_back(std::move(callback)), arranged_ = false;
  }

  /// watched: callbacks run too. Exceptions name the algorithm or callback, and the event.
  void run(Event event, State& state, bool watched = true);

  /// Whether any algorithm listens to `event` with another order than Order::last.
  bool acts_before_last(Event event) const;

  /// The names of the listeners, in the order in which they run.
  std::vector<std::string> order(Event event);

  const std::vector<Member<Algorithm>>& algorithms() const { return algorithms_; }
  const std::vector<Member<Callback>>& callbacks() const { return callbacks_; }
  RunControl& control() { return control_; }

 private:
  struct Listeners {
    std::vector<const Member<Algorithm>*> algorithms;
    std::vector<const Member<Callback>*> callbacks;
  };

  void arrange();

  std::vector<Member<Algorithm>> algorithms_;
  std::vector<Member<Callback>> callbacks_;
  std::array<Listeners, event_count> listeners_;
  RunControl control_;
  bool arranged_ = false;
};

}  // namespace composer
