#include "data/samples/coded_source.h"

#include "base/error.h"
#include "data/formats/decode.h"
#include "data/jpeg/header.h"

namespace composer {

StoredImage stored_image(std::span<const uint8_t> file, Image& decoded) {
  const bool jpeg = file.size() > 2 && file[0] == 0xFF && file[1] == 0xD8 && file[2] == 0xFF;
  if (jpeg) {
    const JpegHeader header = read_jpeg_header(file);
    return {.jpeg = true,
            .bytes = file,
            .size = header.upright_size(),
            .orientation = header.orientation};
  }
  decode_image(file, decoded);
  return stored_pixels(decoded);
}

FileStamp CodedSource::fetch(int64_t index, std::vector<uint8_t>& bytes,
                             const RoomFor& room_for) const {
  bytes.clear();
  read(index, bytes);
  if (room_for && !room_for(bytes.size())) throw RunError("there is no room for the file");
  return {.bytes = bytes.size()};
}

StoredImage CodedSource::open(int64_t index, ReadScratch& scratch) const {
  if (!std::exchange(scratch.fetched, std::nullopt)) fetch(index, scratch.file, {});
  StoredImage image = stored_image(scratch.file, scratch.image);
  if (image.jpeg && !indexed_path().empty()) image.index = IndexSlot(static_cast<uint64_t>(index));
  return image;
}

}  // namespace composer
