// The keys of recipes about reading data: `dataloader`, `split` and `remote`.
#pragma once

#include <cstdint>
#include <string>

#include "base/loading/loader_options.h"
#include "base/params/params.h"
#include "base/remote/remote_options.h"

namespace composer {

template <>
struct FieldType<OnBadSample> : FieldType<std::string> {};

inline void read_value(const Value& value, const Rules& rules, const std::string& path,
                       OnBadSample& out, Problems& problems) {
  const size_t before = problems.size();
  std::string word;
  read_value(value, rules, path, word, problems);
  if (problems.size() == before) out = on_bad_sample_words.at(word);
}

inline Value write_value(const OnBadSample& value) {
  return Value::scalar(on_bad_sample_word(value));
}

/// The loader's options that a recipe gives; loader_options() sets the others.
struct DataloaderOptions : LoaderOptions {
  bool persistent_workers = true;
  double timeout = 0;

  DataloaderOptions() { num_workers = 8, pin_memory = true; }

  void fields(auto&& f) {
    f("num_workers", num_workers, "threads of a rank that read and decode; 0 = the training thread",
      at_least(0));
    f("prefetch_factor", prefetch_factor, "batches kept ready", at_least(1));
    f("pin_memory", pin_memory, "page-locked batches, which copy faster to a GPU");
    f("persistent_workers", persistent_workers,
      "known to Composer's recipes; here threads always live as long as the run");
    f("timeout", timeout,
      "known to Composer's recipes; no effect here: a failed worker ends the wait by itself",
      at_least(0));
    f("on_bad_sample", on_bad_sample,
      "what a sample that cannot be read does: end the run, be left out, or be replaced by the "
      "next",
      one_of("error", "skip", "replace"));
    f("resize_filter", resize_filter,
      "triangle is torchvision's (antialiased bilinear), which published accuracies were reached "
      "with; bicubic is Pillow's, with which most of timm's weights are evaluated; area is FFCV's",
      one_of("triangle", "bicubic", "area"));
    f("ffcv_exact", ffcv_exact,
      "the very pixels FFCV gives: its rough JPEG arithmetic, its area filter, its centre crop");
    f("crop_index", crop_index,
      "where it is kept what lets the loader decode only a JPEG's crop: by the data, in the user's "
      "cache (what lies by the data is read too), or nowhere",
      one_of("beside", "cache", "off"));
    f("index_dir", index_dir,
      "folder of crop_index: cache; none = composer in $XDG_CACHE_HOME, else in ~/.cache");
    f("coefficient_cache", coefficient_cache,
      "GB that the coefficients of JPEGs may take, which are kept where crop_index is, so that "
      "later "
      "epochs decode faster; 0 = none",
      at_least(0));
  }

  std::string check() const {
    if (coefficient_cache > 0 && crop_index == "off")
      return "coefficient_cache: needs a crop_index; off keeps none\n";
    if (index_dir.empty() || crop_index == "cache") return "";
    return "index_dir: needs crop_index: cache; " + crop_index +
           (crop_index == "off" ? " keeps no index\n" : " keeps the index by the data\n");
  }
};

/// A split of one data set into a part for training and a part for evaluation.
struct SplitOptions {
  double val = 0;
  int64_t seed = 1;

  void fields(auto&& f) {
    f("val", val,
      "share of each class of train_dataset that is evaluated on and not trained on, in place of a "
      "val_dataset; 0 = none; to train it is at most 0.9, to evaluate 1 = all of them",
      in(0, 1));
    f("seed", seed, "other samples for each number", in(0, 4294967295.0));
  }
  bool operator==(const SplitOptions& other) const {
    return val == other.val && (val == 0 || seed == other.seed);
  }
};

/// Access to s3:// and https:// addresses.
struct RemoteKeys {
  std::string endpoint_url, region, cache_dir;
  double cache_limit = 0;

  void fields(auto&& f) {
    f("endpoint_url", endpoint_url,
      "of an S3-compatible store; none = AWS_ENDPOINT_URL, else that of ~/.aws, else Amazon's");
    f("region", region, "of the bucket; none = AWS_REGION, else that of ~/.aws");
    f("cache_dir", cache_dir,
      "folder for copies of what is read; none = composer in $XDG_CACHE_HOME, else in ~/.cache");
    f("cache_limit", cache_limit,
      "GB that these copies may take; 0 = as much as the disk has to spare", at_least(0));
  }
  operator RemoteOptions() const {
    return {endpoint_url, region, cache_dir, static_cast<uint64_t>(cache_limit * 1e9)};
  }
};

}  // namespace composer
