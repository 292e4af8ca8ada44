#include "data/index/coefficient_store.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstring>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "data/files/file_lock.h"

namespace composer {
namespace {

namespace fs = std::filesystem;

constexpr char kMagic[16] = "composer coeffs";
constexpr size_t kPlaceBytes = sizeof(uint64_t);
constexpr size_t kMostWaiting = size_t{32} << 20;
constexpr size_t kIndexBytes = size_t{4} << 20;
constexpr double kSeconds =
    1;  // between two looks at the files, and between two savings of the index

struct Header {
  char magic[16];
  FileStamp source;
  uint64_t unused[4];
};
static_assert(sizeof(Header) == 64);

Header header_of(const FileStamp& source) {
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.source = source;
  return header;
}

std::string gigabytes(uint64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g GB", static_cast<double>(bytes) / 1e9);
  return text;
}

}  // namespace

struct CoefficientStore::OpenFile {
  int number;

  explicit OpenFile(const fs::path& path)
      : number(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
  ~OpenFile() {
    if (number >= 0) ::close(number);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
};

CoefficientStore::CoefficientStore(fs::path file, const FileStamp& source, uint64_t limit)
    : file_(std::move(file)),
      source_(source),
      limit_(limit),
      index_(file_.string() + ".index", source, {},
             {.what = "the index of kept coefficients", .segment_bytes = kIndexBytes}) {
  look_again();
  const uint64_t bytes = open_ && is_of_source(open_->number) ? size_of(open_->number) : 0;
  takes_ = bytes < limit_;
  log::info("coefficient_cache: " + file_.string() + " has " + gigabytes(bytes) + ", of at most " +
            gigabytes(limit_));
}

CoefficientStore::~CoefficientStore() {
  {
    const std::lock_guard guard(lock_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (writer_.joinable()) writer_.join();
  index_.save();
}

bool CoefficientStore::is_of_source(int file) const {
  try {
    const Header expected = header_of(source_);
    Header header{};
    return read_at(file, 0, &header, sizeof header) &&
           std::memcmp(&header, &expected, sizeof header) == 0;
  } catch (const RunError&) {
    return false;
  }
}

/// Looks for rows that other processes appended, and for another file under this name.
void CoefficientStore::look_again() {
  index_.look_again();
  auto now = std::make_shared<const OpenFile>(file_);
  const std::lock_guard guard(lock_);
  if (now->number < 0)
    open_ = nullptr;
  else if (!open_ || !same_file(open_->number, now->number))
    open_ = std::move(now);
}

StoredIndex CoefficientStore::find(uint64_t key, const FileStamp& stamp) {
  auto entry = index_.find(key, stamp);
  const double now = steady_seconds();
  double before = looked_;
  if (!entry && now - before >= kSeconds && looked_.compare_exchange_strong(before, now)) {
    look_again();
    entry = index_.find(key, stamp);
  }
  if (!entry || entry->size() < kPlaceBytes) return nullptr;
  found_.fetch_add(1, std::memory_order_relaxed);
  return entry;
}

bool CoefficientStore::read(uint64_t at, std::span<uint8_t> to) const noexcept {
  std::shared_ptr<const OpenFile> open;
  {
    const std::lock_guard guard(lock_);
    open = open_;
  }
  try {
    return open && read_at(open->number, at, to.data(), to.size());
  } catch (const RunError&) {
    return false;
  }
}

void CoefficientStore::keep(uint64_t key, const FileStamp& stamp, std::span<const uint8_t> table,
                            std::span<const uint8_t> rows) {
  Image image{key, stamp, std::vector<uint8_t>(kPlaceBytes), 0};
  image.entry.insert(image.entry.end(), table.begin(), table.end());
  const std::lock_guard guard(lock_);
  if (coming_.contains(key)) return;
  image.begin = waiting_.bytes.size();
  if (image.begin + rows.size() > kMostWaiting) {
    left_out_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  coming_.insert(key);
  waiting_.bytes.insert(waiting_.bytes.end(), rows.begin(), rows.end());
  waiting_.images.push_back(std::move(image));
  if (!writer_.joinable()) writer_ = std::thread([this] { write_in_background(); });
  changed_.notify_all();
}

void CoefficientStore::write_in_background() {
  Batch batch;
  double saved = steady_seconds();
  std::unique_lock guard(lock_);
  while (true) {
    changed_.wait(guard, [&] { return !waiting_.images.empty() || stopping_; });
    if (waiting_.images.empty()) return;
    batch.bytes.clear(), batch.images.clear();
    std::swap(batch, waiting_);
    guard.unlock();
    const std::string problem = takes() ? add_to_file(batch) : "";
    if (!problem.empty()) {
      takes_ = false;
      log::warn("no more coefficients are kept: " + problem);
    }
    const double now = steady_seconds();
    if (now - saved >= kSeconds) {
      index_.save();
      saved = now;
    }
    guard.lock();
    for (const Image& image : batch.images) coming_.erase(image.key);
  }
}

/// Returns the reason for a failure, since no exception may leave the thread.
std::string CoefficientStore::add_to_file(Batch& batch) {
  try {
    std::error_code told_by_the_writing;
    if (file_.has_parent_path()) fs::create_directories(file_.parent_path(), told_by_the_writing);
    LockedFile file(file_);
    if (!is_of_source(file.number())) {
      const Header header = header_of(source_);
      file.cut(0);
      file.put(0, {reinterpret_cast<const uint8_t*>(&header), sizeof header});
    }
    const uint64_t end = size_of(file.number());
    size_t images = 0, bytes = 0;
    for (; images < batch.images.size(); ++images) {
      const size_t next =
          images + 1 < batch.images.size() ? batch.images[images + 1].begin : batch.bytes.size();
      if (end + next > limit_) break;
      bytes = next;
    }
    file.put(end, std::span<const uint8_t>(batch.bytes).first(bytes));
    {
      const std::lock_guard guard(lock_);
      if (!open_ || !same_file(open_->number, file.number()))
        open_ = std::make_shared<const OpenFile>(file_);
    }
    for (size_t i = 0; i < images; ++i) {
      Image& image = batch.images[i];
      const uint64_t place = end + image.begin;
      std::memcpy(image.entry.data(), &place, sizeof place);
      index_.record(image.key, image.entry, image.stamp);
    }
    kept_.fetch_add(static_cast<int64_t>(images), std::memory_order_relaxed);
    if (images < batch.images.size()) {
      takes_ = false;
      log::info("coefficient_cache: " + file_.string() + " has reached its " + gigabytes(limit_) +
                "; no more images are kept");
    }
    return {};
  } catch (const std::exception& error) {
    return error.what();
  }
}

void CoefficientStore::save() {
  index_.save();
  bool first;
  {
    const std::lock_guard guard(lock_);
    first = waiting_.images.empty() && !std::exchange(told_, true);
  }
  if (first) tell_of_first_epoch();
}

void CoefficientStore::tell_of_first_epoch() {
  const int64_t found = found_, kept = kept_, left_out = left_out_;
  if (found + kept + left_out == 0 && takes()) {
    log::warn("coefficient_cache: has no effect, for no image is a JPEG that can be decoded so");
    return;
  }
  std::string line = "coefficient_cache: " + std::to_string(kept) + " images added to " +
                     file_.string() + ", " + std::to_string(found) + " read from it";
  if (left_out > 0) line += ", " + std::to_string(left_out) + " were too many for the disk";
  log::info(line);
}

}  // namespace composer
