#include "data/samples/sample_table.h"

#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <ctime>

#include "base/error.h"
#include "base/files/atomic_file.h"
#include "base/files/byte_reader.h"
#include "base/files/checksum.h"
#include "base/log.h"
#include "base/several_threads.h"
#include "data/files/file_lock.h"
#include "data/samples/target_rows.h"

namespace composer {
namespace {

constexpr char kMagic[16] = "composer table\n";
constexpr uint64_t kParts = 1;
constexpr unsigned kCodingShift = 8;
constexpr uint64_t kVersion = 2;

struct Header {
  char magic[16];
  uint64_t bytes;
  uint32_t crc;
  uint32_t kind;  // kParts and the SampleCoding
  uint64_t samples, runs, containers, names, watched, text_bytes;
  uint64_t values;  // values of each sample; 0: classes
  uint64_t version;
};
static_assert(sizeof(Header) == 96);

uint32_t checksum(Header header, std::span<const uint8_t> rest) {
  header.crc = 0;
  Checksum sum;
  sum.add({reinterpret_cast<const uint8_t*>(&header), sizeof header});
  sum.add(rest);
  return sum.crc32();
}

int64_t ns(const timespec& time) { return time.tv_sec * 1'000'000'000 + time.tv_nsec; }

PathStamp stamp_from(const struct stat& status) {
  PathStamp stamp;
  stamp.kind = S_ISDIR(status.st_mode)   ? PathStamp::folder
               : S_ISREG(status.st_mode) ? PathStamp::file
                                         : PathStamp::no_folder;
  if (stamp.kind == PathStamp::no_folder) return stamp;
  stamp.inode = status.st_ino;
  if (stamp.kind == PathStamp::file) stamp.bytes = static_cast<uint64_t>(status.st_size);
  stamp.modified = ns(status.st_mtim), stamp.changed = ns(status.st_ctim);
  return stamp;
}

/// Appends bytes, and zeros up to a multiple of 8.
class Sections {
 public:
  explicit Sections(size_t bytes) { all.reserve(bytes); }

  void add(const void* data, size_t bytes) {
    const auto* begin = static_cast<const uint8_t*>(data);
    all.insert(all.end(), begin, begin + bytes);
    all.resize((all.size() + 7) / 8 * 8);
  }
  template <class T>
  void add(const std::vector<T>& values) {
    add(values.data(), values.size() * sizeof(T));
  }

  std::vector<uint8_t> all;
};

namespace fs = std::filesystem;

using Table = std::shared_ptr<const SampleTable>;

/// Null where there is no whole table.
Table read_table(const fs::path& file) {
  std::error_code error;
  if (!fs::is_regular_file(file, error)) return nullptr;
  try {
    return std::make_shared<const SampleTable>(file);
  } catch (const FormatError& problem) {
    log::info(file.string() + ": " + problem.what() + "; it is made anew");
  } catch (const UserError& problem) {
    log::info(std::string(problem.what()) + "; it is made anew");
  }
  return nullptr;
}

bool has_classes(const SampleTable& table, const TableMaker& maker) {
  return maker.classes.empty() || table.class_names() == maker.classes;
}

/// Whether all paths that the table watches are unchanged.
bool is_unchanged(const SampleTable& table, const std::string& root) {
  constexpr uint64_t at_once = 64;
  std::atomic<bool> same = true;
  in_several_threads((table.watched() + at_once - 1) / at_once, [&](uint64_t batch) {
    const uint64_t end = std::min(table.watched(), (batch + 1) * at_once);
    for (uint64_t i = batch * at_once; i < end && same; ++i) {
      const auto [path, stamp] = table.watched(i);
      if (!is_as_before(absolute_path(root, path), stamp)) same = false;
    }
  });
  return same;
}

Table own_table(std::vector<uint8_t> bytes, const TableMaker& maker, const std::string& why) {
  log::warn("each process " + maker.does + " by itself, at every start: " + why);
  return std::make_shared<const SampleTable>(std::move(bytes));
}

/// A table of this process alone.
Table own_table(const TableMaker& maker, const std::string& why) {
  auto bytes = maker.make();
  return bytes ? own_table(std::move(*bytes), maker, why) : nullptr;
}

}  // namespace

PathStamp path_stamp_of(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return {.kind = PathStamp::no_folder};
  return stamp_from(status);
}

bool is_as_before(const std::string& path, const PathStamp& stamp) {
  const auto now = path_stamp_of(path);
  return stamp.kind == PathStamp::no_folder ? now.kind != PathStamp::folder : now == stamp;
}

PathStamp path_stamp_of(int file) {
  struct stat status {};
  if (::fstat(file, &status) != 0) return {.kind = PathStamp::no_folder};
  return stamp_from(status);
}

int64_t wall_clock_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return ns(now);
}

PathStamp settled(const PathStamp& before, const PathStamp& after, int64_t begin) {
  constexpr int64_t coarsest_clock = 2'000'000'000;  // that of FAT
  const bool is_old = begin - std::max(before.modified, before.changed) >= coarsest_clock;
  return before == after && is_old ? before : PathStamp{};
}

PathStamp settled_stamp_of(const std::string& path) {
  const auto stamp = path_stamp_of(path);
  return settled(stamp, stamp, wall_clock_ns());
}

std::string absolute_path(std::string_view root, std::string_view path) {
  return std::string(path.starts_with('/') ? "" : root).append(path);
}

SampleTable::SampleTable(std::vector<uint8_t> bytes) : owned_(std::move(bytes)), bytes_(owned_) {
  parse();
}

SampleTable::SampleTable(const std::filesystem::path& file)
    : file_(file.string()),
      mapping_(std::make_unique<const MappedFile>(file)),
      bytes_(mapping_->bytes()) {
  parse();
}

void SampleTable::parse() {
  ByteReader reader(bytes_);
  const auto header = reader.number<Header>();
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0) throw FormatError("is no table");
  if (header.bytes != bytes_.size()) throw FormatError("cut off or damaged");
  for (const uint64_t count : {header.samples, header.runs, header.containers, header.names,
                               header.watched, header.text_bytes, header.values})
    if (count > bytes_.size()) throw FormatError("cut off or damaged");
  if (header.values > 0 && header.samples > bytes_.size() / header.values)
    throw FormatError("cut off or damaged");
  if (checksum(header, bytes_.subspan(sizeof header)) != header.crc) throw FormatError("damaged");
  if (header.version != kVersion) throw FormatError("is of another version");

