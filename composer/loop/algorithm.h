// What a user derives from to change a run (Algorithm) or to watch it (Callback).
#pragma once

#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "composer/logging/run_end.h"
#include "composer/loop/event.h"
#include "composer/loop/loader.h"
#include "nn/stateful.h"

namespace composer {

struct State;
class Logger;
class RunControl;

/// One empty virtual function per event. Overriding a function is what subscribes to its event.
template <class... Args>
class Hooks : public Stateful {
 public:
#define X(name, kind) \
  virtual void name(Args...) {}
  COMPOSER_EVENTS(X)
#undef X

  /// Whether it wants `event`, whose function its class overrides: no, where its settings leave it
  /// nothing to do there. Asked before the run starts.
  virtual bool listens(Event) const { return true; }

  /// Calls the function of `event`.
  void run(Event event, Args... args) {
    static constexpr void (Hooks::*functions[])(Args...) = {
#define X(name, kind) &Hooks::name,
        COMPOSER_EVENTS(X)
#undef X
    };
    (this->*functions[static_cast<size_t>(event)])(args...);
  }
};

template <class T, class... Args>
EventSet overridden(const Hooks<Args...>*) {
  EventSet events;
#define X(name, kind)                                                         \
  static_assert(                                                              \
      requires(T & hooks, Args... args) { hooks.name(args...); },             \
      #name " is an event: a public function with the arguments of Hooks");   \
  if (!std::is_same_v<decltype(&T::name), void (Hooks<Args...>::*)(Args...)>) \
    events.set(static_cast<size_t>(Event::name));
  COMPOSER_EVENTS(X)
#undef X
  return events;
}

/// The events whose functions T overrides. They must be public.
template <class T>
EventSet subscriptions() {
  return overridden<T>(static_cast<const T*>(nullptr));
}

/// A method that changes training. It may write to every part of the State it is given, and undoes
/// on the closing event of a pair what it did on the opening one.
class Algorithm : public Hooks<State&> {
 public:
  /// When it wants to run among the algorithms of an event: `first` runs first, on closing events
  /// too. `listed`: in the recipe's order, on closing events in reverse.
  enum class Order { first, early, listed, last };
  virtual Order order(Event) const { return Order::listed; }

  /// The sizes of the images that the loader makes, from fit_start on; empty: this algorithm does
  /// not decide them. At most one algorithm of a run may.
  virtual SizePlan image_sizes(const State&) { return {}; }

  /// What the loader shall do to each training image, on its threads.
  virtual SampleTransform sample_transform(const State&) { return {}; }

  /// Whether the forward pass may leave out some trained parameters. Several ranks then look for
  /// these in every backward pass, which costs time; where a method leaves some out and does not
  /// say so here, their backward pass fails.
  virtual bool leaves_out_parameters() const { return false; }

  /// Why a step must not be recorded once and replayed from then on (CapturedSteps) while this
  /// takes part; empty: it may. It may where the functions from before_forward to after_train_batch
  /// and the forward passes of layers that this put into the model do the same work on the same
  /// tensors in every step: they are called when a step is recorded, not when it is replayed.
  /// Functions of other events are called always.
  virtual std::string prevents_graph_capture() const {
    return "does not say that its steps may be replayed (Algorithm::prevents_graph_capture)";
  }

  /// Why it cannot take part where each rank has the weights, gradients and optimizer state of its
  /// share of the parameters alone (ShardedParameters); empty: it can. It can where, from fit_start
  /// on, it reads and writes weights and gradients of the rank's own parameters only, runs the
  /// network as often as the other ranks do, and puts no layers into it any more.
  virtual std::string prevents_sharding() const {
    return "does not say that it works where weights are divided "
           "(Algorithm::prevents_sharding)";
  }

  /// Why a step that ran out of memory cannot be done once more while this takes part
  /// (grad_accum: auto); empty: it can. It cannot where it sends batches through the network
  /// itself, speaks to other ranks within a forward or backward pass (alone: there are none), or
  /// keeps something of a pass other than in the batch and in buffers of the model.
  virtual std::string against_repeated_steps(bool /*alone*/) const { return {}; }

  /// What it changed in the model at init, for `--plan`: one line a change.
  virtual std::vector<std::string> report() const { return {}; }

  /// The values this algorithm would use at `state.time`, for `--plan`: name and number.
  virtual std::vector<std::pair<std::string, double>> planned(const State&) const { return {}; }
};

/// Watches training: logs, and may ask for a stop or a checkpoint. Cannot change the run otherwise.
class Callback : public Hooks<const State&, Logger&, RunControl&> {
 public:
  /// The run is over, in whatever way: completed, by a signal, by an error of anyone. Called once,
  /// after summary.json is written. What it throws is reported and changes nothing.
  virtual void run_end(const State&, const RunEnd&) {}
};

/// What a callback may ask of the loop. Both take effect after the current batch.
class RunControl {
 public:
  void request_stop(std::string reason) { stop_reason_ = std::move(reason); }
  void request_checkpoint() { checkpoint_ = true; }

  const std::string& stop_reason() const { return stop_reason_; }
  bool take_checkpoint_request() { return std::exchange(checkpoint_, false); }

 private:
  std::string stop_reason_;
  bool checkpoint_ = false;
};

}  // namespace composer
