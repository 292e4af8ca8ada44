#include "nn/profiling/timer.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <thread>

#include "composer/loop/algorithm.h"
#include "tiny_run.h"

namespace composer::timer_test {

namespace {

using Listen = Timer::Listen;

/// Passes at least so many milliseconds.
void pass(int milliseconds) {
  std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
}

void range(const char* name) { RECORD_USER_SCOPE(name); }

RangeTotal of(const RangeTotals& totals, const std::string& name) {
  const auto found = totals.find(name);
  return found == totals.end() ? RangeTotal() : found->second;
}

std::vector<std::string> names(const RangeTotals& totals) {
  std::vector<std::string> all;
  for (const auto& [name, total] : totals) all.push_back(name);
  return all;
}

double self_seconds(const RangeTotals& totals) {
  double sum = 0;
  for (const auto& [name, total] : totals) sum += total.self_seconds;
  return sum;
}

bool heard(at::RecordScope scope) { return at::RecordFunction(scope).isActive(); }

/// Has a hook for every event of training.
class Everywhere : public Algorithm {
 public:
#define X(event, kind) \
  void event(State&) override {}
  COMPOSER_EVENTS(X)
#undef X
};

/// Notes at each batch's end who is listening.
class Listeners : public Callback {
 public:
  void batch_end(const State&, Logger&, RunControl&) override {
    ranges += heard(at::RecordScope::USER_SCOPE);
    operators += heard(at::RecordScope::FUNCTION);
    ++batches;
  }
  int ranges = 0, operators = 0, batches = 0;
};

template <class T>
void add(std::vector<Member<T>>& members, const std::string& name, std::shared_ptr<T> member,
         EventSet events) {
  members.push_back({name, std::move(member), events});
}

}  // namespace

TEST_CASE("a timer sums the ranges of a name, and what they take without those inside", "[timer]") {
  const Timer timer;
  for (int i = 0; i < 2; ++i) {
    RECORD_USER_SCOPE("outer");
    pass(2);
    for (int j = 0; j < 3; ++j) {
      RECORD_USER_SCOPE("inner");
      pass(1);
      range("innermost");
    }
  }
  const auto totals = timer.totals();
  CHECK(names(totals.here) == std::vector<std::string>{"inner", "innermost", "outer"});
  CHECK(totals.elsewhere.empty());
  CHECK(totals.operators.empty());
  const auto outer = of(totals.here, "outer"), inner = of(totals.here, "inner");
  CHECK(outer.calls == 2);
  CHECK(inner.calls == 6);
  CHECK(inner.self_seconds >= 0.006);
  CHECK(outer.self_seconds >= 0.004);
  CHECK(outer.seconds == Approx(outer.self_seconds + inner.seconds));
  CHECK(inner.seconds == Approx(inner.self_seconds + of(totals.here, "innermost").seconds));
  CHECK(timer.here("inner").calls == 6);
  CHECK(timer.here("inner").seconds == inner.seconds);
  CHECK(timer.here("another").calls == 0);
}

TEST_CASE("a name inside itself takes its time once", "[timer]") {
  const Timer timer;
  {
    RECORD_USER_SCOPE("twice");
    pass(1);
    {
      RECORD_USER_SCOPE("between");
      {
        RECORD_USER_SCOPE("twice");
        pass(2);
      }
    }
  }
  const auto totals = timer.totals().here;
  CHECK(of(totals, "twice").calls == 2);
  CHECK(of(totals, "twice").seconds >= 0.003);
  CHECK(self_seconds(totals) == Approx(of(totals, "twice").seconds));
}

TEST_CASE("a timer counts what ends while it lives, since its reset, beside other timers",
          "[timer]") {
  range("before");
  Timer first;
  range("a");
  {
    RECORD_USER_SCOPE("around");
    const Timer second(Listen::here), third;
    range("a");
    CHECK(first.totals().here.at("a").calls == 2);
    CHECK(names(second.totals().here) == std::vector<std::string>{"a"});
    CHECK(second.totals().here.at("a").calls == 1);
    CHECK(third.totals().here.at("a").calls == 1);
  }
  CHECK(names(first.totals().here) == std::vector<std::string>{"a", "around"});
  first.reset();
  CHECK(first.totals().here.empty());
  CHECK(first.here("a").calls == 0);
  range("a");
  CHECK(first.totals().here.at("a").calls == 1);
  auto short_lived = std::make_unique<Timer>();
  {
    RECORD_USER_SCOPE("outlives a timer");
    short_lived.reset();
    range("a");
  }
  CHECK(first.totals().here.at("a").calls == 2);
  CHECK(first.totals().here.at("outlives a timer").calls == 1);
}

TEST_CASE("ranges of other threads are summed apart, those of ended threads too", "[timer]") {
  const Timer timer;
  std::atomic<bool> stop = false;
  std::atomic<int> begun = 0;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread)
    threads.emplace_back([&, thread] {
      for (int i = 0; i < 1000; ++i) {
        RECORD_USER_SCOPE("decode");
        range(("name " + std::to_string(thread * 1000 + i)).c_str());
      }
      ++begun;
      while (thread >= 2 && !stop) std::this_thread::yield();
    });
  threads[0].join();
  while (begun < 4) {
    const auto now = timer.totals().elsewhere;
    CHECK(of(now, "decode").seconds >= of(now, "decode").self_seconds);
  }
  threads[1].join();
  const auto some_alive = timer.totals();
  stop = true;
  threads[2].join();
  threads[3].join();
  const auto none_alive = timer.totals();
  for (const auto& totals : {some_alive, none_alive}) {
    CHECK(totals.here.empty());
    CHECK(totals.elsewhere.at("decode").calls == 4000);
    CHECK(totals.elsewhere.size() == 4001);
  }
}

