#include "data/samples/verify.h"

#include "base/error.h"
#include "data/formats/decode.h"

namespace composer {
namespace {

/// The finding of decode(warnings). Throws RemoteError if a store fails.
template <class Decode>
SampleFinding finding_of(const Decode& decode) {
  SampleFinding finding;
  try {
    decode(&finding.warnings);
  } catch (const RemoteError&) {
    throw;
  } catch (const RunError& error) {
    finding.reason = error.what();
  }
  return finding;
}

}  // namespace

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
  return finding_of([&](std::string* warnings) {
    std::vector<uint8_t> bytes;
    files.fetch(index, bytes, {});
    decode_image(bytes, image, warnings);
  });
}

SampleFinding verify_sample(const Source& source, int64_t index, ReadScratch& scratch,
                            Image& decoded) {
  return finding_of([&](std::string* warnings) {
    const StoredImage image = source.open(index, scratch);
    whole_pixels(image, decoded, warnings);
    if (image.mapping != nullptr) image.mapping->check_unread(image.bytes);
  });
}

}  // namespace composer
