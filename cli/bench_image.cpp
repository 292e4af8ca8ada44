// The subcommand bench image: single operations on images in memory, on one thread.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/error.h"
#include "cli/arguments.h"
#include "cli/bench.h"
#include "data/formats/decode.h"
#include "data/jpeg/decoder.h"
#include "data/pixels/resize.h"

namespace composer {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

struct ImageSetting {
  std::string source, filter = "triangle";
  int64_t resolution = 224, images = 100, repeats = 5;
  bool json = false;
};

struct BenchImages {
  std::vector<std::vector<uint8_t>> files;
  std::vector<Image> decoded;
};

struct Operation {
  const char* name;
  const char* what;
  std::function<void(size_t image)> run;
};

BenchImages read_images(const ImageSetting& setting) {
  if (!fs::is_directory(setting.source))
    throw UserError("--source: no such folder: " + setting.source);
  std::vector<fs::path> paths;
  for (const auto& entry : fs::recursive_directory_iterator(setting.source)) {
    std::string extension = entry.path().extension().string();
    std::transform(extension.begin(), extension.end(), extension.begin(), ::tolower);
    if (extension == ".jpg" || extension == ".jpeg") paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  if (paths.size() > static_cast<size_t>(setting.images))
    paths.resize(static_cast<size_t>(setting.images));
  BenchImages images;
  for (const auto& path : paths) {
    std::ifstream file(path, std::ios::binary);
    std::vector<uint8_t> bytes{std::istreambuf_iterator<char>(file), {}};
    Image image;
    try {
      decode_image(bytes, image);
    } catch (const RunError& error) {
      throw UserError(path.string() + ": " + error.what());
    }
    images.files.push_back(std::move(bytes)), images.decoded.push_back(std::move(image));
  }
  if (images.files.empty())
    throw UserError("--source: no file ends in .jpg or .jpeg below " + setting.source);
  return images;
}

/// A crop like those of RandomResizedCrop; benchmarks/pillow_image_ops.py has the same crops.
Box crop_of(size_t index, const Image& image) {
  const auto part = [&](double step) {
    const double x = static_cast<double>(index + 1) * step;
    return x - std::floor(x);
  };
  const auto height = static_cast<double>(image.height), width = static_cast<double>(image.width);
  const double area = height * width * (0.08 + 0.92 * part(0.6180339887));
  const double ratio = std::exp((2 * part(0.7548776662) - 1) * std::log(4.0 / 3.0));
  const auto w = static_cast<int64_t>(std::min(width, std::max(1.0, std::sqrt(area * ratio))));
  const auto h = static_cast<int64_t>(std::min(height, std::max(1.0, std::sqrt(area / ratio))));
  const auto top = static_cast<int64_t>(part(0.5698402910) * static_cast<double>(image.height - h));
  const auto left = static_cast<int64_t>(part(0.4301597090) * static_cast<double>(image.width - w));
  return {top, left, h, w};
}

Area area_of(ImageSize size) {
  return {0, 0, static_cast<double>(size.height), static_cast<double>(size.width)};
}

std::vector<Operation> make_ops(const ImageSetting& setting, const BenchImages& images) {
  struct Workplace {
    Image image;
    JpegDecoder decoder;
    ResizePlan plan;
    std::vector<uint8_t> out;
  };
  const auto place = std::make_shared<Workplace>();
  const ImageSize size{setting.resolution, setting.resolution};
  const Box all{0, 0, size.height, size.width};
  place->out.resize(static_cast<size_t>(size.height * size.width * 3));
  const auto filter = resize_filter_words.at(setting.filter);
  const auto crop_resize = [=, &images](size_t i, bool decode) {
    const Box box = crop_of(i, images.decoded[i]);
    const ImageSize crop{box.height, box.width};
    place->plan.make(filter, crop, area_of(crop), size, all);
    const Box& part = place->plan.needed();
    const Box region{box.top + part.top, box.left + part.left, part.height, part.width};
    const ImageView pixels =
        decode
            ? place->decoder.decode(images.files[i], {.region = region}).pixels
            : images.decoded[i].view().crop(region.top, region.left, region.height, region.width);
    place->plan.run(pixels, i % 2 == 0, place->out.data());
  };
  return {
      {"decode", "whole JPEG to RGB",
       [=, &images](size_t i) { decode_image(images.files[i], place->image); }},
      {"resize", "the whole decoded image to the resolution",
       [=, &images](size_t i) {
         const Image& image = images.decoded[i];
         const ImageSize whole{image.height, image.width};
         place->plan.make(filter, whole, area_of(whole), size, all);
         const Box& part = place->plan.needed();
         place->plan.run(image.view().crop(part.top, part.left, part.height, part.width), false,
                         place->out.data());
       }},
      {"crop_resize_flip", "a part of the decoded image to the resolution, every other mirrored",
       [=](size_t i) { crop_resize(i, false); }},
      {"decode_crop_resize_flip", "the same from the JPEG, decoding only that part",
       [=](size_t i) { crop_resize(i, true); }},
  };
}

double images_per_second(const Operation& op, size_t count, int64_t repeats) {
  std::vector<double> rates;
  for (int64_t r = 0; r <= repeats; ++r) {  // the first round is the warm-up
    const double begin = steady_seconds();
    for (size_t i = 0; i < count; ++i) op.run(i);
    if (r > 0) rates.push_back(static_cast<double>(count) / (steady_seconds() - begin));
  }
  return median(rates);
}

}  // namespace

int bench_image_command(const Words& words) {
  CLI::App app("Decoding and resizing of JPEG files in memory, on one thread.", "bench image");
  ImageSetting setting;
  app.option_defaults()->always_capture_default();
  app.add_option("--source", setting.source, "a folder with JPEG files in it or below")->required();
  app.add_option("--resolution", setting.resolution, "height and width of the result")
      ->check(CLI::Range(1, 4096));
  app.add_option("--images", setting.images, "the most images; the first by name are used")
      ->check(positive());
  app.add_option("--filter", setting.filter, "triangle, bicubic: as Pillow; area: as FFCV")
      ->check(word_of({"triangle", "bicubic", "area"}));
  app.add_option("--repeats", setting.repeats, "number of rounds; their median is reported")
      ->check(positive());
  app.add_flag("--json", setting.json, "one JSON object on standard output");
  if (!parse(app, words)) return 0;

  const BenchImages images = read_images(setting);
  ordered_json result{{"source", setting.source},
                      {"images", images.files.size()},
                      {"resolution", setting.resolution},
                      {"filter", setting.filter}};
  for (const Operation& op : make_ops(setting, images)) {
    const double rate = images_per_second(op, images.files.size(), setting.repeats);
    result["images_per_s"][op.name] = rate;
    if (!setting.json)
      std::cout << op.name << ": " << rate << " images/s, " << 1e6 / rate << " us an image ("
                << op.what << ")\n";
  }
  if (setting.json) std::cout << result << '\n';
  return 0;
}

}  // namespace composer
