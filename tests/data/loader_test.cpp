#include <ATen/record_function.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdio>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "base/error.h"
#include "data/batches/image_loader.h"
#include "data/jpeg/jpeg.h"
#include "nn/device/device.h"
#include "nn/network/batch.h"
#include "tests/data/eventually.h"
#include "tests/data/plain_batch.h"
#include "tests/files.h"
#include "tests/gpu.h"

namespace composer::loader_test {

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
  StoredImage open(int64_t index, ReadScratch& scratch) const override {
    ++reads;
    if (index == broken_) throw RunError("it is broken");
    if (index % 5 == 0) std::this_thread::sleep_for(std::chrono::microseconds(200));
    scratch.image.resize(20 + index % 7, 24, 3);
    for (size_t i = 0; i < scratch.image.pixels.size(); ++i) {
      scratch.image.pixels[i] = static_cast<uint8_t>(static_cast<size_t>(index) * 37 + i * 11);
    }
    return {.bytes = scratch.image.pixels,
            .size = {scratch.image.height, scratch.image.width},
            .channels = 3};
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
  OnBadSample on_bad_sample = OnBadSample::error;
  int64_t rank = 0;
  int64_t world_size = 1;
  std::string rows = {};
  std::vector<SampleTransform> augmentations = {};
};

std::unique_ptr<Loader> make(const Setup& s, std::shared_ptr<CountingSource> source = {}) {
  if (!source) source = std::make_shared<CountingSource>(s.size, s.broken);
  return make_image_loader(
      source,
      {.transform = {.kind = Transform::Kind::random_resized_crop, .size = {96, 96}},
       .augmentations = s.augmentations,
       .normalization = {{0, 0, 0}, {1, 1, 1}},
       .order = s.shuffle ? OrderKind::random : OrderKind::sequential,
       .rows = s.rows,
       .drop_last = s.drop_last,
       .training = s.training},
      {.batch_size = s.batch,
       .seed = 17,
       .num_workers = s.workers,
       .prefetch_factor = s.prefetch,
       .pin_memory = s.pin,
       .on_bad_sample = s.on_bad_sample,
       .rank = s.rank,
       .world_size = s.world_size,
       .subset_num_batches = s.subset});
}

std::vector<int64_t> classes(const std::vector<PlainBatch>& batches) {
  std::vector<int64_t> all;
  for (const auto& batch : batches)
    all.insert(all.end(), batch.classes.begin(), batch.classes.end());
  return all;
}

/// Counts the user-scope ranges of all threads by name while it lives.
class RangeCounts {
 public:
  RangeCounts()
      : handle_(at::addGlobalCallback(
            at::RecordFunctionCallback(count).scopes({at::RecordScope::USER_SCOPE}))) {
    const std::lock_guard guard(lock);
    counts.clear();
  }
  ~RangeCounts() { at::removeCallback(handle_); }
  RangeCounts(const RangeCounts&) = delete;
  RangeCounts& operator=(const RangeCounts&) = delete;

  std::map<std::string, int> all() const {
    const std::lock_guard guard(lock);
    return counts;
  }

 private:
  static std::unique_ptr<at::ObserverContext> count(const at::RecordFunction& range) {
    const std::lock_guard guard(lock);
    ++counts[range.name()];
    return nullptr;
  }

