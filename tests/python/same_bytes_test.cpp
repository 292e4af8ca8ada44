// The Python package gives the batches that a recipe's data sets give.
#include <zlib.h>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "data/beton/write.h"
#include "data/datasets/image_folder.h"
#include "data/datasets/image_list.h"
#include "data/datasets/mds.h"
#include "data/datasets/sources.h"
#include "data/datasets/webdataset.h"
#include "tests/data/plain_batch.h"
#include "tests/data/same_photos.h"
#include "tests/python.h"

namespace composer::same_bytes_test {

using namespace composer::test;
using nlohmann::json;

namespace {

/// Three epochs as [N, the CRC-32 of the images, the classes].
json batches_of(const Dataset& set, const LoaderOptions& options) {
  const auto loader = set.open(options);
  loader->start(0, 0);
  json batches = json::array();
  for (int epoch = 0; epoch < 3; ++epoch)
    for (const auto& batch : rest_of_epoch(*loader))
      batches.push_back({batch.shape[0],
                         crc32(0, reinterpret_cast<const Bytef*>(batch.pixels.data()),
                               static_cast<uInt>(batch.pixels.size())),
                         batch.classes});
  return batches;
}

/// What the data set of `params`, and a Loader of `source` with `words`, give.
template <class Set>
void add(json& all, typename Set::Params params, const std::string& source, json words) {
  params.crop_size = 16;
  for (const int64_t ranks : {1, 2})
    for (int64_t rank = 0; rank < ranks; ++rank) {
      LoaderOptions options{.batch_size = 6, .seed = 3, .num_workers = 2, .rank = rank};
      options.world_size = ranks;
      if (words.contains("split"))
        options.split = Split{.val = words["split"], .evaluation = !params.is_train};
      if (words.contains("ffcv_exact")) options.ffcv_exact = true;
      const auto batches = batches_of(Set(params), options);
      words.update({{"size", 16}, {"seed", 3}, {"rank", rank}, {"world_size", ranks}});
      words["batch_size"] = 6 / ranks;
      all.push_back({{"source", source}, {"words", words}, {"batches", batches}});
    }
}

}  // namespace

TEST_CASE("Python's loader gives the batches of recipes", "[python][peer]") {
  if (!has_python() || !fs::exists(PYTHON_PACKAGES "/composer_loader/libcomposer_loader.so")) {
    WARN("skipped: the peers of tests/peers.txt are not installed, or the package is not built");
    return;
  }
  const SamePhotos photos;
  json all = json::array();
  const auto at = [&](auto params, const char* folder) {
    params.datadir = photos / folder;
    return params;
  };
  const auto source = open_source(photos / "folders", true);
  write_beton(*source, photos / "set.beton", {});
  FolderParams beton = at(FolderParams(), "set.beton");
  const json none = json::object();
  const std::string folders = photos / "folders";
  add<ImageFolderDataset>(all, beton, photos / "set.beton", none);
  add<ImageFolderDataset>(all, beton, photos / "set.beton", {{"ffcv_exact", true}});
  add<ImageFolderDataset>(all, at(FolderParams(), "folders"), folders, none);
  add<WebDataset>(all, at(WebDatasetParams(), "tar"), photos / "tar", none);
  add<MdsDataset>(all, at(MdsParams(), "mds"), photos / "mds", none);
  ImageListParams list;
  list.file = photos / "folders/list.csv";
  add<ImageListDataset>(all, list, list.file, none);

  FolderParams other = at(FolderParams(), "folders");
  other.transforms.flip = 0, other.transforms.brightness = 0.4, other.views = 3;
  other.order = "class_balanced";
  add<ImageFolderDataset>(all, other, folders,
                          {{"pipeline", {{"flip", 0}, {"brightness", 0.4}}},
                           {"views", 3},
                           {"order", "class_balanced"}});
  FolderParams rows = at(FolderParams(), "folders");
  rows.rows = "0-9,19,20,22-", rows.drop_last = false;
  add<ImageFolderDataset>(all, rows, folders, {{"rows", rows.rows}, {"drop_last", false}});
  FolderParams evaluation = at(FolderParams(), "folders");
  evaluation.is_train = evaluation.shuffle = evaluation.drop_last = false;
  evaluation.resize_size = 20;
  add<ImageFolderDataset>(all, evaluation, folders, {{"pipeline", "eval"}, {"resize_size", 20}});
  evaluation.resize_size = -1;
  add<ImageFolderDataset>(all, evaluation, folders, {{"pipeline", "eval"}, {"split", 0.3}});
  write_file(photos / "expected.json", all.dump());
  CHECK_NOTHROW(output_of("tests/python/same_bytes.py",
                          std::string(PYTHON_PACKAGES) + " " + photos.path().string()));
}

}  // namespace composer::same_bytes_test
