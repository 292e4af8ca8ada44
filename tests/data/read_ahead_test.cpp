// Reading ahead: the same batches, sooner.
#include "data/loading/read_ahead.h"

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <new>
#include <set>
#include <thread>

#include "base/error.h"
#include "base/log.h"
#include "base/remote/leaving.h"
#include "data/batches/image_loader.h"
#include "data/beton/source.h"
#include "data/beton/write.h"
#include "nn/network/batch.h"
#include "tests/data/beton_bytes.h"
#include "tests/data/eventually.h"
#include "tests/data/fake_sources.h"
#include "tests/data/plain_batch.h"
#include "tests/files.h"

namespace composer::read_ahead_test {

using namespace composer::test;
using Catch::Matchers::Contains;
using std::chrono::milliseconds;

namespace {

constexpr ReadAheadLimits kAlways{.quick = -1};

/// Files that answer late, and count how often they are read.
class SlowFiles final : public FileSource {
 public:
  SlowFiles(std::shared_ptr<const SampleTable> files, milliseconds delay)
      : FileSource(std::move(files), "", 3), delay_(delay) {}

  FileStamp fetch(int64_t index, std::vector<uint8_t>& bytes,
                  const RoomFor& room_for) const override {
    {
      const std::lock_guard guard(lock_);
      most_at_once_ = std::max(most_at_once_, ++at_once_);
      if (room_for) largest_buffer_ = std::max(largest_buffer_, bytes.capacity());
    }
    if (delay_.count() > 0) std::this_thread::sleep_for(delay_);
    {
      const std::lock_guard guard(lock_);
      --at_once_;
      ++reads_[index];
    }
    return FileSource::fetch(index, bytes, room_for);
  }

  int most_at_once() const {
    const std::lock_guard guard(lock_);
    return most_at_once_;
  }
  /// Bytes that a reader brought along for a file.
  size_t largest_buffer() const {
    const std::lock_guard guard(lock_);
    return largest_buffer_;
  }

  std::map<int64_t, int> reads() const {
    const std::lock_guard guard(lock_);
    return reads_;
  }
  int64_t all_reads() const {
    int64_t sum = 0;
    for (const auto& [index, count] : reads()) sum += count;
    return sum;
  }

 private:
  const milliseconds delay_;
  mutable std::mutex lock_;
  mutable std::map<int64_t, int> reads_;
  mutable int at_once_ = 0, most_at_once_ = 0;
  mutable size_t largest_buffer_ = 0;
};

/// `count` files of a few sizes in 5 unequal classes.
class Folder {
 public:
  explicit Folder(int count) {
    for (int i = 0; i < count; ++i) {
      const auto bytes = make_jpeg(make_picture(24 + i % 7 * 4, 32 + i % 3 * 8));
      paths_.push_back(folder_ / ("files/" + std::to_string(i) + ".jpg"));
      write_file(paths_.back(), {bytes.begin(), bytes.end()});
    }
  }

  std::shared_ptr<SlowFiles> source(milliseconds delay = milliseconds(0)) const {
    SampleTableWriter files;
    for (size_t i = 0; i < paths_.size(); ++i)
      files.add_file(paths_[i], static_cast<int32_t>(i % 7 % 5));
    return std::make_shared<SlowFiles>(std::make_shared<const SampleTable>(files.bytes()), delay);
  }
  const std::string& path(size_t i) const { return paths_[i]; }
  std::string beton() const {
    const auto file = folder_ / "set.beton";
    if (!fs::exists(file)) write_beton(*source(), file, options_of(WriteMode::keep));
    return file;
  }

