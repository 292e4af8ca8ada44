// Shares of which samples could not be read.
#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "base/error.h"
#include "nn/network/batch.h"
#include "tests/ranks/double_run.h"

namespace composer::lost_samples_test {

using namespace composer::test;
using Catch::Matchers::Contains;

namespace {

/// By batch of the epoch: the places in the batch of all ranks whose samples are lost.
using Lost = std::map<int64_t, std::set<int64_t>>;

/// A rank's share of the batches of another loader, without the lost samples.
class LosingLoader : public Loader {
 public:
  LosingLoader(std::shared_ptr<Loader> whole, Lost lost, Ranks ranks)
      : whole_(std::move(whole)), lost_(std::move(lost)), ranks_(std::move(ranks)) {}

  int64_t batches_per_epoch() const override { return whole_->batches_per_epoch(); }
  int64_t samples_per_epoch() const override { return whole_->samples_per_epoch(); }
  ImageSize image_size() const override { return whole_->image_size(); }
  const Normalization& normalization() const override { return whole_->normalization(); }
  void start(int64_t epoch, int64_t batch, SizePlan plan) override {
    whole_->start(epoch, batch, std::move(plan));
    batch_ = batch;
  }
  void add_transform(SampleTransform transform) override {
    whole_->add_transform(std::move(transform));
  }
  std::optional<RawBatch> next() override {
    auto batch = whole_->next();
    if (!batch) {
      batch_ = 0;
      return batch;
    }
    const auto& lost = lost_[batch_++];
    std::vector<int64_t> left;
    for (int64_t place = begin(*batch, 0); place < begin(*batch, 1); ++place)
      if (!lost.contains(place)) left.push_back(place);
    const auto places = at::tensor(left, at::kLong);
    batch->images = batch->images.index_select(0, places);
    batch->target.classes = batch->target.classes.index_select(0, places);
    batch->share.reset();
    return batch;
  }

 private:
  int64_t begin(const RawBatch& batch, int64_t ahead) const {
    return share_begin(batch.samples(), ranks_.rank() + ahead, ranks_.size());
  }

  std::shared_ptr<Loader> whole_;
  Lost lost_;
  Ranks ranks_;
  int64_t batch_ = 0;
};

Setup losing(const Lost& lost) {
  Setup setup;
  setup.batches = 20;
  setup.change = [lost](TrainerParts& parts) {
    parts.train_loader =
        std::make_shared<LosingLoader>(noise_loader(100, 12, true, {}), lost, parts.ranks);
  };
  setup.add = [](Trainer& trainer) { trainer.add<InDouble>("in_double"); };
  return setup;
}

}  // namespace

TEST_CASE("ranks whose shares lost samples, or all of them, train as one", "[ranks]") {
  // Of batch 1 all that the first rank of two has, or the first two of four.
  const auto setup = losing({{1, {0, 1, 2, 3, 4, 5}}, {3, {2, 7}}});
  const auto one = train_on(1, setup);
  CHECK(one.time.sample == 2 * (100 - 8) + 12 + 6);
  for (const int64_t size : {2, 3, 4}) {
    CAPTURE(size);
    const auto several = train_on(size, setup);
    CHECK(difference(several, one) < 1e-9);
    CHECK(several.time.sample == one.time.sample);
    for (size_t i = 0; i < one.losses.size(); ++i)
      CHECK(several.losses[i] == Approx(one.losses[i]).epsilon(1e-9));
  }
}

TEST_CASE("a batch that keeps fewer samples than ranks ends the run", "[ranks]") {
  const auto setup = losing({{8, {0, 1, 2}}});
  CHECK_NOTHROW(train_on(1, setup));
  CHECK_THROWS_WITH(train_on(2, setup),
                    "of a batch only 1 sample could be read, too few for 2 ranks");
}

TEST_CASE("what is left of a batch is shared out in its order", "[ranks]") {
  const std::vector<int64_t> counts{3, 0, 2};
  std::mutex checking;
  in_ranks(3, [&](const Ranks& ranks) {
    const int64_t first = ranks.rank() == 0 ? 0 : 3,
                  own = counts[static_cast<size_t>(ranks.rank())];
    const auto classes = at::arange(first, first + own, at::kLong);
    const auto images = classes.to(at::kByte).view({own, 1, 1, 1}).expand({own, 2, 2, 3});
    RawBatch batch;
    batch.images = images, batch.target.classes = classes;
    const auto share = take_share(batch, ranks);
    const std::lock_guard lock(checking);
    const int64_t begin = share_begin(5, ranks.rank(), 3),
                  end = share_begin(5, ranks.rank() + 1, 3);
    CHECK(share.samples == 5);
    CHECK(share.first == begin);
    CHECK(at::equal(batch.target.classes, at::arange(begin, end, at::kLong)));
    CHECK(batch.images.sizes() == at::IntArrayRef({end - begin, 2, 2, 3}));
    CHECK(batch.images[0][1][1][2].item<int64_t>() == begin);
  });
}

TEST_CASE("a share of another number of ranks is not believed", "[ranks]") {
  std::mutex checking;
  in_ranks(2, [&](const Ranks& ranks) {
    RawBatch batch;
    batch.images = at::zeros({4, 1, 1, 3}, at::kByte);
    batch.share = {0, 4, 4, 1};
    const auto share = take_share(batch, ranks);
    const std::lock_guard lock(checking);
    CHECK(share.first == 4 * ranks.rank());
    CHECK(share.samples == 8);
  });
}

TEST_CASE("ranks do not ask each other where the loader tells the share", "[ranks]") {
  in_ranks(2, [](const Ranks& ranks) {
    if (ranks.rank() == 1) return;  // would be missed
    RawBatch batch;
    batch.images = at::zeros({2, 1, 1, 3}, at::kByte);
    batch.share = {3, 2, 7, 2};
    const auto share = take_share(batch, ranks);
    CHECK(share.first == 3);
    CHECK(share.samples == 7);
    batch.images = batch.images.slice(0, 0, 1);
    CHECK_THROWS_WITH(take_share(batch, ranks), Contains("resets RawBatch::share"));
  });
}

}  // namespace composer::lost_samples_test
