#include "data/samples/source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <unordered_set>

#include "base/error.h"
#include "data/formats/decode.h"
#include "data/index/coefficient_store.h"
#include "data/pixels/copy.h"
#include "data/pixels/orient.h"
#include "data/samples/coded_source.h"

namespace composer {
namespace {

struct Descriptor {
  int number;
  ~Descriptor() {
    if (number >= 0) ::close(number);
  }
};

[[noreturn]] void fail(const char* what) {
  throw RunError(std::string(what) + ": " + std::strerror(errno));
}

/// stored: the size that the stream must have.
ImagePart decode_part(const StoredImage& image, ImageSize stored, const JpegRequest& request,
                      ReadScratch& scratch) {
  std::vector<uint8_t>* recorded = image.index.records() ? &scratch.index : nullptr;
  JpegKept* const kept = image.index.use_kept(scratch.kept) ? &scratch.kept : nullptr;
  const auto part =
      scratch.decoder.decode(image.bytes, request, image.index.index(), recorded, nullptr, kept);
  const auto up = [&](int64_t side) { return (side + request.scale - 1) / request.scale; };
  if (part.whole != ImageSize{up(stored.height), up(stored.width)})
    throw RunError("the JPEG is not " + std::to_string(stored.width) + " x " +
                   std::to_string(stored.height) + ", as the file says");
  const bool keeps = kept != nullptr && kept->made;
  if (image.mapping != nullptr && (scratch.decoder.has_recorded() || keeps))
    image.mapping->check(image.bytes);
  if (scratch.decoder.has_recorded()) image.index.record(scratch.index);
  if (keeps) image.index.keep(*kept);
  return part;
}

/// Decodes a stream that is not upright. request.region: of the upright image.
ImagePart decode_turned(const StoredImage& image, const JpegRequest& request,
                        ReadScratch& scratch) {
  const ImageSize stored =
      turned(image.orientation) ? ImageSize{image.size.width, image.size.height} : image.size;
  const Box box = stored_box(request.region, stored, image.orientation);
  const auto part = decode_part(image, stored, {.region = box, .dct = request.dct}, scratch);
  orient(part.pixels, image.orientation, scratch.upright);
  return {scratch.upright.view(), request.region, image.size};
}

}  // namespace

void IndexSlot::use(IndexStore& store, CoefficientStore* coefficients) {
  if (!placed_) return;
  store_ = &store;
  coefficients_ = coefficients;
  if (coefficients != nullptr) kept_ = coefficients->find(key_, stamp_);
  if (!kept_) found_ = store.find(key_, stamp_);
}

bool IndexSlot::use_kept(JpegKept& kept) const {
  if (coefficients_ == nullptr) return false;
  kept.wanted = coefficients_->takes() && records();
  kept.table = {};
  if (!kept_) return kept.wanted;
  uint64_t place;
  std::memcpy(&place, kept_->data(), sizeof place);
  kept.table = std::span<const uint8_t>(*kept_).subspan(sizeof place);
  kept.read = [store = coefficients_, place](uint64_t at, std::span<uint8_t> to) {
    return store->read(place + at, to);
  };
  return true;
}

void IndexSlot::keep(const JpegKept& kept) const {
  coefficients_->keep(key_, stamp_, kept.made_table, kept.made_rows);
}

StoredImage stored_pixels(const Image& image) {
  const auto bytes = static_cast<size_t>(image.height * image.width * image.channels);
  return {.bytes = {image.pixels.data(), bytes},
          .size = {image.height, image.width},
          .channels = image.channels};
}

void ReadScratch::give_back(ImageSize size) {
  const size_t room = file.capacity() + image.pixels.capacity() + upright.pixels.capacity() +
                      decoder.room() + kept.memory.capacity();
  if (far_above(room, static_cast<size_t>(3 * size.height * size.width))) *this = ReadScratch{};
}

int64_t label_of(const Source& source, int64_t index) {
  try {
    return source.label(index);
  } catch (const RunError& error) {
    throw RunError(source.name(index) + ": " + error.what());
  }
}

int64_t count_labels(const Source& source) {
  std::unordered_set<int64_t> labels;
  for (int64_t i = 0; i < source.size(); ++i) labels.insert(label_of(source, i));
  return std::ssize(labels);
}

ImagePart read_part(const StoredImage& image, const JpegRequest& request, int64_t channels,
                    ReadScratch& scratch) {
  ImagePart part;
  if (!image.jpeg) {
    const ImageView all{image.bytes.data(), image.size.height, image.size.width, image.channels,
                        image.size.width * image.channels};
    const Box& box = request.region;
    part = {all.crop(box.top, box.left, box.height, box.width), box, image.size};
  } else if (image.orientation != 1) {
    part = decode_turned(image, request, scratch);
  } else {
    part = decode_part(image, image.size, request, scratch);
  }
  if (channels == 1 && part.pixels.channels == 3) {
    Image& gray = image.jpeg ? scratch.image : scratch.upright;  // the one without the pixels
    gray.resize(part.pixels.height, part.pixels.width, part.pixels.channels);
    copy_pixels(part.pixels, false, gray.pixels.data());
    to_gray(gray);
    part.pixels = gray.view();
  }
  return part;
}

void check_file_size(uint64_t bytes, const RoomFor& room_for) {
  constexpr uint64_t kMostBytes = uint64_t{1} << 31;
  if (bytes > kMostBytes)
    throw RunError("the file is too large: " + std::to_string(bytes) + " bytes");
  if (room_for && !room_for(bytes)) throw RunError("there is no room for the file");
}

FileStamp read_file(const char* path, std::vector<uint8_t>& bytes, const RoomFor& room_for) {
  // Without O_NONBLOCK opening a pipe would block.
  const Descriptor file{::open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.number < 0) fail("cannot open the file");
  struct stat status {};
  if (::fstat(file.number, &status) != 0) fail("cannot read the file");
  if (!S_ISREG(status.st_mode)) throw RunError("not a regular file");
  const auto size = static_cast<size_t>(status.st_size);
  check_file_size(size, room_for);
  if (bytes.capacity() < size || far_above(bytes.capacity(), size))
    bytes = std::vector<uint8_t>();  // nothing to copy
  bytes.resize(size);
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = ::read(file.number, bytes.data() + done, bytes.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail("cannot read the file");
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  bytes.resize(done);
  return {done, status.st_mtim.tv_sec * 1'000'000'000 + status.st_mtim.tv_nsec};
}

std::string TableSource::name(int64_t index) const {
  try {
    return path(index);
  } catch (const RunError&) {
    return root_ + ", sample " + std::to_string(index);
  }
}

std::string FileSource::path(int64_t index) const {
  return absolute_path(root_, table_->container(index)).append(table_->name(index));
}

FileStamp FileSource::fetch(int64_t index, std::vector<uint8_t>& bytes,
                            const RoomFor& room_for) const {
  try {
    return read_file(path(index).c_str(), bytes, room_for);
  } catch (const RunError& error) {
    if (list_.empty()) throw;
    throw RunError(std::string(error.what()) + " (row " + std::to_string(index) + ", from 0, of " +
                   list_ + ")");
  }
}

StoredImage FileSource::open(int64_t index, ReadScratch& scratch) const {
  if (!scratch.fetched) scratch.fetched = fetch(index, scratch.file, {});
  const FileStamp stamp = *std::exchange(scratch.fetched, std::nullopt);
  StoredImage image = stored_image(scratch.file, scratch.image);
  if (image.jpeg && !folder_.empty()) {
    const std::string below(table_->container(index));
    image.index = IndexSlot(key_of(below + std::string(table_->name(index))), stamp);
  }
  return image;
}

void FileSource::forget(int64_t index, bool) const {
  const Descriptor file{::open(path(index).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.number >= 0) ::posix_fadvise(file.number, 0, 0, POSIX_FADV_DONTNEED);
}

std::shared_ptr<Source> open_image_files(const std::vector<std::string>& files, int64_t channels) {
  std::vector<std::string> problems;
  for (const auto& file : files) {
    std::error_code error;
    const auto status = std::filesystem::status(file, error);
    if (!std::filesystem::exists(status))
      problems.push_back(file + ": no such file");
    else if (!std::filesystem::is_regular_file(status))
      problems.push_back(file + ": not a file; expected an image");
  }
  if (!problems.empty()) throw UserError(std::move(problems));
  return std::make_shared<FileSource>(table_of_files(files), "", channels);
}

}  // namespace composer
