// A loader's batches on their way to the device. On a GPU the next one is fetched ahead.
#include "composer/run/feed.h"

#include <catch2/catch.hpp>
#include <deque>
#include <string>
#include <variant>
#include <vector>

#include "base/error.h"
#include "stopped_run.h"
#include "tests/gpu.h"
#include "tiny_run.h"

namespace composer::feed_test {

namespace {

/// Hands out what it was given; an empty one is the end of an epoch, an error is thrown.
struct Listed : Loader {
  using Entry = std::variant<std::monostate, RawBatch, std::string>;
  explicit Listed(std::deque<Entry> entries) : entries(std::move(entries)) {}

  int64_t batches_per_epoch() const override { return 1; }
  int64_t samples_per_epoch() const override { return 1; }
  ImageSize image_size() const override { return {2, 2}; }
  const Normalization& normalization() const override { return none; }
  void start(int64_t, int64_t, SizePlan) override {}
  void add_transform(SampleTransform) override {}
  std::optional<RawBatch> next() override {
    ++asked;
    REQUIRE_FALSE(entries.empty());
    const auto entry = entries.front();
    entries.pop_front();
    if (const auto* error = std::get_if<std::string>(&entry)) throw RunError(*error);
    const auto* batch = std::get_if<RawBatch>(&entry);
    return batch == nullptr ? std::nullopt : std::optional(*batch);
  }

  std::deque<Entry> entries;
  int asked = 0;
  Normalization none;
};

RawBatch batch_of(int64_t samples, int64_t side, int first) {
  RawBatch batch;
  batch.images =
      at::arange(samples * side * side * 3).add(first).view({samples, side, side, 3}).to(at::kByte);
  batch.target.classes = at::arange(samples) + first;
  return batch;
}

bool same(const std::optional<RawBatch>& found, const RawBatch& expected, at::Device device) {
  return found && found->images.device().type() == device.type() &&
         found->target.classes.device().type() == device.type() &&
         at::equal(found->images.cpu(), expected.images) &&
         at::equal(found->target.classes.cpu(), expected.target.classes);
}

struct Counting : TinyLoader {
  Counting() : TinyLoader(32, 8) {}
  std::optional<RawBatch> next() override {
    ++asked;
    return TinyLoader::next();
  }
  int asked = 0;
};

/// How often the loader had been asked by the end of each batch.
struct Asked : Callback {
  explicit Asked(std::shared_ptr<Counting> loader) : loader(std::move(loader)) {}
  void batch_end(const State&, Logger&, RunControl&) override { counts.push_back(loader->asked); }
  std::shared_ptr<Counting> loader;
  std::vector<int> counts;
};

/// Ends with an error where a batch is asked for that is not there.
class FailsAt : public TinyLoader {
 public:
  explicit FailsAt(int64_t batch) : TinyLoader(32, 8), batch_(batch) {}
  std::optional<RawBatch> next() override {
    auto batch = TinyLoader::next();
    if (batch && given_++ == batch_) throw RunError("the disk is gone");
    return batch;
  }

