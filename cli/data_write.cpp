// The subcommand data write: images -> a .beton file.
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>

#include "base/error.h"
#include "base/log.h"
#include "base/process/interrupt.h"
#include "base/remote/object_store.h"
#include "base/remote/remote_path.h"
#include "base/text.h"
#include "cli/arguments.h"
#include "cli/output_file.h"
#include "cli/sources.h"
#include "cli/write_progress.h"
#include "data/beton/source.h"
#include "data/beton/write.h"
#include "data/datasets/cifar10.h"
#include "data/datasets/image_folder.h"
#include "data/datasets/image_list.h"
#include "data/datasets/mds.h"
#include "data/datasets/mnist.h"
#include "data/datasets/webdataset.h"
#include "data/samples/order.h"

namespace composer {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

struct Setting {
  std::string format, source, output, split = "train", rows, mode, page_size = "auto",
                                      on_bad_sample = "error", image = "auto", label = "auto",
                                      classes, images_dir;
  std::vector<std::string> targets;
  std::optional<uint64_t> shuffle;
  int64_t subset = -1, max_resolution = -1, smart_threshold = -1, chunk_size = 0;
  bool index = true, overwrite = false, json = false;
  WriteOptions write;
};

void add_options(CLI::App& app, Setting& s) {
  app.option_defaults()->always_capture_default();
  app.add_option(
         "--format,--dataset", s.format,
         "what the source is: image_folder (also: imagenet), cifar10 (cifar), mnist, beton, "
         "webdataset, mds,\ncsv (also: tsv, jsonl; a list of images, whose ending says which)")
      ->required()
      ->check(word_of({"image_folder", "imagenet", "cifar10", "cifar", "mnist", "beton",
                       "webdataset", "mds", "csv", "tsv", "jsonl"}));
  app.add_option(
         "--source,--datadir", s.source,
         "folder of the data set, a .beton file, tar files as in a-{000..146}.tar, or a list")
      ->required();
  app.add_option(
      "--image", s.image,
      "what the images are: ending of webdataset's files, column of mds, of the paths of "
      "a list; auto: the\none that can be it");
  app.add_option("--label", s.label, "likewise what the classes are");
  app.add_option("--targets", s.targets,
                 "numbers that are written in place of the class, each as a field of its own "
                 "(docs/targets.md): columns of\na list or of mds, endings or json.NAME of "
                 "webdataset's files, fields of a .beton file")
      ->default_str("");
  app.add_option("--classes", s.classes,
                 "names of a list's labels: a file with a name a line, or another list");
  app.add_option("--images_dir", s.images_dir,
                 "the folder that a list's paths begin in (default: the list's)");
  app.add_option("--output,--write_path", s.output,
                 "the .beton file to write: a path, or s3://bucket/key")
      ->required();
  app.add_option("--split", s.split, "train or val; a .beton file has no parts")
      ->check(word_of({"train", "val"}));
  app.add_option("--subset", s.subset, "only the first N samples; -1 = all");
  app.add_option("--rows", s.rows, "only these samples, in this order: 0-99,200,300-");
  app.add_option("--shuffle", s.shuffle,
                 "a seed: the rows are written in a random order, which quasi-random reading needs")
      ->default_str("");
  app.add_option(
         "--write_mode", s.mode,
         "raw pixels; jpg; proportion: jpg with --compress_probability, else raw; smart: jpg "
         "where the pixels have more bytes\nthan --smart_threshold; keep: JPEG files stay "
         "JPEG, pixels stay raw. Default: jpg from folders, else keep")
      ->check(word_of({"keep", "raw", "jpg", "proportion", "smart"}));
  app.add_option("--max_resolution", s.max_resolution,
                 "images with a longer side are shrunk to it; -1 = none");
  app.add_option("--smart_threshold", s.smart_threshold, "bytes, for --write_mode smart")
      ->default_str("");
  app.add_option("--jpeg_quality", s.write.pack.jpeg_quality, "quality of encoded images")
      ->check(CLI::Range(1, 100));
  app.add_option("--compress_probability", s.write.pack.compress_probability,
                 "probability of JPEG in --write_mode proportion")
      ->check(CLI::Range(0., 1.));
  app.add_option("--passthrough", s.write.pack.passthrough,
                 "true: JPEG files that are small enough are taken over without loss; false: they "
                 "are encoded again");
  app.add_option("--index", s.index,
                 "true: also writes the side file OUTPUT.index; false is quicker, and finds damage "
                 "within a JPEG "
                 "only by its markers");
  app.add_option("--page_size", s.page_size,
                 "bytes, a power of two; auto: 8 MiB, and larger once an image needs it");
  app.add_option("--num_workers", s.write.num_workers,
                 "threads; 0 = one for each processor. The file does not depend on it")
      ->check(CLI::Range(0, 1024));
  app.add_option("--seed", s.write.pack.seed, "seed of the draws of --write_mode proportion");
  app.add_option("--on_bad_sample", s.on_bad_sample,
                 "error; skip: no row; replace: a row with image and label of the nearest good "
                 "sample before it (for the first ones: after)")
      ->check(CLI::IsMember(on_bad_sample_words));
  app.add_option("--chunk_size", s.chunk_size, "accepted, without effect")->default_str("");
  app.add_flag("--overwrite", s.overwrite, "replaces an existing file");
  app.add_flag("--json", s.json, "one JSON object on standard output");
}

/// The parameters of a data set. UserError when they contradict each other.
template <class Params>
const Params& checked(const Params& params) {
  std::istringstream problems(params.check());
  if (std::string first; std::getline(problems, first)) throw UserError("--" + first);
  return params;
}

/// Whether the source is not divided into training and validation parts.
bool names_one_part(const Setting& s) {
  if (s.format != "webdataset") return s.format == "beton" || s.format == "csv";
  std::error_code error;
  return is_remote(s.source) ? names_tar_files(s.source) : !fs::is_directory(s.source, error);
}

std::shared_ptr<Source> open(const Setting& s) {
  const bool is_train = s.split == "train";
  const bool has_numbers =
      s.format == "webdataset" || s.format == "mds" || s.format == "csv" || s.format == "beton";
  if (!s.targets.empty() && !has_numbers)
    throw UserError("--targets: needs --format webdataset, mds, csv or beton; " + s.format +
                    " has only classes");
  std::error_code error;
  if (names_one_part(s) && s.format == "webdataset") {
    WebDatasetParams shards;
    shards.shards = s.source, shards.image = s.image, shards.label = s.label;
    shards.ffcv.targets = s.targets;
    return checked(shards).open("").source;
  }
  if (!is_remote(s.source) && !fs::exists(s.source, error))
    throw UserError("--source: there is no file or folder '" + s.source + "'" +
                    slash_hint(s.source));
  if (s.format == "beton") return std::make_shared<BetonSource>(s.source, 3, s.targets);
  if (s.format == "mnist") return open_mnist(s.source, is_train);
  if (s.format.starts_with("cifar")) return open_cifar10(s.source, is_train);
  const auto open = [&](auto params) {
    params.datadir = s.source, params.is_train = is_train;
    params.image = s.image, params.label = s.label, params.ffcv.targets = s.targets;
    return checked(params).open("").source;
  };
  if (s.format == "webdataset") return open(WebDatasetParams());
  if (s.format == "mds") return open(MdsParams());
  if (s.format == "csv") {
    ImageListParams list;
    list.file = s.source, list.path = s.image, list.label = s.label, list.classes = s.classes;
    list.images_dir = s.images_dir, list.ffcv.targets = s.targets;
    return checked(list).open("", s.write.on_bad_sample).source;
  }
  FolderParams params;
  params.datadir = s.source;
  params.is_train = is_train;
  return open_class_folders(params, s.write.on_bad_sample);
}

WriteMode mode_of(const Setting& s) {
  if (!s.mode.empty()) return write_mode_words.at(s.mode);
  const bool pixels = s.format == "mnist" || s.format.starts_with("cifar") || s.format == "beton";
  return pixels ? WriteMode::keep : WriteMode::jpg;
}

uint64_t page_size_of(const std::string& text) {
  if (text == "auto") return 0;
  if (const auto bytes = to_number<uint64_t>(text).value_or(0); bytes > 0) return bytes;
  throw UserError("--page_size: '" + text + "' is neither auto nor a number of bytes");
}

std::optional<int64_t> at_least_one(const char* name, int64_t value) {
  if (value == -1) return std::nullopt;
  if (value < 1) throw UserError(std::string(name) + ": must be at least 1, or -1 for none");
  return value;
}

void check_output(const Setting& s) {
  if (!is_remote(s.output)) return check_output_file(s.output, s.overwrite);
  const RemotePath path(s.output);
  if (path.scheme() != RemotePath::Scheme::s3)
    throw UserError("--output: " + path.text() + ": only s3://bucket/key can be written");
  if (path.is_folder()) throw UserError("--output: '" + path.text() + "' is a folder");
  if (open_store(path)->stat(path.key()) && !s.overwrite)
    throw UserError("--output: '" + path.text() + "' exists; --overwrite replaces it");
}

void log_bad(const WriteReport& report, const std::string& what) {
  constexpr size_t max_lines = 20;
  for (size_t i = 0; i < std::min(report.bad.size(), max_lines); ++i)
    log::warn(what + ": " + report.bad[i].first + ": " + report.bad[i].second);
  if (report.bad.size() > max_lines)
    log::warn("... and " + std::to_string(report.bad.size() - max_lines) + " more");
}

void print(const Setting& s, const WriteReport& report, double seconds) {
  const auto per_minute = static_cast<int64_t>(60 * static_cast<double>(report.rows) / seconds);
  const bool skips = s.on_bad_sample == "skip";
  const auto bad = static_cast<int64_t>(report.bad.size());
  const std::vector<std::pair<const char*, int64_t>> counts{{"passed_through", report.passed},
                                                            {"transcoded", report.transcoded},
                                                            {"rotated", report.rotated},
                                                            {"encoded", report.encoded},
                                                            {"raw", report.raw},
                                                            {"resized", report.resized},
                                                            {"skipped", skips ? bad : 0},
                                                            {"replaced", skips ? 0 : bad}};
  if (s.json) {
    ordered_json json{{"output", s.output},
                      {"items", report.rows},
                      {"items_per_min", per_minute},
                      {"seconds", seconds},
                      {"bytes", report.bytes}};
    for (const auto& [name, count] : counts) json[name] = count;
    std::cout << json << '\n';
    return;
  }
  std::cout << s.output << ": " << report.rows << " rows, " << report.bytes << " bytes, "
            << per_minute << " items/min";
  for (const auto& [name, count] : counts)
    if (count > 0) std::cout << ", " << count << ' ' << name;
  std::cout << '\n';
}

/// Reads, packs and writes the samples. seconds: the time that took.
WriteReport write(const Source& source, Setting& s, double& seconds) {
  const InterruptGuard guard;
  WriteProgress progress;
  s.write.progress = [&](int64_t done, int64_t total) {
    if (const int signal = received_signal()) throw Interrupted{signal};
    progress.show(done, total);
  };
  auto report = write_with_side_file(source, s.output, s.write, s.index);
  seconds = progress.seconds();
  return report;
}

void warn_of_options_without_effect(const CLI::App& app, const Setting& s) {
  const WriteMode mode = s.write.pack.mode;
  const auto warn = [&](const char* option, bool useful, const char* why) {
    if (app.count(option) > 0 && !useful) log::warn(std::string(option) + " has no effect" + why);
  };
  warn("--chunk_size", false, "");
  warn("--split", !names_one_part(s), ": the source is one part");
  const bool has_columns = s.format == "webdataset" || s.format == "mds" || s.format == "csv";
  warn("--image", has_columns, " with this format");
  warn("--label", has_columns, " with this format");
  for (const char* option : {"--classes", "--images_dir"})
    warn(option, s.format == "csv", " without --format csv");
  warn("--smart_threshold", mode == WriteMode::smart, " without --write_mode smart");
  warn("--compress_probability", mode == WriteMode::proportion, " without --write_mode proportion");
  warn("--seed", mode == WriteMode::proportion, " without --write_mode proportion");
  warn("--jpeg_quality", mode != WriteMode::raw, " with --write_mode raw");
  warn("--passthrough", mode != WriteMode::raw, " with --write_mode raw");
}

}  // namespace

