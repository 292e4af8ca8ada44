#include "data/samples/verify.h"

#include <vector>

#include "base/error.h"
#include "data/formats/decode.h"

namespace composer {

ImageView whole_pixels(const StoredImage& image, Image& decoded, std::string* warnings) {
  if (!image.jpeg)
    return {image.bytes.data(), image.size.height, image.size.width, image.channels,
            image.size.width * image.channels};
  use_image(image, [&] {
    decode_image(image.bytes, decoded, warnings);
    return true;
  });
  return decoded.view();
}

SampleFinding verify_file(const Source& files, int64_t index, Image& image) {
  SampleFinding finding;
  try {
    std::vector<uint8_t> bytes;
    files.fetch(index, bytes, {});
    decode_image(bytes, image, &finding.warnings);
  } catch (const RemoteError&) {
    throw;
  } catch (const RunError& error) {
    finding.reason = error.what();
  }
  return finding;
}

SampleFinding verify_sample(const Source& source, int64_t index, ReadScratch& scratch,
                            Image& decoded) {
  SampleFinding finding;
  try {
    const StoredImage image = source.open(index, scratch);
    whole_pixels(image, decoded, &finding.warnings);
    if (image.mapping != nullptr) image.mapping->check_unread(image.bytes);
  } catch (const RemoteError&) {
    throw;
  } catch (const RunError& error) {
    finding.reason = error.what();
  }
  return finding;
}

}  // namespace composer
