#include "algorithms/all.h"

#include <catch2/catch.hpp>

using namespace composer;

TEST_CASE("the built-in algorithms are registered with their events and defaults", "[algorithms]") {
  Registry known;
  add_builtin_algorithms(known);
  CHECK(known.algorithms.names() == std::vector<std::string>{"blurpool", "channels_last",
                                                             "label_smoothing",
                                                             "progressive_resizing"});
  const auto events = [&](const std::string& name) {
    std::vector<std::string> all;
    const auto set = known.algorithms.make(name)->subscriptions();
    for (size_t i = 0; i < event_count; ++i)
      if (set.test(i)) all.emplace_back(event_names[i]);
    return all;
  };
  using Events = std::vector<std::string>;
  CHECK(events("blurpool") == Events{"init"});
  CHECK(events("channels_last") == Events{"init"});
  CHECK(events("label_smoothing") == Events{"before_loss", "after_loss"});
  CHECK(events("progressive_resizing") == Events{"after_dataloader"});
  for (const auto& name : known.algorithms.names())
    CHECK(known.algorithms.make(name)->build() != nullptr);
}

TEST_CASE("values out of range are refused by name", "[algorithms]") {
  Registry known;
  add_builtin_algorithms(known);
  const auto problems = [&](const std::string& name, const std::string& key,
                            const std::string& value) {
    const auto component = known.algorithms.make(name);
    auto given = Value::map();
    given.set(key, Value::scalar(value));
    Problems found;
    read_fields(given, component->fields(), name, found);
    return found.size();
  };
  CHECK(problems("label_smoothing", "smoothing", "0.2") == 0);
  CHECK(problems("label_smoothing", "smoothing", "1.5") == 1);
  CHECK(problems("progressive_resizing", "mode", "nearest") == 1);
  CHECK(problems("progressive_resizing", "finetune_fraction", "0.6") == 1);
  CHECK(problems("progressive_resizing", "size_increment", "0") == 1);
  CHECK(problems("progressive_resizing", "resize_targets", "true") == 1);
  CHECK(problems("blurpool", "min_channels", "-1") == 1);
}