int data_write_command(const Words& words) {
  CLI::App app("Writes images as a .beton file, FFCV's format.", "data write");
  Setting s;
  add_options(app, s);
  if (!parse(app, words)) return 0;
  if (s.format == "tsv" || s.format == "jsonl") s.format = "csv";

  s.write.pack.mode = mode_of(s);
  s.write.pack.max_resolution = at_least_one("--max_resolution", s.max_resolution);
  if (s.smart_threshold >= 0) s.write.pack.smart_threshold = s.smart_threshold;
  if (s.write.pack.mode == WriteMode::smart && s.smart_threshold < 0)
    throw UserError("--write_mode smart needs --smart_threshold, a number of bytes");
  s.write.pack.index = s.index;
  s.write.page_size = page_size_of(s.page_size);
  s.write.on_bad_sample = on_bad_sample_words.at(s.on_bad_sample);
  check_output(s);
  const auto source = open(s);
  const int64_t samples = source->size();
  if (!s.rows.empty()) s.write.rows = parse_rows(s.rows, samples, "--rows");
  s.write.rows = rows_to_write(std::move(s.write.rows), samples, at_least_one("--subset", s.subset),
                               s.shuffle);
  warn_of_options_without_effect(app, s);
  double seconds = 0;
  std::optional<ObjectUpload> upload;
  const std::string output = s.output;
  if (is_remote(output)) {
    upload.emplace(output);
    s.output = upload->file().string();
    s.index = false;  // a side file is for local files only
  }
  try {
    const auto report = write(*source, s, seconds);
    if (upload) upload->send();
    s.output = upload ? RemotePath(output).text() : output;
    log_bad(report, s.on_bad_sample == "skip" ? "skipped" : "replaced");
    print(s, report, seconds);
  } catch (const Interrupted&) {
    log::warn("interrupted; " + output + " was not written");
    throw;
  }
  return 0;
}

}  // namespace composer
