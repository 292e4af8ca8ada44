// Files that FFCV 1.0.2 wrote, against what FFCV itself reads from them.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>

#include "data/beton/beton.h"
#include "data/files/digest.h"
#include "data/pixels/resize.h"
#include "data/samples/transform.h"
#include "tests/files.h"

namespace composer::beton_fixtures_test {

using namespace composer::test;
using nlohmann::json;

namespace {

fs::path fixtures() { return shared_data() / ".." / "fixtures"; }

/// What FFCV read from each file, by the .beton file's path; empty where there are none.
std::vector<std::pair<fs::path, json>> all_fixtures() {
  std::vector<std::pair<fs::path, json>> found;
  for (const auto& folder : {fixtures(), fixtures() / "photos"}) {
    if (!fs::is_directory(folder)) continue;
    for (const auto& entry : fs::directory_iterator(folder)) {
      if (entry.path().extension() != ".json") continue;
      std::ifstream file(entry.path());
      found.emplace_back(fs::path(entry.path()).replace_extension(".beton"), json::parse(file));
    }
  }
  if (found.empty()) WARN("skipped: no .beton files of FFCV's in " << fixtures().string());
  return found;
}

std::string hash_of(const ImageView& image) {
  Digest hash("sha256");
  for (int64_t y = 0; y < image.height; ++y)
    hash.update({image.row(y), static_cast<size_t>(image.width * image.channels)});
  return hash.hex();
}

std::string hash_of_center(const ImageView& image, int64_t length, double ratio) {
  const ImageSize whole{image.height, image.width}, size{length, length};
  const Box crop = ffcv_center_crop(whole, ratio);
  const Area area{static_cast<double>(crop.top), static_cast<double>(crop.left),
                  static_cast<double>(crop.height), static_cast<double>(crop.width)};
  ResizePlan plan;
  plan.make(ResizeFilter::area, whole, area, size, {0, 0, length, length});
  const Box needed = plan.needed();
  std::vector<uint8_t> out(static_cast<size_t>(length * length * image.channels));
  plan.run(image.crop(needed.top, needed.left, needed.height, needed.width), false, out.data());
  return sha256_hex(out);
}

void check_field(const BetonFile& file, int64_t row, size_t field, const json& wanted,
                 JpegDecoder& decoder) {
  switch (file.fields()[field].type) {
    case BetonType::integer:
      CHECK(file.integer(row, field) == wanted.get<int64_t>());
      return;
    case BetonType::real:
      CHECK(file.real(row, field) == wanted.get<double>());
      return;
    case BetonType::image: {
      const auto image = file.image(row, field);
      CHECK(image.jpeg == (wanted["mode"] == 0));
      CHECK(image.size.width == wanted["width"].get<int64_t>());
      CHECK(image.size.height == wanted["height"].get<int64_t>());
      CHECK(image.bytes.size() == wanted["size"].get<size_t>());
      CHECK(file.page(row, field) == wanted["ptr"].get<uint64_t>() / file.page_size());
      CHECK(sha256_hex(image.bytes) == wanted["sha_stored"].get<std::string>());
      CHECK(hash_of(decode_whole(image, Dct::fast, decoder)) ==
            wanted["sha_decoded"].get<std::string>());
      return;
    }
    default: {
      const auto bytes = file.bytes(row, field);
      std::vector<uint8_t> stored(bytes.begin(), bytes.end());
      if (file.fields()[field].type == BetonType::json) stored.push_back(0);
      CHECK(stored.size() == wanted["size"].get<size_t>());
      // For an empty region FFCV may take the next one's bytes.
      if (wanted.value("alloc_size", wanted["size"]) == wanted["size"])
        CHECK(sha256_hex(stored) == wanted["sha_stored"].get<std::string>());
    }
  }
}

/// Writes several pages by three processes, JPEGs and pixels mixed, and what FFCV reads from them.
/// No empty bytes: FFCV takes their length for that of the JPEG which follows.
const char* const kFfcvScript = R"(
import hashlib, json
import numpy as np
from ffcv.fields import BytesField, FloatField, IntField, JSONField, NDArrayField, RGBImageField
from ffcv.fields.decoders import IntDecoder, NDArrayDecoder, SimpleRGBImageDecoder
from ffcv.loader import Loader, OrderOption
from ffcv.writer import DatasetWriter

class Samples:
    def __len__(self): return 300
    def __getitem__(self, i):
        random = np.random.default_rng(int(i))
        y, x = np.mgrid[0:64, 0:96]
        image = (np.stack([x * 2 + i, y * 3, x + y], 2) + random.integers(0, 40, (64, 96, 3))) % 256
        return (int(i) - 7, np.frombuffer(b'b' * (int(i) % 5 + 1), 'u1'), image.astype('u1'),
                random.standard_normal((2, 3)).astype('f4'), {'i': int(i)}, float(i) / 3)

if __name__ == '__main__':
    fields = dict(label=IntField(), blob=BytesField(),
                  image=RGBImageField('proportion', compress_probability=0.5, jpeg_quality=90),
                  vec=NDArrayField(np.dtype('f4'), (2, 3)), info=JSONField(), w=FloatField())
    DatasetWriter('f.beton', fields, page_size=1 << 21, num_workers=3).from_indexed_dataset(
        Samples(), chunksize=7)
    loader = Loader('f.beton', batch_size=50, num_workers=2, order=OrderOption.SEQUENTIAL,
                    pipelines=dict(label=[IntDecoder()], image=[SimpleRGBImageDecoder()],
                                   vec=[NDArrayDecoder()], blob=None, info=None, w=None))
    read = []
    for label, image, vec in loader:
        sha = lambda a: hashlib.sha256(np.ascontiguousarray(a).tobytes()).hexdigest()
        read += [[int(l), sha(i), sha(v)] for l, i, v in zip(label[:, 0], image, vec)]
    json.dump(read, open('read.json', 'w'))
)";

}  // namespace

