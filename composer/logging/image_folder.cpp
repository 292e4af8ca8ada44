#include "composer/logging/image_folder.h"

#include <algorithm>
#include <fstream>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/files/atomic_file.h"
#include "base/log.h"
#include "base/params/foreign_json.h"
#include "composer/logging/png.h"

namespace composer {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

/// As part of a file's name.
std::string file_name(std::string name) {
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  std::ranges::replace_if(name, std::not_fn(is_plain), '_');
  return name;
}

}  // namespace

void ImageFolder::open(const RunInfo& info) {
  folder_ = info.folder;
  auto kept = ordered_json::array();
  std::ifstream before(folder_ / "images" / "index.json");
  const auto old =
      parse_foreign<ordered_json>(std::string(std::istreambuf_iterator<char>(before), {}));
  if (info.start.batch > 0 && old.is_object())
    for (const auto& image : old.value("images", ordered_json::array()))
      if (image.value("batch", int64_t{0}) <= info.start.batch) kept.push_back(image);
  index_ = kept.dump();
}

void ImageFolder::write_images(const ImageRecord& record) {
  try {
    put(record);
  } catch (const std::exception& problem) {
    log::warn("images of " + record.name + " are not kept: " + problem.what());
  }
}

void ImageFolder::put(const ImageRecord& record) {
  fs::create_directories(folder_ / "images");
  auto index = ordered_json::parse(index_);
  for (size_t i = 0; i < record.images.size(); ++i) {
    const auto file =
        fs::path("images") / (file_name(record.name) + "-ba" + std::to_string(record.time.batch) +
                              "-" + std::to_string(i) + ".png");
    write_png(folder_ / file, png(record.images[i]));
    index.push_back({{"file", file.string()},
                     {"name", record.name},
                     {"epoch", record.time.epoch},
                     {"batch", record.time.batch},
                     {"caption", record.images[i].caption}});
  }
  index_ = index.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
  write_whole(folder_ / "images" / "index.json", "{\"images\": " + index_ + "}\n");
}

}  // namespace composer
