#include "data/beton/write.h"

#include <exception>
#include <numeric>

#include "base/error.h"
#include "data/beton/writer.h"
#include "data/files/thread_count.h"
#include "data/index/index_file.h"
#include "data/index/index_location.h"
#include "data/samples/order.h"

namespace composer {
namespace {

constexpr size_t kWaitingBytes = 256 << 20;  // limit of packed images that wait for their turn

struct Packed {
  bool done = false;
  PackedImage image;
  int64_t label = 0;
  std::vector<float> values;
  std::string bad;           ///< why the sample is bad
  std::exception_ptr error;  ///< any other exception
};

/// The crop indices beside the data; null without them.
std::unique_ptr<const IndexTable> known_indices(const Source& source) {
  const auto path = source.indexed_path();
  if (path.empty() || source.remote_stamp()) return nullptr;
  return std::make_unique<const IndexTable>(index_file_of(path), index_stamp_of(path));
}

/// Threads pack samples ahead of their turn; take() returns the samples in order.
class Packers {
 public:
  Packers(const Source& source, const WriteOptions& options, int64_t samples)
      : source_(source), options_(options), samples_(samples), known_(known_indices(source)) {
    const int threads = thread_count(options.num_workers);
    window_ = static_cast<int64_t>(threads) * 32;
    ring_.resize(static_cast<size_t>(window_));
    for (int i = 0; i < threads && i < samples; ++i) threads_.emplace_back([this] { work(); });
  }

  ~Packers() {
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
    }
    room_.notify_all();
    for (auto& thread : threads_) thread.join();
  }

  int64_t sample(int64_t position) const {
    return options_.rows.empty() ? position : options_.rows[static_cast<size_t>(position)];
  }

  Packed take() {
    std::unique_lock lock(mutex_);
    Packed& slot = slot_of(taken_);
    ready_.wait(lock, [&] { return slot.done; });
    Packed packed = std::exchange(slot, {});
    waiting_bytes_ -= packed.image.bytes.size();
    ++taken_;
    lock.unlock();
    room_.notify_all();
    return packed;
  }

 private:
  Packed& slot_of(int64_t position) { return ring_[static_cast<size_t>(position % window_)]; }

  /// The next sample, once there is room for it; nothing at the end.
  std::optional<int64_t> next() {
    std::unique_lock lock(mutex_);
    room_.wait(lock, [this] {
      return stopped_ || begun_ == samples_ || begun_ == taken_ ||
             (begun_ < taken_ + window_ && waiting_bytes_ < kWaitingBytes);
    });
    if (stopped_ || begun_ == samples_) return std::nullopt;
    return begun_++;
  }

  void put(int64_t position, Packed packed) {
    packed.done = true;
    bool wanted;
    {
      const std::lock_guard lock(mutex_);
      waiting_bytes_ += packed.image.bytes.size();
      slot_of(position) = std::move(packed);
      wanted = position == taken_;
    }
    if (wanted) ready_.notify_one();
  }

  void work() {
    ReadScratch scratch;
    ImagePacker packer(options_.pack);
    while (const auto position = next()) {
      Packed packed;
      try {
        const int64_t index = sample(*position);
        StoredImage image = source_.open(index, scratch);
        if (known_) image.index.use(*known_);
        packed.label = source_.label(index);
        packed.values.resize(static_cast<size_t>(source_.num_values()));
        source_.read_values(index, packed.values);
        packed.image = use_image(image, [&] { return packer.pack(image, index, scratch); });
        scratch.give_back(image.size);
      } catch (const RemoteError&) {
        packed.error = std::current_exception();
      } catch (const RunError& error) {
        packed.bad = error.what();
      } catch (...) {
        packed.error = std::current_exception();
      }
      put(*position, std::move(packed));
    }
  }

  const Source& source_;
  const WriteOptions& options_;
  const int64_t samples_;
  const std::unique_ptr<const IndexTable> known_;  // null without an index
  int64_t window_;
  std::mutex mutex_;
  std::condition_variable ready_, room_;
  std::vector<Packed> ring_;  // a sample's slot is its position modulo the window
  int64_t begun_ = 0, taken_ = 0;
  size_t waiting_bytes_ = 0;
  bool stopped_ = false;
  std::vector<std::thread> threads_;
};

void count(const PackedImage& image, WriteReport& report) {
  static constexpr int64_t WriteReport::*kCounts[] = {
      // by Packing
      &WriteReport::passed, &WriteReport::transcoded, &WriteReport::rotated, &WriteReport::encoded,
      &WriteReport::raw};
  ++(report.*kCounts[static_cast<size_t>(image.packing)]);
  if (image.resized) ++report.resized;
}

/// Writes packed images into rows, and treats bad samples as the options say.
class Rows {
 public:
  Rows(BetonWriter& writer, const WriteOptions& options, WriteReport& report)
      : writer_(writer), options_(options), report_(report) {}

