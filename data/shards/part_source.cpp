#include "data/shards/part_source.h"

#include <sys/resource.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/several_threads.h"
#include "data/samples/coded_source.h"

namespace composer {
namespace {

constexpr uint64_t kPage = 8 << 20;

/// Raises the limit of open files by `count`, as far as the system allows.
void allow_open_files(uint64_t count) {
  constexpr rlim_t others = 512;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= count + others) return;
  limit.rlim_cur = std::min<rlim_t>(count + others, limit.rlim_max);
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

/// MosaicML's pil: width, height, length of the mode, mode, pixels.
StoredImage open_pil(std::span<const uint8_t> bytes, Image& image) {
  constexpr size_t head = 3 * sizeof(uint32_t);
  constexpr uint64_t most_pixels = 178'956'970;  // the limit of image files
  uint32_t sizes[3];
  if (bytes.size() < head) throw RunError("the pixels are cut off");
  std::memcpy(sizes, bytes.data(), head);
  const uint64_t width = sizes[0], height = sizes[1], mode_bytes = sizes[2];
  if (mode_bytes > bytes.size() - head) throw RunError("the pixels are cut off");
  const std::string mode(bytes.begin() + head,
                         bytes.begin() + head + static_cast<ptrdiff_t>(mode_bytes));
  const uint64_t channels = mode == "RGB" ? 3 : mode == "L" ? 1 : mode == "RGBA" ? 4 : 0;
  if (channels == 0)
    throw RunError("the pixels are of the mode '" + mode + "'; only RGB, RGBA and L are read");
  const auto pixels = bytes.subspan(head + mode_bytes);
  if (width == 0 || height == 0 || width * height > most_pixels ||
      pixels.size() != width * height * channels)
    throw RunError("the pixels do not fill an image of " + std::to_string(width) + " x " +
                   std::to_string(height));
  const ImageSize size{static_cast<int64_t>(height), static_cast<int64_t>(width)};
  if (channels == 3) return {.bytes = pixels, .size = size};
  image.resize(size.height, size.width, 3);
  for (uint64_t i = 0; i < width * height; ++i)
    for (uint64_t c = 0; c < 3; ++c)
      image.pixels.data()[3 * i + c] = pixels[channels * i + (channels == 1 ? 0 : c)];
  return stored_pixels(image);
}

}  // namespace

PartSource::PartSource(std::shared_ptr<const SampleTable> table, const ShardFiles& files,
                       int64_t channels)
    : TableSource(std::move(table), files.root, channels) {
  constexpr uint64_t kDescriptors = 3;  // for a remote file
  allow_open_files(table_->containers() * kDescriptors);
  files_.resize(table_->containers());
  std::unordered_map<std::string_view, size_t> numbers;  // indices of the files by name
  for (size_t i = 0; i < files.names.size(); ++i) numbers.emplace(files.names[i], i);
  in_several_threads(files_.size(), [&](uint64_t i) {
    const std::string name(table_->container_text(i));
    const auto known = numbers.find(name);
    const bool listed = known != numbers.end();
    files_[i].part = std::make_unique<const PartFile>(
        listed && !files.addresses.empty() ? files.addresses[known->second] : path_in(root_, name),
        files.remote, listed && !files.packed.empty() ? files.packed[known->second] : std::nullopt);
    const RangeCache* const remote = files_[i].part->remote();
    if (remote != nullptr && !files.versions.empty() &&
        (!listed || remote->version() != files.versions[known->second]))
      throw UserError(shown_path(path_in(root_, name)) +
                      ": has changed while the table of its samples was made; start again");
  });
  int64_t pages = 0;
  for (File& file : files_) {
    file.first_page = pages;
    pages += static_cast<int64_t>((file.part->bytes() + kPage - 1) / kPage);
    paged_bytes_ += file.part->bytes();
  }
}

const PartSource::File& PartSource::file_of(int64_t index) const {
  return files_[table_->container_number(index)];
}

/// Throws RunError if the file has become shorter since its table was made.
Extent PartSource::extent_of(int64_t index) const {
  const uint64_t file = file_of(index).part->bytes();
  const uint64_t begin = table_->offset(index), bytes = table_->length(index);
  if (begin > file || bytes > file - begin)
    throw RunError("lies outside its file, which is shorter than it was");
  return {static_cast<int64_t>(table_->container_number(index)), begin, begin + bytes};
}

std::string PartSource::path(int64_t index) const {
  return path_in(root_, std::string(table_->container(index)))
      .append(": ")
      .append(table_->name(index));
}

StoredImage PartSource::open(int64_t index, ReadScratch& scratch) const {
  const Extent extent = extent_of(index);
  const PartFile& file = *file_of(index).part;
  const auto bytes = file.read(extent.begin, extent.bytes(), scratch.file);
  StoredImage image = file.use(bytes, [&] {
    return table_->coding() == SampleCoding::pil ? open_pil(bytes, scratch.image)
                                                 : stored_image(bytes, scratch.image);
  });
  if (image.jpeg) {
    const std::string in_root =
        std::string(table_->container(index)) + '/' + std::string(table_->name(index));
    image.index = IndexSlot(key_of(in_root), {bytes.size(), file.version()});
  }
  const bool in_file = image.bytes.data() >= bytes.data() && !image.bytes.empty() &&
                       image.bytes.data() < bytes.data() + bytes.size();
  image.mapping = in_file && file.remote() == nullptr ? &file.mapping() : nullptr;
  return image;
}

int64_t PartSource::page(int64_t index) const {
  try {
    return file_of(index).first_page + static_cast<int64_t>(table_->offset(index) / kPage);
  } catch (const RunError&) {
    return 0;  // open() will report the error
  }
}

std::optional<Extent> PartSource::extent(int64_t index, bool whole_page) const {
  try {
    const Extent own = extent_of(index);
    if (!whole_page) return own;
    const uint64_t page = own.begin / kPage * kPage;
    return Extent{own.file, page,
                  std::min(std::max(page + kPage, own.end), file_of(index).part->bytes())};
  } catch (const RunError&) {
    return std::nullopt;
  }
}

void PartSource::bring(const Extent& extent) const {
  const PartFile& file = *files_[static_cast<size_t>(extent.file)].part;
  if (file.remote() != nullptr && !file.remote()->bring(extent.begin, extent.end)) return;
  file.mapping().bring(file.mapping().bytes().subspan(extent.begin, extent.bytes()));
}

/// Called for each task of a loader's threads; there may be thousands of files.
bool PartSource::is_remote() const {
  constexpr double kKept = 0.1, kMostSpent = 1e-3;  // seconds
  const double now = steady_seconds();
  if (now < was_remote_until_) return was_remote_;
  const bool remote = std::ranges::any_of(files_, [&](const File& file) {
    return file.part->remote() != nullptr && !file.part->remote()->is_whole(now + kMostSpent);
  });
  was_remote_ = remote;
  was_remote_until_ = now + kKept;
  return remote;
}

std::shared_ptr<void> PartSource::follow(Forecast forecast) const {
  const auto first =
      std::ranges::find_if(files_, [](const File& file) { return file.part->remote() != nullptr; });
  if (first == files_.end()) return nullptr;
  return first->part->remote()->follow([this, forecast = std::move(forecast)](const Want& want) {
    uint32_t number = 0;
    forecast([&](int64_t sample) {
      const auto own = extent(sample, false);
      const RangeCache* const remote =
          own ? files_[static_cast<size_t>(own->file)].part->remote() : nullptr;
      if (remote != nullptr) want(*remote, own->begin, own->end, number);
      ++number;
    });
  });
}

std::optional<FileStamp> PartSource::remote_stamp() const {
  return composer::is_remote(root_) ? std::optional(FileStamp{}) : std::nullopt;
}

void PartSource::forget(int64_t index, bool whole_page) const {
  constexpr uint64_t largest_unit = 256 << 10;  // the page cache drops whole units only
  const auto bytes = extent(index, whole_page);
  if (!bytes) return;
  const auto& mapping = files_[static_cast<size_t>(bytes->file)].part->mapping();
  const auto begin = bytes->begin - std::min(bytes->begin, largest_unit);
  const auto end = std::min<uint64_t>(bytes->end + largest_unit, mapping.bytes().size());
  mapping.forget(mapping.bytes().subspan(begin, end - begin));
}

}  // namespace composer