  parts_ = (header.kind & kParts) != 0;
  coding_ = static_cast<SampleCoding>(header.kind >> kCodingShift);
  if (coding_ != SampleCoding::image_file && coding_ != SampleCoding::pil)
    throw FormatError("holds samples of another kind");
  samples_ = header.samples, runs_count_ = header.runs, container_count_ = header.containers;
  name_count_ = header.names, watched_count_ = header.watched, value_count_ = header.values;
  containers_ = samples_, names_ = containers_ + container_count_;
  paths_ = names_ + name_count_;

  const auto section = [&](uint64_t count, uint64_t bytes_each) {
    const auto taken = reader.take(count * bytes_each);
    reader.take((8 - count * bytes_each % 8) % 8);
    return taken;
  };
  begins_ = section(paths_ + watched_count_ + 1, sizeof(uint64_t));
  labels_ = section(samples_, sizeof(int32_t));
  values_ = section(samples_ * value_count_, sizeof(float));
  if (parts_) {
    offsets_ = section(samples_, sizeof(uint64_t));
    lengths_ = section(samples_, sizeof(uint64_t));
  }
  runs_ = section(runs_count_, 2 * sizeof(uint64_t));
  stamps_ = section(watched_count_, sizeof(PathStamp));
  texts_ = section(header.text_bytes, 1);
  check_texts();
  check_samples();
}

void SampleTable::check_texts() const {
  uint64_t last = 0;
  for (uint64_t i = 0; i <= paths_ + watched_count_; ++i) {
    const auto begin = load<uint64_t>(begins_, i);
    if (begin < last || (i == 0 && begin != 0)) throw FormatError("damaged");
    last = begin;
  }
  if (last != texts_.size()) throw FormatError("damaged");
}

