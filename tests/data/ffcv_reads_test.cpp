#include <catch2/catch.hpp>
#include <cstdlib>

#include "data/files/digest.h"
#include "data/jpeg/decoder.h"
#include "tests/data/fake_sources.h"
#include "tests/files.h"

namespace composer::ffcv_reads_test {

using namespace composer::test;

TEST_CASE("FFCV reads every kind of file that is written", "[data][peer]") {
  const char* python = std::getenv("COMPOSER_FFCV_PYTHON");
  if (python == nullptr) {
    WARN("skipped: COMPOSER_FFCV_PYTHON names no Python with FFCV");
    return;
  }
  const TemporaryFolder folder;
  FakeFiles files = mixed_files();
  files.add(Bytes{'b', 'a', 'd'});
  files.files.back().push_back('!');
  WriteOptions options = options_of(WriteMode::proportion);
  options.on_bad_sample = OnBadSample::replace;
  write_beton(files, folder / "mixed.beton", options);
  options.pack.mode = WriteMode::jpg;
  write_beton(files, folder / "jpg.beton", options);
  std::vector<Image> images = pictures(30);
  images.push_back(make_picture(1300, 2400));
  images.push_back(make_picture(40, 40));
  write_beton(FakePixels(images), folder / "large.beton", options_of(WriteMode::raw));
  write_file(folder / "read.py", R"(
import hashlib, sys
import numpy as np
from ffcv.loader import Loader, OrderOption
from ffcv.fields.decoders import CenterCropRGBImageDecoder, IntDecoder
from ffcv.fields.rgb_image import RGBImageField
from ffcv.reader import Reader
from ffcv.libffcv import imdecode
for name in sys.argv[1:]:
    r = Reader(name + '.beton')
    sizes = dict(zip(r.alloc_table['ptr'], r.alloc_table['size']))
    data = np.fromfile(name + '.beton', 'u1')
    with open(name + '.txt', 'w') as out:
        for row in r.metadata:
            mode, w, h, ptr = row['f0']['mode'], int(row['f0']['width']), int(row['f0']['height']), row['f0']['data_ptr']
            raw = data[ptr:ptr + sizes[ptr]]
            if mode == 0:
                pixels = np.zeros((h, w, 3), 'u1')
                imdecode(raw.copy(), pixels, h, w, h, w, 0, 0, 1, 1, False, False)
            else:
                pixels = raw.reshape(h, w, 3)
            out.write('%d %d %d %s\n' % (row['f1'], w, h, hashlib.sha256(pixels.tobytes()).hexdigest()))
    sums = []
    for cache in (True, False):
        loader = Loader(name + '.beton', batch_size=4, num_workers=1, order=OrderOption.SEQUENTIAL, os_cache=cache, drop_last=False,
                        pipelines={'image': [CenterCropRGBImageDecoder((16, 16), 1)], 'label': [IntDecoder()]})
        sums.append([(int(x.astype('i8').sum()), y.ravel().tolist()) for x, y in loader])
    assert sums[0] == sums[1] and sum(len(y) for _, y in sums[0]) == r.num_samples
)");
  const std::string command =
      "cd " + folder.path().string() + " && " + python + " read.py mixed jpg large > read.log 2>&1";
  REQUIRE(std::system(command.c_str()) == 0);
  for (const std::string name : {"mixed", "jpg", "large"}) {
    const BetonFile file(folder / (name + ".beton"));
    std::ifstream lines(folder / (name + ".txt"));
    JpegDecoder decoder;
    for (int64_t row = 0; row < file.samples(); ++row) {
      const auto image = file.image(row, 0);
      int64_t label = 0;
      ImageSize size;
      std::string hash;
      REQUIRE(lines >> label >> size.width >> size.height >> hash);
      CHECK(label == file.integer(row, 1));
      CHECK(size == image.size);
      std::string ours;
      if (image.jpeg) {
        const auto part = decoder.decode(
            image.bytes, {.region = {0, 0, size.height, size.width}, .dct = Dct::fast});
        Bytes pixels;
        for (int64_t y = 0; y < size.height; ++y) {
          pixels.insert(pixels.end(), part.pixels.row(y), part.pixels.row(y) + size.width * 3);
        }
        ours = sha256_hex(pixels);
      } else {
        ours = sha256_hex(image.bytes);
      }
      CHECK(ours == hash);
    }
  }
}

}  // namespace composer::ffcv_reads_test
