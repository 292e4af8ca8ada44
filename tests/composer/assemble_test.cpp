#include "composer/run/assemble.h"

#include <catch2/catch.hpp>

#include "base/params/utf8.h"
#include "composer/run/builtin.h"
#include "tests/composer/tiny_run.h"

namespace composer::assemble_test {

namespace {

int times_listed = 0;

/// Counts how often its classes are asked for.
struct Listed : Dataset {
  struct Params {
    std::string first = "cat", second = "dog";
    int64_t values = 0;
    void fields(auto&& f) {
      f("first", first, "name of the first class");
      f("second", second, "name of the second class");
      f("values", values, "numbers in place of a class");
    }
  };
  explicit Listed(Params params) : params(std::move(params)) {}

  std::unique_ptr<Loader> open(const LoaderOptions& options) const override {
    CHECK(options.class_names == class_names_now());
    return std::make_unique<TinyLoader>(32, options.batch_size);
  }
  std::unique_ptr<Loader> open_files(std::vector<std::string>,
                                     const LoaderOptions&) const override {
    return nullptr;
  }
  bool can_split() const override { return true; }
  bool drop_last() const override { return true; }
  ImageSize image_size() const override { return {8, 8}; }
  std::vector<std::string> class_names() const override {
    ++times_listed;
    return class_names_now();
  }
  std::vector<std::string> class_names_now() const { return {params.first, params.second}; }
  int64_t num_values() const override { return params.values; }
  std::vector<std::string> number_names() const override { return {"age", "weight"}; }

  Params params;
};

Recipe recipe_with(const std::string& more, const std::string& train_dataset = "listed") {
  Registry known;
  add_builtin_core(known);
  known.models.add<TinyModel>("tiny");
  known.datasets.add<Listed>("listed");
  return resolve(
      {"r.yaml", "model: tiny\ntrain_dataset: " + train_dataset +
                     "\noptimizer: {sgd: {lr: 0.1}}\n"
                     "train_batch_size: 8\nmax_duration: 1ep\nrun_dir: none\ndevice: cpu\n" +
                     more},
      {}, known);
}

}  // namespace

TEST_CASE("the classes of each set are listed once", "[assemble]") {
  const std::string sets = "eval_batch_size: 8\nval_dataset: listed\n";
  for (const auto& [more, times] :
       {std::pair<std::string, int>{"", 1}, {sets, 2}, {"split: {val: 0.25}\n", 1}}) {
    INFO(more);
    times_listed = 0;
    const auto parts = assemble_training(recipe_with(more));
    CHECK(times_listed == times);
    CHECK(parts.train_loader != nullptr);
    CHECK((parts.eval_loader != nullptr) == !more.empty());
    CHECK(parts.class_names == std::vector<std::string>{"cat", "dog"});
  }
  times_listed = 0;
  CHECK(assemble_evaluation(recipe_with(sets)).class_names ==
        std::vector<std::string>{"cat", "dog"});
  CHECK(times_listed == 1);
  CHECK_THROWS_WITH(
      assemble_training(recipe_with("eval_batch_size: 8\nval_dataset: {listed: {second: bird}}\n")),
      Catch::Contains("missing: dog; not in train_dataset: bird"));
}

TEST_CASE("names that differ in case, blanks or Unicode form alone are alike", "[assemble]") {
  using Names = std::vector<std::string>;
  CHECK(alike_names({"Cat", "dog", "cat", "cats", "c\xC3\xA1t"}) == Names{"Cat, cat"});
  for (const auto& [one, other] :
       {std::pair<std::string, std::string>{"caf\xC3\xA9", "cafe\xCC\x81"},
        {"\xC3\x89", "e\xCC\x81"},                                 // two letters e, acute
        {"\xED\x95\x9C", "\xE1\x84\x92\xE1\x85\xA1\xE1\x86\xAB"},  // a Hangul syllable
        {"\xE1\xBA\xAD", "a\xCC\xA3\xCC\x82"},                     // Vietnamese, two marks
        {"\xE3\x81\x8C", "\xE3\x81\x8B\xE3\x82\x99"},              // kana
        {"\xD0\x81\xD0\x96", "\xD0\xB5\xCC\x88\xD0\xB6"},          // Cyrillic
        {"\xC5\x81\xC3\x98", "\xC5\x82\xC3\xB8"},
        {"cat ", "cat"}})
    CHECK(alike_names({one, other}) == Names{one + ", " + other});
  CHECK(alike_names({"a\xFF", "a\xFE", "\xE9", "e"}).empty());
  CHECK(alike_names({}).empty());
  CHECK_THROWS_WITH(
      assemble_training(recipe_with("eval_batch_size: 8\nval_dataset: {listed: {second: Dog}}\n")),
      Catch::Contains("form: dog, Dog"));
}

TEST_CASE("a loss of numbers for data with classes is told of the numbers that they have",
          "[assemble]") {
  CHECK_THROWS_WITH(
      assemble_training(recipe_with("loss: mse\n")),
      Catch::Contains("train_dataset.listed: the targets are classes, and loss: mse "
                      "needs numbers; the data have age, weight: name the right ones in targets"));
}

TEST_CASE("targets of the two sets stand in the same order", "[assemble]") {
  const auto recipe = [](const std::string& first, const std::string& second) {
    return recipe_with("loss: mse\neval_batch_size: 8\nval_dataset: {listed: {values: 2, first: " +
                           first + ", second: " + second + "}}\n",
                       "{listed: {values: 2}}");
  };
  CHECK_THROWS_WITH(
      assemble_training(recipe("dog", "cat")),
      Catch::Contains("val_dataset.listed: its targets are dog, cat, those of train_dataset.listed "
                      "cat, dog: the same output would mean two things"));
  CHECK_NOTHROW(assemble_training(recipe("cat", "json.dog")));
}

TEST_CASE("every run of a recipe watches its speed, once", "[assemble]") {
  for (const std::string more : {"", "callbacks: []\n", "callbacks: [lr_monitor]\n",
                                 "callbacks: {speed_monitor: {window_size: 5}}\n"}) {
    INFO(more);
    const auto parts = assemble_training(recipe_with(more));
    CHECK(std::ranges::count(parts.callbacks, "speed_monitor", &Member<Callback>::name) == 1);
  }
}

}  // namespace composer::assemble_test