void SampleTable::check_samples() {
  const auto fits = [](bool good) {
    if (!good) throw FormatError("damaged");
  };
  fits((runs_count_ == 0) == (samples_ == 0));
  fits(value_count_ == 0 || value_count_ == name_count_);
  for (uint64_t i = 0; i < runs_count_; ++i) {
    const auto first = load<uint64_t>(runs_, 2 * i);
    fits(i == 0 ? first == 0 : first > load<uint64_t>(runs_, 2 * i - 2));
    fits(first < samples_ && load<uint64_t>(runs_, 2 * i + 1) < container_count_);
  }
  for (uint64_t i = 0; i < samples_; ++i) {
    const auto label = load<int32_t>(labels_, i);
    fits(label >= 0 && (name_count_ == 0 || static_cast<uint64_t>(label) < name_count_));
    if (value_count_ == 0) classes_ = std::max<int64_t>(classes_, int64_t{label} + 1);
    if (parts_) fits(load<uint64_t>(lengths_, i) <= ~load<uint64_t>(offsets_, i));
  }
}

void SampleTable::lost() const {
  throw RunError(file_ + ": the table of the samples can no longer be read");
}

void SampleTable::check(std::span<const uint8_t> part) const {
  if (!mapping_) return;
  try {
    mapping_->check(part);
  } catch (const RunError&) {
    lost();
  }
}