TEST_CASE("who listens to ranges does not hear operators, nor other threads when not asked to",
          "[timer]") {
  const auto elsewhere = [] {
    bool found = false;
    std::thread([&] { found = heard(at::RecordScope::USER_SCOPE); }).join();
    return found;
  };
  CHECK_FALSE(at::hasCallbacks());
  {
    const Timer timer;
    CHECK(heard(at::RecordScope::USER_SCOPE));
    CHECK(elsewhere());
    CHECK_FALSE(heard(at::RecordScope::FUNCTION));
  }
  {
    const Timer timer(Listen::here);
    CHECK(heard(at::RecordScope::USER_SCOPE));
    CHECK_FALSE(elsewhere());
    CHECK_FALSE(heard(at::RecordScope::FUNCTION));
  }
  {
    const Timer timer(Listen::operators);
    CHECK(heard(at::RecordScope::FUNCTION));
  }
  CHECK_FALSE(at::hasCallbacks());
}

TEST_CASE("operators are timed with those of the backward pass", "[timer]") {
  TinyModel model;
  const auto images = at::randn({4, 3, 32, 32});
  const Timer timer(Listen::operators), ranges_only;
  const double begin = steady_seconds();
  {
    RECORD_USER_SCOPE("pass");
    model.forward(images).sum().backward();
  }
  const double all = steady_seconds() - begin;
  const auto totals = timer.totals();
  REQUIRE(totals.operators.contains("aten::convolution_backward"));
  CHECK(totals.operators.at("aten::conv2d").calls == 1);
  CHECK(totals.operators.at("aten::conv2d").self_seconds <
        totals.operators.at("aten::conv2d").seconds);
  CHECK(self_seconds(totals.operators) <= all);
  CHECK(names(totals.here) == std::vector<std::string>{"pass"});
  CHECK(totals.here.at("pass").self_seconds == totals.here.at("pass").seconds);
  CHECK(ranges_only.totals().operators.empty());
}

TEST_CASE("a run opens ranges by the names of its parts, one in another", "[timer]") {
  const TemporaryFolder folder;
  auto parts = tiny_parts();
  parts.options.run_dir = folder.path();
  add<Algorithm>(parts.algorithms, "first_one", std::make_shared<Everywhere>(),
                 subscriptions<Everywhere>());
  add<Algorithm>(parts.algorithms, "second_one", std::make_shared<Everywhere>(),
                 subscriptions<Everywhere>());
  add<Callback>(parts.callbacks, "looks_on", std::make_shared<Listeners>(),
                subscriptions<Listeners>());
  Trainer trainer(std::move(parts));
  const Timer timer;
  const double begin = steady_seconds();
  trainer.fit();
  const double all = steady_seconds() - begin;
  const auto totals = timer.totals();
  const auto& here = totals.here;
  CHECK(names(totals.elsewhere) == std::vector<std::string>{"write checkpoint"});
  CHECK(of(here, "forward").calls == 8 + 2 * 2);
  CHECK(of(here, "backward").calls == 8);
  CHECK(of(here, "optimizer").calls == 8);
  CHECK(of(here, "evaluation").calls == 2);
  CHECK(of(here, "checkpoint").calls == 3);  // the last one again: hooks of fit_end may change it
  CHECK(of(here, "looks_on").calls == 8);
  CHECK(of(here, "dataloader").calls >= 8 + 2 * 3);
  for (const char* event : {"init",
                            "fit_start",
                            "epoch_start",
                            "after_dataloader",
                            "batch_start",
                            "before_train_batch",
                            "before_forward",
                            "after_forward",
                            "before_loss",
                            "after_loss",
                            "before_backward",
                            "after_backward",
                            "after_train_batch",
                            "batch_end",
                            "batch_checkpoint",
                            "epoch_end",
                            "epoch_checkpoint",
                            "fit_end",
                            "eval_start",
                            "eval_batch_start",
                            "eval_before_forward",
                            "eval_after_forward",
                            "eval_batch_end",
                            "eval_end"}) {
    INFO(event);
    CHECK(of(here, event).calls > 0);
    CHECK(of(here, event).self_seconds < of(here, event).seconds);
  }
  CHECK(of(here, "first_one").calls == of(here, "second_one").calls);
  CHECK(of(here, "evaluation").self_seconds < of(here, "evaluation").seconds);
  CHECK(of(here, "forward").self_seconds == of(here, "forward").seconds);
  CHECK(self_seconds(here) <= all);
}

TEST_CASE("nobody listens to a run without a timer, and no timer stays behind", "[timer]") {
  auto parts = tiny_parts();
  const auto listeners = std::make_shared<Listeners>();
  add<Callback>(parts.callbacks, "looks_on", listeners, subscriptions<Listeners>());
  Trainer(std::move(parts)).fit();
  CHECK(listeners->batches == 8);
  CHECK(listeners->ranges == 0);
  CHECK(listeners->operators == 0);
  CHECK_FALSE(at::hasCallbacks());
}

}  // namespace composer::timer_test
