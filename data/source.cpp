#include "data/source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "composer/error.h"
#include "data/formats/decode.h"
#include "data/jpeg/header.h"
#include "data/pixels/copy.h"
#include "data/pixels/orient.h"

namespace composer {
namespace {

constexpr int64_t kMostFileBytes = int64_t{1} << 31;

struct Descriptor {
  int number;
  ~Descriptor() {
    if (number >= 0) ::close(number);
  }
};

[[noreturn]] void fail(const char* what) {
  throw RunError(std::string(what) + ": " + std::strerror(errno));
}

bool is_jpeg(std::span<const uint8_t> bytes) {
  return bytes.size() > 2 && bytes[0] == 0xFF && bytes[1] == 0xD8 && bytes[2] == 0xFF;
}

StoredImage pixels_of(const Image& image) {
  const auto bytes = static_cast<size_t>(image.height * image.width * image.channels);
  return {.bytes = {image.pixels.data(), bytes},
          .size = {image.height, image.width},
          .channels = image.channels};
}

void copy_to(const ImageView& from, Image& image) {
  image.resize(from.height, from.width, from.channels);
  copy_pixels(from, false, image.pixels.data());
}

/// stored: the size that the stream should have.
ImagePart decode_part(const StoredImage& image, ImageSize stored, const JpegRequest& request,
                      ReadScratch& scratch) {
  std::vector<uint8_t>* recorded = image.index.records() ? &scratch.index : nullptr;
  const auto part = scratch.decoder.decode(image.bytes, request, image.index.index(), recorded);
  const auto up = [&](int64_t side) { return (side + request.scale - 1) / request.scale; };
  if (part.whole != ImageSize{up(stored.height), up(stored.width)}) {
    throw RunError("the JPEG is not " + std::to_string(stored.width) + " x " +
                   std::to_string(stored.height) + ", as the file says");
  }
  if (scratch.decoder.has_recorded()) {
    if (image.mapping != nullptr) image.mapping->check(image.bytes);
    image.index.record(scratch.index);
  }
  return part;
}

/// Of a stream that is not upright. request.region: upright.
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

int64_t label_of(const Source& source, int64_t index) {
  try {
    return source.label(index);
  } catch (const RunError& error) {
    throw RunError(source.name(index) + ": " + error.what());
  }
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
    Image& gray = image.jpeg ? scratch.image : scratch.upright;  // not where the pixels lie
    copy_to(part.pixels, gray);
    to_gray(gray);
    part.pixels = gray.view();
  }
  return part;
}

FileStamp read_file(const char* path, std::vector<uint8_t>& bytes, const RoomFor& room_for) {
  // Without O_NONBLOCK a pipe would be waited for.
  const Descriptor file{::open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.number < 0) fail("cannot open the file");
  struct stat status {};
  if (::fstat(file.number, &status) != 0) fail("cannot read the file");
  if (!S_ISREG(status.st_mode)) throw RunError("not a regular file");
  if (status.st_size > kMostFileBytes) {
    throw RunError("the file is too large: " + std::to_string(status.st_size) + " bytes");
  }
  if (room_for && !room_for(static_cast<uint64_t>(status.st_size))) {
    throw RunError("there is no room for the file");
  }
  if (bytes.capacity() < static_cast<size_t>(status.st_size)) bytes.clear();  // nothing to copy
  bytes.resize(static_cast<size_t>(status.st_size));
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

void FileSource::add(const std::string& file, int64_t label) {
  begins_.push_back(paths_.size());
  paths_.append(file).push_back('\0');
  labels_.push_back(static_cast<int32_t>(label));
}

std::string_view FileSource::below_folder(std::string_view file) const {
  file.remove_prefix(std::min(folder_.size(), file.size()));
  return file.substr(std::min(file.find_first_not_of('/'), file.size()));
}

FileStamp FileSource::fetch(int64_t index, std::vector<uint8_t>& bytes,
                            const RoomFor& room_for) const {
  return read_file(path(index), bytes, room_for);
}

StoredImage FileSource::open(int64_t index, ReadScratch& scratch) const {
  if (!scratch.fetched) scratch.fetched = fetch(index, scratch.file, {});
  const FileStamp stamp = *std::exchange(scratch.fetched, std::nullopt);
  const std::span<const uint8_t> bytes(scratch.file);
  StoredImage image;
  if (is_jpeg(bytes)) {
    const JpegHeader header = read_jpeg_header(bytes);
    image.jpeg = true;
    image.bytes = bytes;
    image.size = header.upright_size();
    image.orientation = header.orientation;
    image.index = IndexSlot(key_of(below_folder(path(index))), stamp);
  } else {
    decode_image(bytes, scratch.image);
    image = pixels_of(scratch.image);
  }
  return image;
}

void FileSource::forget(int64_t index, bool) const {
  const Descriptor file{::open(path(index), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.number >= 0) ::posix_fadvise(file.number, 0, 0, POSIX_FADV_DONTNEED);
}

std::shared_ptr<Source> open_image_files(const std::vector<std::string>& files, int64_t channels) {
  auto source = std::make_shared<FileSource>(channels);
  std::vector<std::string> problems;
  for (const auto& file : files) {
    std::error_code error;
    const auto status = std::filesystem::status(file, error);
    if (!std::filesystem::exists(status)) {
      problems.push_back(file + ": no such file");
    } else if (!std::filesystem::is_regular_file(status)) {
      problems.push_back(file + ": not a file; expected an image");
    } else {
      source->add(file, source->size());
    }
  }
  if (!problems.empty()) throw UserError(std::move(problems));
  return source;
}

}  // namespace composer