 private:
  TemporaryFolder folder_;
  std::vector<std::string> paths_;
};

struct Setup {
  OrderKind order = OrderKind::random;
  std::string rows{};
  bool training = true;
  bool drop_last = false;
  int64_t batch = 8;
  int64_t workers = 3;
  OnBadSample on_bad_sample = OnBadSample::error;
  int64_t rank = 0, world_size = 1;
  ReadAheadLimits limits = kAlways;
};

std::unique_ptr<Loader> make(std::shared_ptr<Source> source, const Setup& s) {
  return make_image_loader(
      std::move(source),
      {.transform = {.kind = Transform::Kind::random_resized_crop, .size = {16, 16}},
       .augmentations = {},
       .normalization = {{0, 0, 0}, {1, 1, 1}},
       .order = s.order,
       .rows = s.rows,
       .drop_last = s.drop_last,
       .training = s.training,
       .window_pages = 2,
       .read_ahead = s.limits},
      {.batch_size = s.batch,
       .seed = 17,
       .num_workers = s.workers,
       .on_bad_sample = s.on_bad_sample,
       .crop_index = "off",
       .rank = s.rank,
       .world_size = s.world_size});
}

/// Two epochs, a part of the second again at another size, and once more the end of the first.
std::vector<PlainBatch> batches_of(Loader& loader) {
  loader.start(0, 0);
  auto all = rest_of_epoch(loader);
  const auto add = [&](const std::vector<PlainBatch>& more) {
    all.insert(all.end(), more.begin(), more.end());
  };
  all.push_back(plain(*loader.next()));
  all.push_back(plain(*loader.next()));
  loader.start(1, 3, [](int64_t batch) {
    return batch % 2 == 0 ? ImageSize{8, 12} : ImageSize{20, 20};
  });
  add(rest_of_epoch(loader));
  loader.start(0, loader.batches_per_epoch());
  add(rest_of_epoch(loader));
  add(rest_of_epoch(loader));
  loader.start(0, 2);
  add(rest_of_epoch(loader));
  return all;
}

/// With reading ahead, and without, which a loader without threads does not do.
void check_same(const std::function<std::shared_ptr<Source>()>& source, Setup setup) {
  const auto ahead = batches_of(*make(source(), setup));
  setup.workers = 0;
  CHECK(ahead == batches_of(*make(source(), setup)));
}

void check_all_setups(const std::function<std::shared_ptr<Source>()>& source) {
  for (const auto order : {OrderKind::sequential, OrderKind::random, OrderKind::quasi_random,
                           OrderKind::class_balanced}) {
    INFO("order " << static_cast<int>(order));
    check_same(source, {.order = order});
    check_same(source, {.order = order, .rows = "0-20,30,35-"});
    check_same(source, {.order = order, .training = false, .batch = 13});
    check_same(source, {.order = order, .drop_last = true, .batch = 11, .workers = 1});
    for (const int64_t rank : {0, 1, 2})
      check_same(source, {.order = order, .batch = 10, .rank = rank, .world_size = 3});
  }
  // Fewer samples than ranks at the end of an evaluation.
  check_same(source, {.rows = "0-24", .training = false, .batch = 12, .rank = 0, .world_size = 2});
}

int threads_of_this_process() {
  return static_cast<int>(
      std::distance(fs::directory_iterator("/proc/self/task"), fs::directory_iterator()));
}

}  // namespace

TEST_CASE("files that are read ahead give the same batches in every order", "[data]") {
  const Folder folder(64);
  check_all_setups([&] { return folder.source(); });
  check_same([&] { return folder.source(milliseconds(1)); }, {.limits = {}});
}

TEST_CASE("a .beton file that is read ahead gives the same batches in every order", "[data]") {
  const Folder folder(64);
  check_all_setups([&] { return std::make_shared<BetonSource>(folder.beton(), 3); });
}

TEST_CASE("slow files are read by more threads than decode them", "[data]") {
  const Folder folder(300);
  const auto source = folder.source(milliseconds(10));
  const auto loader = make(source, {.batch = 20, .workers = 2, .limits = {}});
  loader->start(0, 0);
  for (int epoch = 0; epoch < 3; ++epoch) rest_of_epoch(*loader);
  CHECK(source->most_at_once() >= 4 * 2);
}

TEST_CASE("files that are quick to read are read by the threads that decode them", "[data]") {
  const Folder folder(60);
  const auto source = folder.source();
  const auto loader = make(source, {.workers = 2, .limits = {.quick = 20}});
  loader->start(0, 0);
  for (int epoch = 0; epoch < 3; ++epoch) rest_of_epoch(*loader);
  CHECK(source->most_at_once() <= 2);
  CHECK(source->largest_buffer() == 0);
}

TEST_CASE("each file is read once an epoch, and none of an epoch that is not wanted", "[data]") {
  const Folder folder(100);
  for (const bool slow : {false, true}) {
    const auto source = folder.source(milliseconds(slow ? 2 : 0));
    const auto loader = make(source, {.training = false});
    for (int epoch = 1; epoch <= 3; ++epoch) {
      rest_of_epoch(*loader);
      std::this_thread::sleep_for(milliseconds(10));
      const auto reads = source->reads();
      CHECK(reads.size() == 100);
      for (const auto& [index, count] : reads) CHECK(count == epoch);
    }
  }
}

TEST_CASE("no more is read ahead than fits", "[data]") {
  const Folder folder(100);
  const auto size = static_cast<uint64_t>(fs::file_size(folder.path(0)));
  const auto read_of = [&](ReadAheadLimits limits, int64_t wanted = 0) {
    const auto source = folder.source();
    const auto loader = make(source, {.batch = 2, .workers = 1, .limits = limits});
    loader->start(0, 0);
    loader->next();
    std::this_thread::sleep_for(milliseconds(50));
    eventually([&] { return source->all_reads() >= wanted; });
    return source->all_reads();
  };
  const int64_t taken = 2 + 3 * 2;  // the batch, and those that are prefetched
  CHECK(read_of({.samples = 10, .quick = -1}) <= taken + 10 + 1);
  CHECK(read_of({.bytes = 5 * size, .quick = -1}) <= taken + 10 + 1);
  CHECK(read_of({.quick = -1}, 501) > 500);  // of several epochs
}

TEST_CASE("files that are missing are not looked for ever further ahead", "[data]") {
  log::quiet();
  const Folder folder(100);
  for (size_t i = 0; i < 100; ++i) fs::remove(folder.path(i));
  const auto source = folder.source();
  const auto loader = make(
      source, {.batch = 2, .workers = 1, .limits = {.samples = 10, .threads = 2, .quick = -1}});
  loader->start(0, 0);
  CHECK_THROWS(loader->next());
  std::this_thread::sleep_for(milliseconds(50));
  CHECK(source->all_reads() <= 2 + 3 * 2 + 10 + 2);
}

TEST_CASE("large files among small ones: they are read ahead once there is room", "[data]") {
  const Folder folder(60);
  // Trailing bytes are no part of an image. The second group fits one at a time.
  for (size_t i = 0; i < 60; ++i) {
    if (i % 10 == 9) fs::resize_file(folder.path(i), 700'000);
  }
  const auto loader_of = [&](const std::shared_ptr<SlowFiles>& source) {
    return make(source, {.order = OrderKind::sequential,
                         .batch = 2,
                         .workers = 1,
                         .limits = {.bytes = 1'000'000, .threads = 1, .quick = -1}});
  };
  const auto source = folder.source();
  const auto loader = loader_of(source);
  loader->start(0, 0);
  loader->next();
  // The second large one has to wait for the first to be used, and those behind it with it.
  CHECK(eventually([&] { return source->reads().size() >= 20; }));
  std::this_thread::sleep_for(milliseconds(50));
  CHECK(source->reads().rbegin()->first == 19);
  check_same([&] { return folder.source(); },
             {.order = OrderKind::sequential, .limits = {.bytes = 1'000'000, .quick = -1}});
}

TEST_CASE("the buffer of a rare large file is not used for small ones", "[data]") {
  const Folder folder(60);
  fs::resize_file(folder.path(45), 4'000'000);  // behind some that show what is usual
  const auto source = folder.source();
  const auto loader = make(source, {.order = OrderKind::sequential});
  loader->start(0, 0);
  for (int epoch = 0; epoch < 4; ++epoch) rest_of_epoch(*loader);
  CHECK(source->largest_buffer() < 2'000'000);
}

TEST_CASE("one read that is far off moves the mean of waits a little, either way", "[data]") {
  const ReadAheadLimits limits{.quick = 1e-4};
  CHECK(moved_wait(1e-4, 1e3, limits, 8) == Approx(1e-4 + 3e-4 / 8));
  CHECK(moved_wait(1e-4, -1e3, limits, 8) == Approx(1e-4 - 1e-4 / 8));
}

TEST_CASE("a file that cannot be read ahead is a bad sample as ever", "[data]") {
  log::quiet();
  const Folder folder(40);
  fs::remove(folder.path(20));
  write_file(folder.path(31), "no image");
  const auto source = [&] { return folder.source(); };
  for (const auto on_bad_sample : {OnBadSample::skip, OnBadSample::replace}) {
    check_same(source, {.on_bad_sample = on_bad_sample});
    check_same(source, {.order = OrderKind::class_balanced, .on_bad_sample = on_bad_sample});
  }
  for (const int64_t workers : {0, 3}) {
    const auto loader = make(source(), {.order = OrderKind::sequential, .workers = workers});
    loader->start(0, 0);
    CHECK(loader->next());
    CHECK(loader->next());
    CHECK_THROWS_WITH(loader->next(), folder.path(20) +
                                          ": cannot open the file: No such file or directory; "
                                          "--on_bad_sample skip leaves such samples out");
    loader->start(0, 3);
    CHECK_THROWS_WITH(loader->next(), Contains(folder.path(31)));
    loader->start(0, 4);
    CHECK(loader->next());
  }
}

TEST_CASE("a loader that reads ahead ends at any moment and leaves no thread", "[data]") {
  const Folder folder(60);
  make(folder.source(), {})->start(0, 0);  // a sanitizer's own thread begins with the first one
  std::this_thread::sleep_for(milliseconds(50));
  const int before = threads_of_this_process();
  for (int i = 0; i < 24; ++i) {
    std::shared_ptr<Source> source = folder.source(milliseconds(i % 3));
    if (i % 4 == 0) source = std::make_shared<BetonSource>(folder.beton(), 3);
    const auto loader = make(source, {.limits = i % 2 == 0 ? kAlways : ReadAheadLimits{}});
    loader->start(0, i % 3);
    for (int batch = 0; batch < i % 5; ++batch) loader->next();
    for (int start = 0; start < i % 6; ++start) loader->start(start, start);
    if (i % 6 == 5) loader->next();
  }
  CHECK(eventually([&] { return threads_of_this_process() <= before; }));
}

namespace {

/// All but the first files come when nobody waits for them any more, or too late.
class SilentFiles final : public FileSource {
 public:
  static constexpr int64_t kFirst = 8;

  explicit SilentFiles(const SampleTableWriter& files)
      : FileSource(std::make_shared<const SampleTable>(files.bytes()), "", 3) {}

  FileStamp fetch(int64_t index, std::vector<uint8_t>& bytes,
                  const RoomFor& room_for) const override {
    std::this_thread::sleep_for(milliseconds(5));
    if (index < kFirst) return FileSource::fetch(index, bytes, room_for);
    asked = true;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!LeaveWhen::asked() && !late) {
      late = std::chrono::steady_clock::now() > end;
      std::this_thread::sleep_for(milliseconds(1));
    }
    throw RunError("it did not come");
  }
  mutable std::atomic<bool> asked{false}, late{false};
};

}  // namespace

TEST_CASE("the end of a loader does not wait for what readers wait for", "[data]") {
  const Folder folder(40);
  SampleTableWriter files;
  for (size_t i = 0; i < 40; ++i) files.add_file(folder.path(i), 0);
  const auto source = std::make_shared<SilentFiles>(files);
  {
    const auto loader = make(source, {.order = OrderKind::sequential, .workers = 1});
    loader->start(0, 0);
    loader->next();
    CHECK(eventually([&] { return source->asked.load(); }));
    std::this_thread::sleep_for(milliseconds(50));  // the loader's thread comes to wait for it, too
  }
  CHECK_FALSE(source->late);
}

TEST_CASE("ranges are joined where they are near, and cut where they are long", "[data]") {
  const auto pieces = merged({{0, 900, 1000}, {1, 0, 5}, {0, 0, 100}, {0, 105, 120}, {0, 50, 60}},
                             /*gap=*/10, /*most=*/90);
  std::vector<std::vector<uint64_t>> found;
  for (const auto& piece : pieces)
    found.push_back({static_cast<uint64_t>(piece.file), piece.begin, piece.end});
  CHECK(found == std::vector<std::vector<uint64_t>>{
                     {0, 0, 90}, {0, 90, 120}, {0, 900, 990}, {0, 990, 1000}, {1, 0, 5}});
  CHECK(merged({}, 1, 1).empty());
}

namespace {

/// Remembers what was to be brought. Once closed, its table is as slow as can be.
class WatchedBeton final : public BetonSource {
 public:
  using BetonSource::BetonSource;