TEST_CASE("FFCV's own files hold what FFCV reads from them", "[data]") {
  JpegDecoder decoder;
  for (const auto& [path, wanted] : all_fixtures()) {
    INFO(path.string());
    const BetonFile file(path);
    CHECK(file.samples() == wanted["num_samples"].get<int64_t>());
    CHECK(file.regions() == wanted["alloc_entries"].get<int64_t>());
    CHECK(file.page_size() == wanted["page_size"].get<uint64_t>());
    const auto& fields = wanted["fields"];
    REQUIRE(file.fields().size() == fields.size());
    for (size_t f = 0; f < fields.size(); ++f) {
      CHECK(file.fields()[f].name == fields[f]["name"].get<std::string>());
      CHECK(static_cast<int>(file.fields()[f].type) == fields[f]["type_id"].get<int>());
      CHECK(file.fields()[f].offset == fields[f]["offset"].get<uint64_t>());
      CHECK(file.fields()[f].dtype == fields[f].value("dtype", ""));
      CHECK(file.fields()[f].shape == fields[f].value("shape", std::vector<int64_t>()));
    }
    for (int64_t row = 0; row < file.samples(); ++row) {
      const auto& sample = wanted["samples"][static_cast<size_t>(row)];
      for (size_t f = 0; f < fields.size(); ++f) {
        INFO("sample " << row << ", field " << file.fields()[f].name);
        check_field(file, row, f, sample[file.fields()[f].name], decoder);
      }
    }
  }
}

TEST_CASE("centre crops of FFCV's files are FFCV's bytes", "[data]") {
  JpegDecoder decoder;
  for (const auto& [path, wanted] : all_fixtures()) {
    const BetonFile file(path);
    const auto field = file.find_field(BetonType::image);
    if (!field) continue;
    for (int64_t row = 0; row < file.samples(); ++row) {
      INFO(path.string() << ", sample " << row);
      const auto image = decode_whole(file.image(row, *field), Dct::fast, decoder);
      const auto& hashes = wanted["samples"][static_cast<size_t>(row)][file.fields()[*field].name];
      CHECK(hash_of_center(image, 224, 224.0 / 256) ==
            hashes["sha_center224_r0875"].get<std::string>());
      CHECK(hash_of_center(image, 64, 1.0) == hashes["sha_center64_r1"].get<std::string>());
    }
  }
}

TEST_CASE("what FFCV writes now, by several processes, is read as FFCV reads it", "[data][peer]") {
  const char* const python = std::getenv("COMPOSER_FFCV_PYTHON");
  if (python == nullptr) {
    WARN("skipped: COMPOSER_FFCV_PYTHON does not name a Python that has FFCV");
    return;
  }
  const TemporaryFolder folder;
  write_file(folder / "script.py", kFfcvScript);
  REQUIRE(std::system(("cd " + folder.path().string() + " && " + python + " script.py").c_str()) ==
          0);
  const auto read = json::parse(read_bytes(folder / "read.json"));
  const BetonFile file(folder / "f.beton");
  REQUIRE(file.samples() == 300);
  JpegDecoder decoder;
  int64_t jpegs = 0;
  std::set<uint64_t> pages;
  for (int64_t row = 0; row < 300; ++row) {
    const auto& wanted = read[static_cast<size_t>(row)];
    const auto image = file.image(row, 2);
    jpegs += image.jpeg;
    pages.insert(file.page(row, 2));
    CHECK(file.integer(row, 0) == wanted[0].get<int64_t>());
    CHECK(file.bytes(row, 1).size() == static_cast<size_t>(row % 5 + 1));
    CHECK(hash_of(decode_whole(image, Dct::fast, decoder)) == wanted[1].get<std::string>());
    CHECK(sha256_hex(file.bytes(row, 3)) == wanted[2].get<std::string>());
    const auto text = file.bytes(row, 4);
    CHECK(json::parse(text.begin(), text.end()) == json{{"i", row}});
    CHECK(file.real(row, 5) == static_cast<double>(row) / 3);
  }
  CHECK(jpegs > 0);
  CHECK(jpegs < 300);
  CHECK(pages.size() > 2);
}

}  // namespace composer::beton_fixtures_test
