#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdio>
#include <set>
#include <thread>

#include "composer/device.h"
#include "composer/error.h"
#include "data/image_loader.h"
#include "data/jpeg.h"
#include "tests/data/helpers.h"

using namespace composer;
using namespace composer::test;
using Catch::Matchers::Contains;

namespace {

/// Each image is filled with a function of its index; reading takes unequal times.
class CountingSource final : public Source {
 public:
  explicit CountingSource(int64_t size, int64_t broken = -1) : size_(size), broken_(broken) {}
  int64_t size() const override { return size_; }
  int64_t channels() const override { return 3; }
  int64_t label(int64_t index) const override { return index; }
  std::string name(int64_t index) const override { return "image " + std::to_string(index); }
  ImageView read(int64_t index, ReadScratch& scratch) const override {
    ++reads;
    if (index == broken_) throw RunError("it is broken");
    if (index % 5 == 0) std::this_thread::sleep_for(std::chrono::microseconds(200));
    scratch.image.resize(20 + index % 7, 24, 3);
    for (size_t i = 0; i < scratch.image.pixels.size(); ++i) {
      scratch.image.pixels[i] = static_cast<uint8_t>(static_cast<size_t>(index) * 37 + i * 11);
    }
    return scratch.image.view();
  }

  mutable std::atomic<int> reads = 0;

