#include "data/beton/writer.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>
#include <unordered_map>

#include "base/error.h"
#include "data/beton/fields.h"

namespace composer {
namespace {

constexpr uint64_t kTargetAt = 16;  // offset in the row
constexpr uint64_t kDefaultPage = 8 << 20, kLeastPage = 2 << 20, kLargestPage = uint64_t{2} << 30;

template <class T>
void put(std::vector<uint8_t>& out, size_t at, T value) {
  std::memcpy(&out[at], &value, sizeof value);
}

void put_field(std::vector<uint8_t>& out, size_t index, BetonType type, const char* name) {
  const size_t at = kBetonHeaderBytes + index * kBetonDescriptorBytes;
  out[at] = static_cast<uint8_t>(type);
  std::memcpy(&out[at + 1], name, std::strlen(name));
}

std::vector<std::string> checked_names(std::vector<std::string> names) {
  std::vector<std::string> problems;
  std::unordered_map<std::string_view, int> counts;
  for (const auto& name : names) ++counts[name];
  for (const auto& name : names) {
    if (!is_readable(name) || name.empty() || name.size() > kBetonNameBytes)
      problems.push_back("'" + name + "' can be no field of a .beton file: a name has 1 to " +
                         std::to_string(kBetonNameBytes) + " letters of ASCII");
    if (name == "image" || counts[name] > 1)
      problems.push_back("there would be two fields '" + name + "' in the .beton file");
  }
  if (!problems.empty()) throw UserError(problems);
  return names;
}

std::unique_ptr<AtomicFile> file_beside(const std::filesystem::path& path) {
  remove_partial_files(path.parent_path());
  try {
    return std::make_unique<AtomicFile>(path);
  } catch (const RunError& problem) {
    throw UserError(problem.what());
  }
}

uint64_t checked_page_size(uint64_t page_size) {
  if (page_size == 0) return kDefaultPage;
  if (!std::has_single_bit(page_size) || page_size < kLeastPage || page_size > kLargestPage) {
    throw UserError("page_size: " + std::to_string(page_size) +
                    " is no power of two from 2097152 (2 MiB) to 2147483648 (2 GiB)");
  }
  return page_size;
}

}  // namespace

BetonWriter::BetonWriter(const std::filesystem::path& path, int64_t most_rows, uint64_t page_size,
                         std::vector<std::string> values)
    : value_names_(checked_names(std::move(values))),
      most_rows_(most_rows),
      page_grows_(page_size == 0),
      page_size_(checked_page_size(page_size)),
      file_(file_beside(path)),
      position_(data_begin()) {}

uint64_t BetonWriter::row_bytes() const {
  return kTargetAt + 8 * std::max<uint64_t>(value_names_.size(), 1);
}

uint64_t BetonWriter::data_begin() const {
  const uint64_t fields = 1 + std::max<uint64_t>(value_names_.size(), 1);
  return round_up(kBetonHeaderBytes + fields * kBetonDescriptorBytes +
                      static_cast<uint64_t>(most_rows_) * row_bytes(),
                  page_size_);
}

std::string BetonWriter::refusal(ImageSize size, uint64_t bytes) const {
  if (size.height < 1 || size.width < 1 || size.height > 65535 || size.width > 65535)
    return "an image of " + size_text(size) + " pixels; a .beton file holds 65535 a side";
  if (bytes <= (page_grows_ ? kLargestPage : page_size_)) return {};
  return "an image of " + std::to_string(bytes) + " bytes does not fit a page of " +
         std::to_string(page_size_) + (page_grows_ ? "" : "; a larger --page_size does");
}

/// Offset of a region of this many bytes. Doubling the page size keeps the regions written so far
/// valid, since pages begin at multiples of their size.
uint64_t BetonWriter::place(uint64_t bytes) {
  while (bytes > page_size_) page_size_ *= 2;
  const uint64_t page_end = position_ / page_size_ * page_size_ + page_size_;
  const uint64_t begin = position_ + bytes <= page_end ? position_ : page_end;
  position_ = begin + bytes;
  return begin;
}

BetonRegion BetonWriter::add(bool jpeg, ImageSize size, std::span<const uint8_t> bytes,
                             int64_t label, std::span<const float> values) {
  if (values.size() != value_names_.size())
    throw std::logic_error("BetonWriter: not as many values as names");
  if (const auto reason = refusal(size, bytes.size()); !reason.empty()) throw RunError(reason);
  if (rows() >= most_rows_) throw std::logic_error("BetonWriter: more rows than were announced");
  const BetonRegion region{place(bytes.size()), bytes.size()};
  file_->write_at(region.begin, bytes);
  rows_.push_back(
      {region, label, static_cast<uint16_t>(size.width), static_cast<uint16_t>(size.height), jpeg});
  values_.insert(values_.end(), values.begin(), values.end());
  return region;
}

void BetonWriter::repeat(int64_t row) {
  if (rows() >= most_rows_) throw std::logic_error("BetonWriter: more rows than were announced");
  rows_.push_back(rows_.at(static_cast<size_t>(row)));
  for (size_t k = 0; k < value_names_.size(); ++k)
    values_.push_back(values_[static_cast<size_t>(row) * value_names_.size() + k]);
}

/// Header, fields and rows. table: where the table of regions begins.
std::vector<uint8_t> BetonWriter::head(uint64_t table) const {
  const size_t fields = 1 + std::max<size_t>(value_names_.size(), 1);
  size_t at = kBetonHeaderBytes + fields * kBetonDescriptorBytes;
  std::vector<uint8_t> out(at + rows_.size() * row_bytes());
  put<uint16_t>(out, 0, 2);
  put(out, 2, static_cast<uint16_t>(fields));
  put(out, 4, static_cast<uint32_t>(page_size_));
  put<uint64_t>(out, 8, rows_.size());
  put(out, 16, table);
  put_field(out, 0, BetonType::image, "image");
  if (value_names_.empty()) put_field(out, 1, BetonType::integer, "label");
  for (size_t k = 0; k < value_names_.size(); ++k)
    put_field(out, 1 + k, BetonType::real, value_names_[k].c_str());
  const float* value = values_.data();
  for (const Row& row : rows_) {
    out[at] = row.jpeg ? 0 : 1;
    put(out, at + 1, row.width);
    put(out, at + 3, row.height);
    put(out, at + 5, row.region.begin);
    if (value_names_.empty()) put(out, at + kTargetAt, row.label);
    for (size_t k = 0; k < value_names_.size(); ++k)
      put(out, at + kTargetAt + 8 * k, std::bit_cast<uint64_t>(static_cast<double>(*value++)));
    at += row_bytes();
  }
  return out;
}

std::vector<uint8_t> BetonWriter::regions() const {
  std::vector<uint8_t> out(rows_.size() * kBetonEntryBytes);
  std::vector<size_t> order(rows_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [this](size_t a, size_t b) {
    return rows_[a].region.begin < rows_[b].region.begin;
  });
  size_t at = 0;
  for (const size_t row : order) {
    put<uint64_t>(out, at, row);
    put(out, at + 8, rows_[row].region.begin);
    put(out, at + 16, rows_[row].region.bytes);
    at += kBetonEntryBytes;
  }
  return out;
}

uint64_t BetonWriter::finish() {
  const uint64_t table = round_up(position_, page_size_);
  const auto table_bytes = regions();
  file_->write_at(table, table_bytes);
  file_->write_at(0, head(table));
  file_->commit_to_disk();
  return table + table_bytes.size();
}

}  // namespace composer
