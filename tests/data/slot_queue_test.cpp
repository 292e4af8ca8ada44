#include "data/loading/slot_queue.h"

#include <catch2/catch.hpp>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "base/error.h"

namespace composer::slot_queue_test {

namespace {

OpenSlot slots_of(int64_t samples) {
  return [samples](int64_t epoch, int64_t batch) {
    auto slot = std::make_shared<BatchSlot>();
    slot->epoch = epoch;
    slot->first = batch * samples;
    slot->samples = samples;
    return slot;
  };
}

/// Threads that take tasks and finish them after `fill`.
class Fillers {
 public:
  Fillers(SlotQueue& queue, int count, std::function<void(Task&)> fill) : queue_(queue) {
    for (int i = 0; i < count; ++i) {
      threads_.emplace_back([this, fill] {
        Task task;
        do {
          while (queue_.take(task)) {
            fill(task);
            queue_.finish(task);
          }
        } while (queue_.wait());
      });
    }
  }
  ~Fillers() {
    queue_.stop();
    for (auto& thread : threads_) thread.join();
  }

 private:
  SlotQueue& queue_;
  std::vector<std::thread> threads_;
};

void fail(Task& task, int64_t place) {
  if (place < task.begin || place >= task.end) return;
  task.failed_at = place;
  task.failure = std::make_exception_ptr(RunError("place " + std::to_string(place)));
}

}  // namespace

TEST_CASE("a slot's places are taken once each, in tasks, by its threads", "[data]") {
  SlotQueue queue({.batches = 3, .slots = 2, .task_images = 4, .ahead = true});
  queue.restart(5, 1, slots_of(10));
  Task first, second;
  REQUIRE(queue.take(first));
  CHECK(first.slot->epoch == 5);
  CHECK(first.slot->first == 10);
  CHECK((first.begin == 0 && first.end == 4));
  REQUIRE(queue.take(second));
  CHECK(second.slot == first.slot);
  CHECK((second.begin == 4 && second.end == 8));
  queue.finish(second);
  REQUIRE(queue.take(second));
  CHECK((second.begin == 8 && second.end == 10));
  queue.finish(second);
  CHECK_FALSE(queue.ready());
  REQUIRE(queue.take(second));  // of the next batch; there is no room for a third
  CHECK((second.slot->first == 20 && second.begin == 0));
  const auto slot = first.slot;
  queue.finish(first);
  CHECK(queue.ready());
  CHECK(queue.next() == slot);
  CHECK_FALSE(queue.ready());
}

TEST_CASE("no more slots are open than may be, and a thread without a task holds none", "[data]") {
  SlotQueue queue({.batches = 100, .slots = 3, .task_images = 8, .ahead = true});
  std::vector<std::weak_ptr<BatchSlot>> opened;
  queue.restart(0, 0, [&](int64_t epoch, int64_t batch) {
    auto slot = slots_of(8)(epoch, batch);
    opened.push_back(slot);
    return slot;
  });
  Task task;
  const auto fill_all = [&] {
    while (queue.take(task)) queue.finish(task);
  };
  fill_all();
  CHECK(opened.size() == 3);
  CHECK_FALSE(task.slot);
  queue.next();
  CHECK(opened[0].expired());
  fill_all();
  CHECK(opened.size() == 4);
}

TEST_CASE("the next epoch is opened once it is asked for, or ahead", "[data]") {
  for (const bool ahead : {false, true}) {
    SlotQueue queue({.batches = 2, .slots = 5, .task_images = 1, .ahead = ahead});
    queue.restart(3, 2, slots_of(1));  // the end of an epoch
    Task task;
    CHECK(queue.take(task) == ahead);
    queue.restart(3, 1, slots_of(1));
    int64_t taken = 0;
    for (; queue.take(task); ++taken) queue.finish(task);
    CHECK(taken == (ahead ? 5 : 1));
    CHECK(queue.next()->epoch == 3);
    queue.ask(4);
    while (queue.take(task)) queue.finish(task);
    CHECK(queue.next()->epoch == 4);
  }
}

TEST_CASE("the failure of a slot's lowest place is thrown, whichever came first", "[data]") {
  SlotQueue queue({.batches = 2, .slots = 2, .task_images = 2});
  queue.restart(0, 0, slots_of(6));
  std::vector<Task> tasks(3);
  for (auto& task : tasks) REQUIRE(queue.take(task));
  fail(tasks[2], 5), fail(tasks[1], 3);
  tasks[0].bad = {0, 1};
  for (const size_t i : {2u, 1u, 0u}) queue.finish(tasks[i]);
  for (int i = 0; i < 2; ++i) CHECK_THROWS_WITH(queue.next(), "place 3");
  CHECK(tasks[0].slot->bad == std::set<int64_t>{0, 1});
  queue.restart(0, 1, slots_of(2));
  REQUIRE(queue.take(tasks[0]));  // with nothing left of what it noted before
  queue.finish(tasks[0]);
  CHECK(queue.next()->bad.empty());
}

TEST_CASE("a restart drops slots, whose tasks go to nobody", "[data]") {
  SlotQueue queue({.batches = 9, .slots = 1, .task_images = 2});
  queue.restart(0, 0, slots_of(6));
  Task task;
  REQUIRE(queue.take(task));
  const auto dropped = task.slot;
  queue.restart(0, 7, slots_of(4));
  CHECK(dropped->dropped);
  fail(task, 0);
  queue.finish(task);
  REQUIRE(queue.take(task));
  CHECK(task.slot->first == 28);
  CHECK(task.begin == 0);
  queue.finish(task);
  REQUIRE(queue.take(task));
  queue.finish(task);
  CHECK(queue.next()->first == 28);
  REQUIRE(queue.take(task));
  queue.stop();
  CHECK(task.slot->dropped);
  CHECK_FALSE(queue.take(task));
  CHECK_FALSE(queue.wait());
}

TEST_CASE("what opening a slot throws comes after the slots before it", "[data]") {
  SlotQueue queue({.batches = 9, .slots = 4, .task_images = 8});
  queue.restart(0, 0, [](int64_t epoch, int64_t batch) {
    if (batch == 2) throw RunError("no slot");
    return slots_of(batch == 0 ? 0 : 3)(epoch, batch);  // an empty one is done at once
  });
  Task task;
  while (queue.take(task)) queue.finish(task);
  CHECK(queue.next()->samples == 0);
  CHECK(queue.next()->samples == 3);
  for (int i = 0; i < 2; ++i) CHECK_THROWS_WITH(queue.next(), "no slot");
}

TEST_CASE("threads fill every slot once, in order, whatever is dropped meanwhile", "[data]") {
  constexpr int64_t kBatches = 40, kSamples = 7;
  std::mutex lock;
  std::map<const BatchSlot*, std::vector<int>> filled;  // how often each place was
  const auto open = [&](int64_t epoch, int64_t batch) {
    auto slot = slots_of(kSamples)(epoch, batch);
    const std::lock_guard guard(lock);
    filled[slot.get()].assign(kSamples, 0);
    return slot;
  };
  SlotQueue queue({.batches = kBatches, .slots = 3, .task_images = 2, .ahead = true});
  queue.restart(0, 0, open);
  const Fillers fillers(queue, 4, [&](Task& task) {
    int* counts = nullptr;
    {
      const std::lock_guard guard(lock);
      counts = filled[task.slot.get()].data();
    }
    for (int64_t i = task.begin; i < task.end; ++i) ++counts[i];  // seen by whoever gets the slot
  });
  for (int round = 0; round < 20; ++round) {
    queue.restart(round, round, open);
    for (int64_t batch = round; batch < kBatches; ++batch) {
      queue.ask(round);
      const auto slot = queue.next();
      CHECK((slot->epoch == round && slot->first == batch * kSamples));
      const std::lock_guard guard(lock);
      CHECK(filled.at(slot.get()) == std::vector<int>(kSamples, 1));
    }
  }
}

}  // namespace composer::slot_queue_test