  void bring(const Extent& extent) const override {
    {
      const std::lock_guard guard(lock_);
      brought_.push_back(extent);
    }
    BetonSource::bring(extent);
  }
  std::optional<Extent> extent(int64_t index, bool whole_page) const override {
    if (closed) late = !eventually([&] { return !closed.load(); });
    if (index % 16 == fails_at) throw std::bad_alloc();
    return BetonSource::extent(index, whole_page);
  }
  mutable std::atomic<bool> closed{false}, late{false};
  int64_t fails_at = -1;  ///< of each 16 samples

  std::vector<Extent> brought() const {
    const std::lock_guard guard(lock_);
    return brought_;
  }

 private:
  mutable std::mutex lock_;
  mutable std::vector<Extent> brought_;
};

/// Pixels of 40 x 40 in pages of 64 KiB: 13 samples a page.
std::string pixels_in_pages(const TemporaryFolder& folder, int samples) {
  TestBeton spec;
  spec.page_size = 1 << 16;
  spec.fields = {{"image", 2, {}, ""}, {"label", 1, {}, ""}};
  for (int i = 0; i < samples; ++i) spec.rows.push_back({raw_image(40, 40, i), int64_t{i}});
  const auto file = folder / "pages.beton";
  write_file(file, beton_bytes(spec).file);
  return file;
}

}  // namespace

TEST_CASE("all of a .beton file is brought; of a quasi-random order in whole pages, each once",
          "[data]") {
  const TemporaryFolder folder;
  const auto path = pixels_in_pages(folder, 400);
  for (const auto order : {OrderKind::sequential, OrderKind::random, OrderKind::quasi_random}) {
    INFO("order " << static_cast<int>(order));
    const auto source = std::make_shared<WatchedBeton>(path, 3);
    // Not in training: exactly one epoch. All is brought while the first batches are looked at.
    const auto loader = make(source, {.order = order, .training = false, .workers = 1});
    loader->start(0, 0);
    loader->next();
    const auto bytes_brought = [&] {
      uint64_t sum = 0;
      for (const auto& piece : source->brought()) sum += piece.bytes();
      return sum;
    };
    eventually([&] { return bytes_brought() >= 350 * 4800; });
    while (const auto batch = loader->next()) {
    }
    std::set<uint64_t> pages;
    uint64_t bytes = 0;
    for (const auto& piece : source->brought()) {
      bytes += piece.bytes();
      for (uint64_t at = piece.begin; at < piece.end; at += 4096) pages.insert(at / 65536);
    }
    const auto data_pages = std::set<uint64_t>([&] {
      std::set<uint64_t> all;
      for (int64_t i = 0; i < source->size(); ++i)
        all.insert(static_cast<uint64_t>(source->page(i)));
      return all;
    }());
    CHECK(std::includes(data_pages.begin(), data_pages.end(), pages.begin(), pages.end()));
    CHECK(pages.size() + 4 >= data_pages.size());
    CHECK(bytes <= data_pages.size() * 65536);
    if (order == OrderKind::sequential) CHECK(source->brought().size() <= 12);
  }
}

TEST_CASE("a sample of which cannot be found out where it lies changes no batch", "[data]") {
  const TemporaryFolder folder;
  const auto path = pixels_in_pages(folder, 400);
  check_same(
      [&] {
        auto source = std::make_shared<WatchedBeton>(path, 3);
        source->fails_at = 7;
        return source;
      },
      {.batch = 40});
}

TEST_CASE("a part of a cut file cannot be brought, which is no error yet", "[data]") {
  const TemporaryFolder folder;
  const auto path = pixels_in_pages(folder, 100);
  const BetonSource source(path, 3);
  const uint64_t all = fs::file_size(path);
  fs::resize_file(path, all / 2);
  source.bring({.begin = 0, .end = all});
  ReadScratch scratch;
  const auto last = source.open(99, scratch);
  CHECK_THROWS_WITH(use_image(last, [&] { return last.bytes[0]; }), Contains("was cut off"));
}

TEST_CASE("a file of JPEGs that is cut, with its table, ends a run that reads ahead", "[data]") {
  log::quiet();
  const TemporaryFolder folder;
  const auto path = (folder.path() / "set.beton").string();
  const Folder photos(64);
  write_beton(*photos.source(), path, options_of(WriteMode::keep));
  const auto loader = make(std::make_shared<BetonSource>(path, 3), {});
  loader->start(0, 0);
  loader->next();
  fs::resize_file(path, fs::file_size(path) / 2);
  const auto epochs = [&] {
    for (int epoch = 0; epoch < 3; ++epoch) rest_of_epoch(*loader);
  };
  CHECK_THROWS_WITH(epochs(), Contains("was cut off"));
}

TEST_CASE("nobody but a reader waits for a .beton file's table", "[data]") {
  const TemporaryFolder folder;
  const auto source = std::make_shared<WatchedBeton>(pixels_in_pages(folder, 100), 3);
  source->closed = true;
  {
    const auto loader = make(source, {.training = false, .workers = 1});
    for (int epoch = 0; epoch < 2; ++epoch) rest_of_epoch(*loader);
    loader->start(5, 3);
    loader->next();
    source->closed = false;
  }
  CHECK_FALSE(source->late);
}

TEST_CASE("the walk ahead knows the samples of every rank's batches, and skips what is passed",
          "[data]") {
  const Folder folder(23);
  const auto source = folder.source();
  const Sampler sampler(*source, {.kind = OrderKind::random, .subset = {}, .seed = 3});
  const LoaderOptions options{.batch_size = 10, .rank = 1, .world_size = 3};
  SampleCursor walk(sampler, options, 3, /*all_epochs=*/false);
  const int64_t begin = walk.restart(4, 1);
  const auto fourth = sampler.epoch(4), fifth = sampler.epoch(5);
  std::vector<int64_t> expected;  // of batches of 10, 10 and 3: 3, 3 and 1 at 3, 13 and 21
  for (const int64_t position : {13, 14, 15, 21}) expected.push_back(fourth(position));
  for (size_t i = 0; i < expected.size(); ++i) {
    const auto next = walk.next();
    REQUIRE(next);
    CHECK(next->sample == expected[i]);
    CHECK(next->sequence == begin + static_cast<int64_t>(i));
  }
  CHECK_FALSE(walk.next());
  CHECK_FALSE(walk.ask(4));
  CHECK(walk.ask(5));
  walk.pass(begin + 6);  // two of the next epoch
  const auto next = walk.next();
  REQUIRE(next);
  CHECK(next->sequence == begin + 6);
  CHECK(next->sample == fifth(5));
  CHECK(walk.restart(0, 3) > begin + 6);
  CHECK_FALSE(walk.next());
  CHECK(walk.ask(1));
  CHECK(walk.next()->sample == sampler.epoch(1)(3));
}

}  // namespace composer::read_ahead_test