 private:
  int64_t batch_, given_ = 0;
};

}  // namespace

TEST_CASE("batches come in order, of any size, with the end of an epoch and errors in their turn",
          "[feed][gpu]") {
  const bool ahead = GENERATE(false, true);
  for (const auto device : test::devices()) {
    CAPTURE(device, ahead);
    // The third is too large to be copied from memory that is not pinned without a wait.
    const std::vector<RawBatch> batches{batch_of(4, 2, 0), batch_of(2, 5, 9), batch_of(30, 128, 3)};
    Listed loader({batches[0], batches[1], {}, batches[2], "the disk is gone", batches[0]});
    Feed feed(loader, device, classification());
    const auto fetch_ahead = [&] {
      if (ahead) feed.fetch_ahead();
    };
    CHECK(same(feed.next(), batches[0], device));
    fetch_ahead();
    fetch_ahead();  // there is one already
    CHECK(same(feed.next(), batches[1], device));
    fetch_ahead();
    CHECK_FALSE(feed.next());
    CHECK(same(feed.next(), batches[2], device));
    CHECK_NOTHROW(fetch_ahead());
    CHECK_THROWS_WITH(feed.next(), "the disk is gone");
    CHECK(same(feed.next(), batches[0], device));
    CHECK(loader.asked == 6);
  }
}

TEST_CASE("values that the loss is not about are told before they are copied", "[feed][gpu]") {
  const auto labels = make_objective("binary_cross_entropy", {}, 2);
  const auto with_values = [](float value) {
    RawBatch batch = batch_of(2, 2, 0);
    batch.target.classes.reset();
    batch.target.values = at::tensor({0.F, 1.F, 0.5F, value}).view({2, 2});
    return batch;
  };
  for (const auto device : test::devices()) {
    CAPTURE(device);
    Listed loader({with_values(1), with_values(1.5F), with_values(0), with_values(-0.1F)});
    Feed feed(loader, device, *labels);
    CHECK(feed.next());
    feed.fetch_ahead();
    CHECK_THROWS_WITH(feed.next(), Catch::Contains("targets from 0 to 1, the data have 1.5"));
    CHECK(feed.next());
    CHECK_THROWS_AS(feed.next(), UserError);
  }
  if (const auto gpu = test::devices().back(); !gpu.is_cpu()) {
    RawBatch batch = with_values(2);
    batch.images = batch.images.to(gpu);
    Listed loader({batch});
    Feed feed(loader, gpu, *labels);
    CHECK_THROWS_AS(feed.next(), UserError);
  }
}

TEST_CASE("a batch is fetched ahead for a GPU alone", "[feed][gpu]") {
  for (const auto device : test::devices()) {
    CAPTURE(device);
    Listed loader({batch_of(4, 2, 0), batch_of(4, 2, 7)});
    Feed feed(loader, device, classification());
    feed.next();
    feed.fetch_ahead();
    CHECK(loader.asked == (device.is_cpu() ? 1 : 2));
  }
}

TEST_CASE("a run fetches ahead on a GPU, but for the batches that it does not train",
          "[feed][gpu]") {
  for (const auto device : test::devices()) {
    CAPTURE(device);
    auto parts = tiny_parts();
    parts.options.device = device.is_cpu() ? "cpu" : "gpu";
    parts.options.max_duration = {6, TimeUnit::batch};
    const auto asked = std::make_shared<Asked>(std::make_shared<Counting>());
    parts.train_loader = asked->loader;
    parts.callbacks.push_back({"asked", asked, subscriptions<Asked>()});
    Trainer(std::move(parts)).fit();
    // The fifth call says that an epoch of four is over.
    CHECK(asked->counts ==
          (device.is_cpu() ? std::vector{1, 2, 3, 4, 6, 7} : std::vector{2, 3, 4, 5, 7, 7}));
  }
}

TEST_CASE("pinned memory is copied before its owner may use it again", "[feed][gpu]") {
  if (!test::has_gpu()) return;
  const auto expected = batch_of(32, 128, 0);
  auto given = expected;
  given.images = expected.images.pin_memory();
  Listed loader({given, batch_of(1, 1, 0)});
  given = {};
  Feed feed(loader, at::kCUDA, classification());
  feed.fetch_ahead();
  CHECK(same(feed.next(), expected, at::kCUDA));
}

TEST_CASE("a run that fetches ahead stops, resumes and fails where one does that does not",
          "[feed][gpu]") {
  if (!test::has_gpu()) return;
  const auto parts_in = [](const std::filesystem::path& folder) {
    auto parts = tiny_parts();
    parts.options.device = "gpu";
    parts.options.run_dir = folder;
    parts.options.run_name = "run";
    parts.options.autoresume = true;
    parts.options.cuda_graph = "false";
    return parts;
  };
  const auto trained = [&](const std::filesystem::path& folder, int64_t stop_at) {
    Trainer trainer(parts_in(folder));
    trainer.add<StopAt>("stop", stop_at);
    trainer.fit();
    return weights_of(trainer).cpu();
  };
  const TemporaryFolder whole, parts;
  const auto expected = trained(whole.path(), -1);
  trained(parts.path(), 3);                                  // the fourth was on its way
  trained(parts.path(), 4);                                  // at the end of an epoch
  CHECK(at::allclose(trained(parts.path(), -1), expected));  // cuDNN may take other algorithms

  const TemporaryFolder failing;
  auto failing_parts = parts_in(failing.path());
  failing_parts.train_loader = std::make_shared<FailsAt>(5);
  failing_parts.options.save_interval = {1, TimeUnit::batch};
  Trainer trainer(std::move(failing_parts));
  CHECK_THROWS_WITH(trainer.fit(), Catch::Contains("the disk is gone"));
  CHECK(trainer.state().time.batch == 5);
  CHECK(at::allclose(trained(failing.path(), -1), expected));
}

namespace {

struct NormFirst : TinyModel {
  at::Tensor forward(const at::Tensor& input) override { return TinyModel::forward(norm(input)); }
  Slot& norm = add<BatchNorm2d>("norm", 3);
};

struct OtherConv : Conv2d {
  using Conv2d::Conv2d;
};

struct LooksAtBatch : Callback {
  void batch_start(const State&, Logger&, RunControl&) override {}
};
struct ChangesBatch : Algorithm {
  void batch_start(State&) override {}
};
struct Later : Algorithm {
  void before_loss(State&) override {}
};

}  // namespace

TEST_CASE("a network gets 16-bit images where autocast would round them and no algorithm sees them",
          "[feed]") {
  State state;
  state.model = std::make_shared<TinyModel>();
  state.device = at::kCUDA;
  state.precision = Precision::amp_bf16;
  const auto type = [&](const Engine& engine) {
    return input_type(engine, state, {8, 8}, 3, Event::after_dataloader, Event::before_forward);
  };
  Engine plain, later, watched, changed;
  later.add(Member<Algorithm>{"later", std::make_shared<Later>(), subscriptions<Later>()});
  watched.add(
      Member<Callback>{"look", std::make_shared<LooksAtBatch>(), subscriptions<LooksAtBatch>()});
  changed.add(
      Member<Algorithm>{"change", std::make_shared<ChangesBatch>(), subscriptions<ChangesBatch>()});
  CHECK(type(plain) == at::kBFloat16);
  CHECK(type(later) == at::kBFloat16);
  CHECK(type(watched) == at::kBFloat16);
  CHECK(type(changed) == at::kFloat);
  state.precision = Precision::amp_fp16;
  CHECK(type(plain) == at::kHalf);
  for (const auto precision : {Precision::fp32, Precision::tf32}) {
    state.precision = precision;
    CHECK(type(plain) == at::kFloat);
  }
  state.precision = Precision::amp_bf16;
  state.device = at::kCPU;
  CHECK(type(plain) == at::kFloat);

  state.device = at::kCUDA;
  state.model = std::make_shared<NormFirst>();
  CHECK(type(plain) == at::kFloat);
  state.model = std::make_shared<TinyModel>();
  state.model->slots().front().set(std::make_shared<OtherConv>(
      Conv2dOptions{.in_channels = 3, .out_channels = 4, .kernel = {3, 3}}));
  CHECK(type(plain) == at::kFloat);
}

}  // namespace composer::feed_test
