// The base classes for code that changes a run (Algorithm) or watches it (Callback).
#pragma once

#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "composer/logging/records.h"
#include "composer/loop/event.h"
#include "composer/loop/loader.h"
#include "nn/stateful.h"

namespace composer {

struct State;
class Logger;
class RunControl;

/// One empty virtual function per event. A class subscribes to an event by overriding its function.
template <class... Args>
class Hooks : public Stateful {
 public:
#define X(name, kind) \
  virtual void name(Args...) {}
  COMPOSER_EVENTS(X)
#undef X

  /// Whether this object needs `event`, whose function its class overrides. False if its settings
  /// leave it nothing to do there. Called before the run starts.
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

/// A method that changes training. It may write to every part of the State. On the closing event of
/// a pair it undoes its changes of the opening event.
class Algorithm : public Hooks<State&> {
 public:
  /// The position among the algorithms of an event: `first` runs first, on closing events too.
  /// `listed`: in the recipe's order, on closing events in reverse.
  enum class Order { first, early, listed, last };
  virtual Order order(Event) const { return Order::listed; }

  /// The sizes of the images that the loader makes, from fit_start on; empty: this algorithm does
  /// not decide them. At most one algorithm of a run may.
  virtual SizePlan image_sizes(const State&) { return {}; }

  /// A function that the loader applies to each training image, on its threads.
  virtual SampleTransform sample_transform(const State&) { return {}; }

  /// Whether the forward pass may leave out some trained parameters. Several ranks then look for
  /// these parameters in every backward pass, which costs time. If a method leaves some out and
  /// returns false here, the backward pass of several ranks fails.
  virtual bool leaves_out_parameters() const { return false; }

  /// Why steps with this algorithm must not be captured as CUDA graphs (CapturedSteps); empty: they
  /// may. They may if the functions from before_forward to after_train_batch, and the forward
  /// passes of layers that this algorithm put into the model, do the same work on the same tensors
  /// in every step: these run when a step is captured, not when it is replayed. Functions of other
  /// events always run.
  virtual std::string prevents_graph_capture() const {
    return "does not say that its steps may be replayed (Algorithm::prevents_graph_capture)";
  }

  /// Why the algorithm does not work with sharded parameters (ShardedParameters), where each rank
  /// has weights, gradients and optimizer state of its share only; empty: it works. It works if,
  /// from fit_start on, it reads and writes weights and gradients of the rank's own parameters
  /// only, runs the network as often as the other ranks do, and adds no layers.
  virtual std::string prevents_sharding() const {
    return "does not say that it works where weights are divided "
           "(Algorithm::prevents_sharding)";
  }

  /// Why a step with this algorithm cannot be repeated after it ran out of memory (grad_accum:
  /// auto); empty: it can. It cannot if the algorithm runs the network itself, communicates with
  /// other ranks within a forward or backward pass (`alone`: there are no others), or keeps state
  /// of a pass outside the batch and the model's buffers.
  virtual std::string against_repeated_steps(bool /*alone*/) const { return {}; }

  /// The changes made to the model at init, for `--plan`: one line per change.
  virtual std::vector<std::string> report() const { return {}; }

  /// The values this algorithm would use at `state.time`, for `--plan`: name and number.
  virtual std::vector<std::pair<std::string, double>> planned(const State&) const { return {}; }
};

/// Watches training: a callback logs values, and may request a stop or a checkpoint. It changes
/// nothing else.
class Callback : public Hooks<const State&, Logger&, RunControl&> {
 public:
  /// Called once at the end of a run that completed, was interrupted or failed, after summary.json
  /// is written. An exception is logged and changes nothing.
  virtual void run_end(const State&, const RunEnd&) {}
};

/// Requests of a callback to the loop. Both take effect after the current batch.
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