std::string_view SampleTable::text(uint64_t i) const {
  const auto begin = load<uint64_t>(begins_, i), end = load<uint64_t>(begins_, i + 1);
  check(begins_.subspan(i * sizeof begin, 2 * sizeof begin));
  if (begin > end || end > texts_.size()) lost();
  const auto bytes = texts_.subspan(begin, end - begin);
  check(bytes);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// The container of the run that the sample is in.
uint64_t SampleTable::run_of(int64_t sample) const {
  uint64_t low = 0, high = runs_count_;  // the run is in [low, high)
  while (high - low > 1) {
    const uint64_t middle = low + (high - low) / 2;
    (load<uint64_t>(runs_, 2 * middle) <= static_cast<uint64_t>(sample) ? low : high) = middle;
  }
  const auto container = number<uint64_t>(runs_, static_cast<int64_t>(2 * low + 1));
  if (container >= container_count_) lost();
  return container;
}

std::vector<std::string> SampleTable::target_names() const {
  std::vector<std::string> names;
  for (uint64_t i = 0; i < name_count_; ++i) names.emplace_back(text(names_ + i));
  return names;
}

std::vector<std::string> SampleTable::class_names() const {
  return value_count_ == 0 ? target_names() : std::vector<std::string>();
}

std::vector<std::string> SampleTable::value_names() const {
  return value_count_ == 0 ? std::vector<std::string>() : target_names();
}

void SampleTable::read_values(int64_t sample, std::span<float> values) const {
  if (value_count_ == 0) return;
  const uint64_t bytes = value_count_ * sizeof(float);
  const auto own = values_.subspan(static_cast<uint64_t>(sample) * bytes, bytes);
  std::memcpy(values.data(), own.data(), own.size());
  check(own);
}

SampleTable::Watched SampleTable::watched(uint64_t i) const {
  return {text(paths_ + i), load<PathStamp>(stamps_, i)};
}

void SampleTableWriter::add_file(std::string_view path, int32_t label) {
  const size_t slash = path.rfind('/');
  const size_t name = slash == std::string_view::npos ? 0 : slash + 1;
  add(path.substr(0, name), path.substr(name), label);
}

void SampleTableWriter::add_part(std::string_view file, std::string_view name, uint64_t offset,
                                 uint64_t length, int32_t label) {
  add(file, name, label);
  offsets_.push_back(offset), lengths_.push_back(length);
}

void SampleTableWriter::add(std::string_view container, std::string_view name, int32_t label) {
  if (runs_.empty() || containers_[runs_.back().container] != container) {
    const auto [number, is_new] = numbers_.try_emplace(std::string(container), containers_.size());
    if (is_new) containers_.emplace_back(container);
    runs_.push_back({labels_.size(), number->second});
  }
  begins_.push_back(names_.size());
  names_ += name;
  labels_.push_back(label);
}

void SampleTableWriter::watch(std::string_view path, const PathStamp& stamp) {
  watched_.emplace_back(path);
  stamps_.push_back(stamp);
}

void SampleTableWriter::set_values(const TargetRows& rows) {
  target_names_ = rows.value_names();
  value_count_ = target_names_.size();
  for (size_t i = 0; i < labels_.size(); ++i) {
    const auto row = rows.row(i);
    values_.insert(values_.end(), row.begin(), row.end());
  }
}

std::vector<uint8_t> SampleTableWriter::bytes() const {
  std::vector<uint64_t> begins = begins_;
  std::string rest;  // texts other than names of samples
  for (const auto* list : {&containers_, &target_names_, &watched_}) {
    for (const auto& text : *list) {
      begins.push_back(names_.size() + rest.size());
      rest += text;
    }
  }
  const uint64_t text_bytes = names_.size() + rest.size();
  begins.push_back(text_bytes);

  Header header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.kind =
      static_cast<uint32_t>((parts_ ? kParts : 0) | static_cast<uint64_t>(coding_) << kCodingShift);
  header.samples = labels_.size(), header.runs = runs_.size();
  header.containers = containers_.size(), header.names = target_names_.size();
  header.watched = watched_.size(), header.text_bytes = text_bytes;
  header.values = value_count_;
  header.version = kVersion;

  Sections sections(sizeof header + begins.size() * 8 + labels_.size() * 20 + values_.size() * 4 +
                    runs_.size() * 16 + stamps_.size() * sizeof(PathStamp) + text_bytes + 64);
  sections.add(&header, sizeof header);
  sections.add(begins);
  sections.add(labels_);
  sections.add(values_);
  if (parts_) sections.add(offsets_), sections.add(lengths_);
  sections.add(runs_);
  sections.add(stamps_);
  const auto text_begin = sections.all.size();
  sections.all.insert(sections.all.end(), names_.begin(), names_.end());
  sections.all.insert(sections.all.end(), rest.begin(), rest.end());
  sections.all.resize(text_begin + (text_bytes + 7) / 8 * 8);

  auto& bytes = sections.all;
  header.bytes = bytes.size();
  header.crc = checksum(header, std::span(bytes).subspan(sizeof header));
  std::memcpy(bytes.data(), &header, sizeof header);
  return std::move(bytes);
}

std::shared_ptr<const SampleTable> table_of_files(const std::vector<std::string>& files) {
  SampleTableWriter writer;
  for (const auto& file : files) writer.add_file(file, static_cast<int32_t>(writer.size()));
  return std::make_shared<const SampleTable>(writer.bytes());
}

Table kept_table(const fs::path& file, const TableMaker& maker) {
  const auto usable = [&](const Table& table) {
    return table && has_classes(*table, maker) && is_unchanged(*table, maker.root);
  };
  if (file.empty())
    return own_table(maker, "neither XDG_CACHE_HOME nor HOME names a folder for it");
  if (const auto table = read_table(file); usable(table)) return table;

  const auto before = path_stamp_of(file.string());
  std::error_code ignored;  // FileLock reports the problem
  fs::create_directories(file.parent_path(), ignored);
  const FileLock lock(file.string() + ".lock", maker.does);
  if (!lock.problem().empty()) return own_table(maker, file.string() + ".lock: " + lock.problem());
  if (!(path_stamp_of(file.string()) == before)) {
    const auto table = read_table(file);
    // A table that was made while this process waited is new enough.
    if (lock.waited() ? table && has_classes(*table, maker) : usable(table)) return table;
  }

  auto bytes = maker.make();
  if (!bytes) return nullptr;
  try {
    remove_partial_files(file.parent_path());
    AtomicFile out(file);
    out.write(*bytes);
    out.commit();
  } catch (const RunError& problem) {
    return own_table(std::move(*bytes), maker, problem.what());
  }
  bytes.reset();
  if (auto table = read_table(file)) return table;
  throw RunError(file.string() + ": cannot be read after it was written");
}

}  // namespace composer