  void good(const Packed& packed) {
    const PackedImage& image = packed.image;
    writer_.add(image.is_jpeg(), image.size, image.bytes, packed.label, packed.values);
    count(image, report_);
    last_is_jpeg_ = image.is_jpeg();
    if (options_.index) last_index_ = image.index;
    note_index();
    for (; missing_ > 0; --missing_) again();
  }

  void bad(const std::string& name, const std::string& reason) {
    if (options_.on_bad_sample == OnBadSample::error) throw RunError(name + ": " + reason);
    report_.bad.emplace_back(name, reason);
    if (options_.on_bad_sample == OnBadSample::skip) return;
    if (writer_.rows() == 0)
      ++missing_;
    else
      again();
  }

 private:
  void again() {
    writer_.repeat(writer_.rows() - 1);
    note_index();
  }
  void note_index() {
    if (options_.index && last_is_jpeg_) options_.index(writer_.rows() - 1, last_index_);
  }

  BetonWriter& writer_;
  const WriteOptions& options_;
  WriteReport& report_;
  int64_t missing_ = 0;  // bad samples before the first good one
  bool last_is_jpeg_ = false;
  std::vector<uint8_t> last_index_;
};

void check(const Source& source, const WriteOptions& options) {
  std::vector<std::string> problems;
  const auto refuse = [&](bool wrong, const std::string& problem) {
    if (wrong) problems.push_back(problem);
  };
  const PackOptions& pack = options.pack;
  refuse(pack.jpeg_quality < 1 || pack.jpeg_quality > 100, "jpeg_quality: must be in 1 to 100");
  refuse(!(pack.compress_probability >= 0 && pack.compress_probability <= 1),
         "compress_probability: must be in 0 to 1");
  refuse(pack.max_resolution && *pack.max_resolution < 1, "max_resolution: must be at least 1");
  refuse(pack.smart_threshold && *pack.smart_threshold < 0,
         "smart_threshold: must not be negative");
  refuse(options.num_workers < 0 || options.num_workers > 1024,
         "num_workers: must be in 0 to 1024");
  for (const int64_t row : options.rows) {
    if (row >= 0 && row < source.size()) continue;
    problems.push_back("rows: there is no row " + std::to_string(row) + "; the set has rows 0 to " +
                       std::to_string(source.size() - 1));
    break;
  }
  if (!problems.empty()) throw UserError(std::move(problems));
}

}  // namespace

WriteReport write_beton(const Source& source, const std::filesystem::path& path,
                        const WriteOptions& options) {
  check(source, options);
  const int64_t samples =
      options.rows.empty() ? source.size() : static_cast<int64_t>(options.rows.size());
  WriteReport report;
  BetonWriter writer(path, samples, options.page_size, source.value_names());
  {
    Rows rows(writer, options, report);
    Packers packers(source, options, samples);
    for (int64_t position = 0; position < samples; ++position) {
      Packed packed = packers.take();
      if (packed.error) std::rethrow_exception(packed.error);
      const int64_t sample = packers.sample(position);
      if (packed.bad.empty())
        packed.bad = writer.refusal(packed.image.size, packed.image.bytes.size());
      if (packed.bad.empty())
        rows.good(packed);
      else
        rows.bad(source.name(sample), packed.bad);
      if (options.progress) options.progress(position + 1, samples);
    }
  }
  if (writer.rows() == 0) {
    throw RunError(path.string() + ": not written, for no image can be read" +
                   (report.bad.empty() ? std::string()
                                       : "; the first: " + report.bad.front().first + ": " +
                                             report.bad.front().second));
  }
  report.rows = writer.rows();
  report.bytes = writer.finish();
  return report;
}

WriteReport write_with_side_file(const Source& source, const std::filesystem::path& path,
                                 WriteOptions options, bool side_file) {
  std::optional<IndexWriter> writer;
  if (side_file)
    options.index = [&](int64_t row, const std::vector<uint8_t>& index) {
      if (!writer) writer.emplace(index_file_of(path));
      writer->add(static_cast<uint64_t>(row), index);
    };
  auto report = write_beton(source, path, options);
  std::error_code error;
  if (writer)
    writer->finish(stamp_of(path));
  else
    std::filesystem::remove(index_file_of(path), error);
  return report;
}

std::vector<int64_t> rows_to_write(std::vector<int64_t> rows, int64_t samples,
                                   std::optional<int64_t> subset, std::optional<uint64_t> shuffle) {
  if (subset && rows.empty()) {
    rows.resize(static_cast<size_t>(std::min(*subset, samples)));
    std::iota(rows.begin(), rows.end(), int64_t{0});
  } else if (subset) {
    rows.resize(std::min(rows.size(), static_cast<size_t>(*subset)));
  }
  const int64_t count = rows.empty() ? samples : std::ssize(rows);
  if (!shuffle || count == 0) return rows;
  const Permutation shuffled(count, *shuffle, "data.write.shuffle", 0, 0);
  std::vector<int64_t> ordered;
  for (int64_t i = 0; i < count; ++i)
    ordered.push_back(rows.empty() ? shuffled(i) : rows[static_cast<size_t>(shuffled(i))]);
  return ordered;
}

}  // namespace composer