  static inline std::mutex lock;
  static inline std::map<std::string, int> counts;
  const at::CallbackHandle handle_;
};

/// Waits for it, a second at most.
bool becomes(const std::function<bool()>& condition) {
  for (int i = 0; i < 100 && !condition(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return condition();
}

/// Resident bytes of this process.
int64_t current_memory() {
  std::ifstream file("/proc/self/statm");
  int64_t all = 0, resident = 0;
  file >> all >> resident;
  return resident * sysconf(_SC_PAGESIZE);
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
  CHECK(loader->next()->images.sizes() == at::IntArrayRef{8, 32, 48, 3});
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
    CHECK_THROWS_WITH(loader->next(),
                      "image 20: it is broken; --on_bad_sample skip leaves such samples out");
    CHECK_THROWS_AS(loader->next(), RunError);
    loader->start(0, 3);
    CHECK(plain(*loader->next()).classes.front() == 24);
  }
}

TEST_CASE("a bad sample ends the run, is left out, or is replaced", "[data]") {
  for (const int64_t workers : {0, 3}) {
    const auto skipping = make(
        {.workers = workers, .shuffle = false, .broken = 20, .on_bad_sample = OnBadSample::skip});
    auto batches = rest_of_epoch(*skipping);
    REQUIRE(batches.size() == 13);
    CHECK(batches[2].classes == std::vector<int64_t>{16, 17, 18, 19, 21, 22, 23});
    CHECK(batches[2].shape == std::vector<int64_t>{7, 96, 96, 3});
    CHECK(batches[3].shape.front() == 8);
    const auto replacing = make({.workers = workers,
                                 .shuffle = false,
                                 .broken = 20,
                                 .on_bad_sample = OnBadSample::replace});
    const auto replaced = rest_of_epoch(*replacing);
    CHECK(replaced[2].classes == std::vector<int64_t>{16, 17, 18, 19, 21, 21, 22, 23});
    const auto alone =
        make({.size = 1, .workers = workers, .broken = 0, .on_bad_sample = OnBadSample::skip});
    CHECK_THROWS_WITH(alone->next(), Contains("not one sample of batch 0 of epoch 0"));
  }
}

TEST_CASE("an evaluation goes on after a batch without a good sample", "[data]") {
  for (const int64_t workers : {0, 3}) {
    const auto make_one = [&](int64_t size) {
      return make({.size = size,
                   .batch = 1,
                   .workers = workers,
                   .shuffle = false,
                   .training = false,
                   .broken = 0,
                   .on_bad_sample = OnBadSample::skip});
    };
    const auto batches = rest_of_epoch(*make_one(3));
    REQUIRE(batches.size() == 3);
    CHECK(batches[0].classes.empty());
    CHECK(batches[1].classes == std::vector<int64_t>{1});
    CHECK_THROWS_WITH(rest_of_epoch(*make_one(1)), "not one of 1 sample can be read");
  }
}

TEST_CASE("batches tell which samples they are of, whatever became of bad ones", "[data]") {
  for (const int64_t workers : {0, 2})
    for (const auto on_bad_sample : {OnBadSample::skip, OnBadSample::replace}) {
      const auto loader = make({.workers = workers, .broken = 20, .on_bad_sample = on_bad_sample});
      int64_t samples = 0;
      while (const auto batch = loader->next()) {
        CHECK(at::equal(batch->indices, batch->target.classes));
        samples += batch->samples();
      }
      CHECK(samples > 0);
      CHECK_THAT(loader->sample_name(3), Contains("3"));
    }
}

TEST_CASE("a transform that throws ends the run whatever bad samples do", "[data]") {
  for (const int64_t workers : {0, 2}) {
    const auto loader = make({.workers = workers,
                              .on_bad_sample = OnBadSample::skip,
                              .augmentations = {[](const MutableImage&, const SampleKey& place) {
                                if (place.sample == 50) throw RunError("mine");
                              }}});
    CHECK_THROWS_WITH(rest_of_epoch(*loader), "mine");
    const auto odd =
        make({.workers = workers,
              .augmentations = {[](const MutableImage&, const SampleKey&) { throw 5; }}});
    CHECK_THROWS_AS(odd->next(), int);
  }
}

TEST_CASE("a user's transform sees each image once, in place", "[data]") {
  const auto white = [](const MutableImage& image, const SampleKey& place) {
    const auto bytes = image.height * image.width * image.channels;
    std::fill(image.pixels, image.pixels + bytes, static_cast<uint8_t>(place.sample));
  };
  const auto loader = make({.workers = 2, .augmentations = {white}});
  const auto batch = plain(*loader->next());
  for (size_t i = 0; i < 8; ++i) {
    const auto expected = static_cast<char>(batch.classes[i]);
    const size_t bytes = batch.pixels.size() / 8;
    CHECK(batch.pixels.substr(i * bytes, bytes) == std::string(bytes, expected));
  }
}

TEST_CASE("the ranks' batches are slices of the batches of one", "[data]") {
  for (const bool training : {true, false}) {
    const auto whole = rest_of_epoch(*make({.training = training}));
    for (const int64_t ranks : {2, 3}) {
      std::vector<std::vector<PlainBatch>> of_rank;
      for (int64_t rank = 0; rank < ranks; ++rank) {
        of_rank.push_back(
            rest_of_epoch(*make({.training = training, .rank = rank, .world_size = ranks})));
        REQUIRE(of_rank.back().size() == whole.size());
      }
      for (size_t b = 0; b < whole.size(); ++b) {
        std::vector<int64_t> together;
        std::string pixels;
        for (const auto& batches : of_rank) {
          together.insert(together.end(), batches[b].classes.begin(), batches[b].classes.end());
          pixels += batches[b].pixels;
        }
        CHECK(together == whole[b].classes);
        CHECK(pixels == whole[b].pixels);
      }
    }
  }
}

TEST_CASE("a rank's share may lose all its samples", "[data]") {
  const auto loader = make({.size = 8,
                            .shuffle = false,
                            .broken = 0,
                            .on_bad_sample = OnBadSample::skip,
                            .rank = 0,
                            .world_size = 8});
  const auto batch = plain(*loader->next());
  CHECK(batch.shape == std::vector<int64_t>{0, 96, 96, 3});
  CHECK(batch.classes.empty());
}

TEST_CASE("chosen rows alone take part", "[data]") {
  const auto loader = make({.batch = 4, .shuffle = false, .rows = "7,90-92,5"});
  CHECK(loader->samples_per_epoch() == 5);
  CHECK(classes(rest_of_epoch(*loader)) == std::vector<int64_t>{7, 90, 91, 92, 5});
  CHECK_THROWS_AS(make({.rows = "101"}), UserError);
}

TEST_CASE("a row that is named twice is drawn twice", "[data]") {
  const auto loader = make({.batch = 2, .shuffle = false, .rows = "5,5"});
  const auto batch = plain(*loader->next());
  CHECK(batch.classes == std::vector<int64_t>{5, 5});
  const size_t half = batch.pixels.size() / 2;
  CHECK((batch.pixels.substr(0, half) != batch.pixels.substr(half)));
}

TEST_CASE("ten thousand short epochs leave no thread and no memory", "[data][slow]") {
  make({})->start(0, 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // until the last threads are gone
  const int threads = threads_of_this_process();
  const auto loader = make({.size = 8, .batch = 8, .workers = 2});
  const auto run = [&](int epochs) {
    for (int i = 0; i < epochs; ++i) {
      while (loader->next()) {
      }
    }
    return current_memory();
  };
  const int64_t before = run(1000);
  CHECK(run(9000) < before + (int64_t{8} << 20));
  CHECK(eventually([&] { return threads_of_this_process() <= threads + 2; }));
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

TEST_CASE("a subset for evaluation is spread evenly over the samples", "[data]") {
  const auto taken = [](Setup setup) {
    setup.training = setup.shuffle = setup.drop_last = false;
    const auto loader = make(setup);
    auto all = classes(rest_of_epoch(*loader));
    if (setup.world_size == 1) CHECK(loader->samples_per_epoch() == std::ssize(all));
    CHECK(classes(rest_of_epoch(*loader)) == all);
    return all;
  };
  using Samples = std::vector<int64_t>;
  CHECK(taken({.size = 20, .batch = 2, .subset = 2}) == Samples{2, 7, 12, 17});
  CHECK(taken({.size = 10, .batch = 4, .subset = 1}) == Samples{1, 3, 6, 8});
  CHECK(taken({.size = 20, .batch = 2, .subset = 1, .rows = "0-9,15"}) == Samples{2, 8});
  CHECK(taken({.size = 10, .batch = 4, .subset = 3}).size() == 10);

  Samples shares;
  for (const int64_t rank : {0, 1})
    for (const int64_t sample :
         taken({.size = 20, .batch = 2, .subset = 2, .rank = rank, .world_size = 2}))
      shares.push_back(sample);
  std::ranges::sort(shares);
  CHECK(shares == Samples{2, 7, 12, 17});

  const auto training = make({.size = 20, .batch = 2, .shuffle = false, .subset = 2});
  CHECK(classes(rest_of_epoch(*training)) == Samples{0, 1, 2, 3});
}

TEST_CASE("a subset of more than an epoch is warned of once", "[data]") {
  const TemporaryFolder folder;
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
  const RawBatch kept = *loader->next();
  const at::Tensor part = loader->next()->images.select(0, 1);
  const PlainBatch before = plain(kept);
  const at::Tensor part_before = part.clone();
  std::set<const void*> memory;
  for (int epoch = 0; epoch < 3; ++epoch) {
    while (const auto batch = loader->next()) memory.insert(batch->images.const_data_ptr());
  }
  CHECK((plain(kept) == before));
  CHECK(at::equal(part, part_before));
  CHECK(memory.size() <= 6);
}

TEST_CASE("batches are pinned where asked and there is a GPU", "[data][gpu]") {
  const bool cuda = test::has_gpu();
  const auto reference = make({.workers = 0}), loader = make({.pin = cuda});
  const RawBatch batch = *loader->next();
  CHECK(batch.images.is_pinned() == cuda);
  CHECK(at::equal(copy_to(resolve_device("auto", {}), batch.images).cpu(), batch.images));
  CHECK(batch.target.classes.is_pinned() == cuda);
  CHECK((plain(batch) == plain(*reference->next())));
}

TEST_CASE("a batch outlives its loader", "[data]") {
  auto loader = make({.training = false});
  const RawBatch batch = *loader->next();
  const PlainBatch before = plain(batch);
  rest_of_epoch(*loader);
  loader.reset();
  CHECK((plain(batch) == before));
}

TEST_CASE("a loader is destroyed at any moment and leaves no thread", "[data]") {
  make({})->start(0, 0);  // a sanitizer's own thread begins with the first one
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const int before = threads_of_this_process();
  for (int i = 0; i < 20; ++i) {
    const auto loader = make({.workers = 3, .shuffle = false, .broken = i % 2 == 0 ? 30 : -1});
    if (i % 4 == 1) continue;
    loader->start(0, i % 3);
    if (i % 4 == 2) loader->next();
    if (i % 4 == 3) loader->start(1, 0);
  }
  CHECK(eventually([&] { return threads_of_this_process() <= before; }));
}

TEST_CASE("what the loader's threads do is seen as named ranges", "[data]") {
  const auto count = [](bool augmented, bool numbers) {
    const RangeCounts counts;
    {
      const auto loader = make_image_loader(
          std::make_shared<CountingSource>(24),
          {.transform = {.kind = Transform::Kind::random_resized_crop, .size = {32, 32}},
           .augmentations = augmented ? std::vector<SampleTransform>(
                                            2, [](const MutableImage&, const SampleKey&) {})
                                      : std::vector<SampleTransform>{},
           .normalization = {{0, 0, 0}, {1, 1, 1}},
           .training = false,
           .output = numbers ? ElementType::float32 : ElementType::uint8},
          {.batch_size = 8, .num_workers = 2});
      while (loader->next()) {
      }
    }
    return counts.all();
  };
  auto counts = count(true, true);
  CHECK(counts["read"] == 24);
  CHECK(counts["decode"] == 24);
  CHECK(counts["augment"] == 24);
  CHECK(counts["collate"] == 24 + 3);  // each image's numbers, and the batches
  CHECK(counts["wait"] >= 1);
  counts = count(false, false);
  CHECK(counts["read"] == 24);
  CHECK(counts["augment"] == 0);
  CHECK(counts["collate"] == 3);
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

}  // namespace composer::loader_test