 private:
  int64_t size_, broken_;
};

struct Setup {
  int64_t size = 101;
  int64_t batch = 8;
  int64_t workers = 2;
  int64_t prefetch = 2;
  bool shuffle = true;
  bool drop_last = false;
  bool training = true;
  bool pin = false;
  int64_t broken = -1;
  std::optional<int64_t> subset = std::nullopt;
};

std::unique_ptr<Loader> make(const Setup& s, std::shared_ptr<const CountingSource> source = {}) {
  if (!source) source = std::make_shared<CountingSource>(s.size, s.broken);
  return make_image_loader(
      source,
      {.transform = {.kind = Transform::Kind::random_resized_crop, .size = {96, 96}},
       .normalization = {{0, 0, 0}, {1, 1, 1}},
       .shuffle = s.shuffle,
       .drop_last = s.drop_last,
       .training = s.training},
      {.batch_size = s.batch,
       .seed = 17,
       .num_workers = s.workers,
       .prefetch_factor = s.prefetch,
       .pin_memory = s.pin,
       .subset_num_batches = s.subset});
}

std::vector<int64_t> classes(const std::vector<PlainBatch>& batches) {
  std::vector<int64_t> all;
  for (const auto& batch : batches)
    all.insert(all.end(), batch.classes.begin(), batch.classes.end());
  return all;
}

/// Waits for it, a second at most.
bool becomes(const std::function<bool()>& condition) {
  for (int i = 0; i < 100 && !condition(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return condition();
}

int threads_of_this_process() {
  return static_cast<int>(
      std::distance(fs::directory_iterator("/proc/self/task"), fs::directory_iterator()));
}

}  // namespace

TEST_CASE("any number of threads gives the same batches", "[data]") {
  const auto reference = make({.workers = 0});
  reference->start(0, 0);
  const auto first = rest_of_epoch(*reference), second = rest_of_epoch(*reference);
  REQUIRE(first.size() == 13);
  CHECK(first.back().shape == std::vector<int64_t>{5, 96, 96, 3});
  CHECK(first != second);
  for (const int64_t workers : {1, 2, 5}) {
    const auto loader = make({.workers = workers, .prefetch = workers});
    loader->start(0, 0);
    CHECK((rest_of_epoch(*loader) == first));
    CHECK((rest_of_epoch(*loader) == second));
    loader->start(0, 5);
    CHECK((rest_of_epoch(*loader) == std::vector(first.begin() + 5, first.end())));
    loader->next(), loader->next();
    loader->start(0, 12);
    CHECK((plain(*loader->next()) == first[12]));
    CHECK_FALSE(loader->next());
    CHECK((plain(*loader->next()) == second[0]));
    loader->start(0, 13);
    CHECK_FALSE(loader->next());
    CHECK((plain(*loader->next()) == second[0]));
  }
}

TEST_CASE("each epoch has every sample once, in a new order, or in the source's", "[data]") {
  const auto loader = make({});
  loader->start(0, 0);
  const auto first = classes(rest_of_epoch(*loader)), second = classes(rest_of_epoch(*loader));
  CHECK(first != second);
  for (const auto& order : {first, second}) {
    CHECK(std::set(order.begin(), order.end()).size() == 101);
    CHECK_FALSE(std::is_sorted(order.begin(), order.end()));
  }
  const auto plain_order = make({.shuffle = false});
  plain_order->start(0, 0);
  const auto order = classes(rest_of_epoch(*plain_order));
  CHECK(order.size() == 101);
  CHECK(std::is_sorted(order.begin(), order.end()));
}

TEST_CASE("the end of an epoch follows drop_last and the subset", "[data]") {
  CHECK(make({})->batches_per_epoch() == 13);
  CHECK(make({})->samples_per_epoch() == 101);
  CHECK(make({.drop_last = true})->batches_per_epoch() == 12);
  CHECK(make({.drop_last = true})->samples_per_epoch() == 96);
  CHECK(make({.subset = 3})->samples_per_epoch() == 24);
  CHECK(make({.subset = 99})->samples_per_epoch() == 101);
  const auto loader = make({.subset = 3});
  loader->start(4, 0);
  CHECK(rest_of_epoch(*loader).size() == 3);
  CHECK(rest_of_epoch(*loader).size() == 3);
  CHECK_THROWS_AS(loader->start(0, 4), RunError);
  CHECK_THROWS_WITH(make({.size = 7, .drop_last = true}),
                    Contains("7 samples") && Contains("batch of 8") && Contains("drop_last"));
  CHECK_THROWS_AS(make({.size = 0}), UserError);
}

TEST_CASE("images follow the size plan from the batch where it changes", "[data]") {
  const auto plan = [](int64_t batch) {
    return batch < 15 ? ImageSize{32, 48} : ImageSize{64, 64};
  };
  const auto loader = make({});
  loader->start(0, 0);
  loader->next();
  loader->start(0, 1, plan);
  CHECK(loader->next()->input.sizes() == at::IntArrayRef{8, 32, 48, 3});
  CHECK(rest_of_epoch(*loader).size() == 11);
  const auto second = rest_of_epoch(*loader);
  CHECK(second.at(1).shape == std::vector<int64_t>{8, 32, 48, 3});
  CHECK(second.at(2).shape == std::vector<int64_t>{8, 64, 64, 3});
  CHECK(loader->image_size() == ImageSize{96, 96});
}

TEST_CASE("a broken image surfaces with its name, after the batches before it", "[data]") {
  for (const int64_t workers : {0, 1, 4}) {
    const auto loader = make({.workers = workers, .shuffle = false, .broken = 20});
    loader->start(0, 0);
    CHECK(loader->next());
    CHECK(loader->next());
    CHECK_THROWS_WITH(loader->next(), "image 20: it is broken");
    CHECK_THROWS_AS(loader->next(), RunError);
    loader->start(0, 3);
    CHECK(plain(*loader->next()).classes.front() == 24);
  }
}

TEST_CASE("only training reads ahead over the end of an epoch", "[data]") {
  for (const int64_t workers : {0, 1, 3}) {
    const auto source = std::make_shared<CountingSource>(24);
    const auto loader = make({.workers = workers, .prefetch = 4, .training = false}, source);
    const auto idle_after = [&](int reads) {
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
      return source->reads == reads;
    };
    loader->start(0, 0);
    const auto first = rest_of_epoch(*loader);
    CHECK(first.size() == 3);
    CHECK(idle_after(24));
    const auto second = rest_of_epoch(*loader);
    CHECK(second.size() == 3);
    CHECK(second != first);
    CHECK(idle_after(48));
    loader->start(0, 3);
    CHECK_FALSE(loader->next());
    CHECK(idle_after(48));
    CHECK((rest_of_epoch(*loader) == second));
    loader->start(0, 0);
    CHECK((rest_of_epoch(*loader) == first));
    CHECK(idle_after(96));
  }
  const auto source = std::make_shared<CountingSource>(24);
  const auto loader = make({.prefetch = 4}, source);
  loader->start(0, 0);
  rest_of_epoch(*loader);
  CHECK(becomes([&] { return source->reads == 24 + 5 * 8; }));
}

TEST_CASE("a subset of more than an epoch is warned of once", "[data]") {
  const TempFolder folder;
  const int kept = dup(STDERR_FILENO);
  REQUIRE(std::freopen((folder / "log").c_str(), "w", stderr) != nullptr);
  make({.subset = 13});
  const auto loader = make({.subset = 99});
  loader->start(0, 0);
  loader->start(1, 0);
  std::fflush(stderr);
  dup2(kept, STDERR_FILENO);
  close(kept);
  const std::string log = read_bytes(folder / "log");
  CHECK_THAT(log, Contains("warning") && Contains("subset_num_batches: 99") && Contains("13"));
  CHECK(std::count(log.begin(), log.end(), '\n') == 1);
}

TEST_CASE("memory is used again only when the batch has been let go", "[data]") {
  const auto loader = make({.shuffle = false});
  loader->start(0, 0);
  const Batch kept = *loader->next();
  const at::Tensor part = loader->next()->input.select(0, 1);
  const PlainBatch before = plain(kept);
  const at::Tensor part_before = part.clone();
  std::set<const void*> memory;
  for (int epoch = 0; epoch < 3; ++epoch) {
    while (const auto batch = loader->next()) memory.insert(batch->input.const_data_ptr());
  }
  CHECK((plain(kept) == before));
  CHECK(at::equal(part, part_before));
  CHECK(memory.size() <= 6);
}

TEST_CASE("batches are pinned where asked and there is a GPU", "[data]") {
  const bool cuda = resolve_device("auto").is_cuda();
  const auto reference = make({.workers = 0}), loader = make({.pin = true});
  const Batch batch = *loader->next();
  CHECK(batch.input.is_pinned() == cuda);
  CHECK(batch.target.classes.is_pinned() == cuda);
  CHECK((plain(batch) == plain(*reference->next())));
}

TEST_CASE("a batch outlives its loader", "[data]") {
  auto loader = make({.training = false});
  const Batch batch = *loader->next();
  const PlainBatch before = plain(batch);
  rest_of_epoch(*loader);
  loader.reset();
  CHECK((plain(batch) == before));
}

TEST_CASE("a loader is destroyed at any moment and leaves no thread", "[data]") {
  make({})->start(0, 0);  // a sanitizer's own thread begins with the first one
  const int before = threads_of_this_process();
  for (int i = 0; i < 20; ++i) {
    const auto loader = make({.workers = 3, .broken = i % 2 == 0 ? 30 : -1});
    if (i % 4 == 1) continue;
    loader->start(0, i % 13);
    if (i % 4 == 2) loader->next();
    if (i % 4 == 3) loader->start(1, 0);
  }
  CHECK(threads_of_this_process() == before);
}

TEST_CASE("a plan that throws surfaces in next", "[data]") {
  for (const int64_t workers : {0, 2}) {
    const auto loader = make({.workers = workers});
    loader->start(0, 0, [](int64_t batch) -> ImageSize {
      if (batch == 2) throw RunError("no size");
      return {32, 32};
    });
    CHECK(loader->next());
    CHECK(loader->next());
    CHECK_THROWS_WITH(loader->next(), "no size");
  }
}
