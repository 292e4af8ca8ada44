// The subcommand data, and its action info.
#include <algorithm>
#include <filesystem>
#include <iomanip>
#include <iostream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "base/remote/remote_path.h"
#include "base/text.h"
#include "cli/arguments.h"
#include "cli/sources.h"
#include "data/beton/source.h"
#include "data/datasets/photo_dataset.h"
#include "data/shards/shard_files.h"

namespace composer {
namespace {

using nlohmann::ordered_json;

const CommandTable actions{{"index", data_index_command},
                           {"info", data_info_command},
                           {"hash", data_hash_command},
                           {"verify", data_verify_command},
                           {"write", data_write_command}};

/// The name of FFCV's class for the field type.
const char* type_name(BetonType type) {
  switch (type) {
    case BetonType::real:
      return "Float";
    case BetonType::integer:
      return "Int";
    case BetonType::image:
      return "RGBImage";
    case BetonType::bytes:
      return "Bytes";
    case BetonType::array:
      return "NDArray";
    case BetonType::json:
      return "JSON";
    case BetonType::tensor:
      return "TorchTensor";
    case BetonType::custom:
      break;
  }
  return "custom";
}

/// The range and the mean of numbers.
template <class Number>
struct Spread {
  Number least = std::numeric_limits<Number>::max(), most = std::numeric_limits<Number>::lowest();
  double sum = 0;
  int64_t count = 0;

  void add(Number value) {
    least = std::min(least, value), most = std::max(most, value);
    sum += static_cast<double>(value), ++count;
  }
  ordered_json json() const {
    if (count == 0) return nullptr;
    return {{"min", least}, {"mean", sum / static_cast<double>(count)}, {"max", most}};
  }
};

ordered_json describe_images(const BetonFile& file, size_t field) {
  int64_t jpeg = 0, raw = 0, damaged = 0;
  std::string first_damage;
  Spread<int64_t> width, height, bytes;
  for (int64_t row = 0; row < file.samples(); ++row) {
    try {
      const auto image = file.image(row, field);
      ++(image.jpeg ? jpeg : raw);
      width.add(image.size.width), height.add(image.size.height);
      bytes.add(static_cast<int64_t>(image.bytes.size()));
    } catch (const RunError& error) {
      if (damaged++ == 0) first_damage = "sample " + std::to_string(row) + ": " + error.what();
    }
  }
  ordered_json images{{"jpeg", jpeg},          {"raw", raw},
                      {"width", width.json()}, {"height", height.json()},
                      {"bytes", bytes.json()}, {"damaged", damaged}};
  if (damaged > 0) images["first_damage"] = first_damage;
  return images;
}

/// counts: samples of each label. names: class names, may be empty. Lists the classes with one
/// sample, unless all classes have one.
ordered_json describe_labels(const std::string& field, const std::map<int64_t, int64_t>& counts,
                             const std::vector<std::string>& names = {}) {
  ordered_json labels{{"field", field}, {"distinct", counts.size()}};
  auto& histogram = labels["histogram"] = ordered_json::object();
  for (const auto& [label, count] : counts) histogram[std::to_string(label)] = count;
  if (!names.empty()) labels["names"] = names;
  auto& single = labels["single"] = ordered_json::array();
  const auto several = [](const auto& one) { return one.second > 1; };
  if (std::ranges::none_of(counts, several)) return labels;
  for (const auto& [label, count] : counts) {
    if (count > 1) continue;
    single.push_back(names.empty() ? ordered_json(label)
                                   : ordered_json(names.at(static_cast<size_t>(label))));
  }
  return labels;
}

ordered_json describe_labels(const BetonFile& file, size_t field) {
  std::map<int64_t, int64_t> counts;
  for (int64_t row = 0; row < file.samples(); ++row) ++counts[file.integer(row, field)];
  return describe_labels(file.fields()[field].name, counts);
}

ordered_json info_of(const BetonFile& file) {
  ordered_json json{
      {"path", file.path().string()},  {"bytes", file.file_bytes()}, {"version", 2},
      {"page_size", file.page_size()}, {"samples", file.samples()},  {"regions", file.regions()}};
  auto& fields = json["fields"] = ordered_json::array();
  for (size_t i = 0; i < file.fields().size(); ++i) {
    const auto& field = file.fields()[i];
    ordered_json one{{"name", field.name}, {"type", type_name(field.type)}};
    if (!field.dtype.empty()) one["shape"] = field.shape, one["dtype"] = field.dtype;
    if (field.type == BetonType::image) one["images"] = describe_images(file, i);
    fields.push_back(std::move(one));
  }
  const auto label = label_field(file);
  json["labels"] = label ? describe_labels(file, *label) : ordered_json();
  return json;
}

std::string text(const char* name, const ordered_json& spread) {
  std::ostringstream text;
  text << ", " << name << ' ' << spread["min"] << ".." << spread["max"] << " (mean " << std::fixed
       << std::setprecision(1) << spread["mean"].get<double>() << ')';
  return text.str();
}

void print_field(const ordered_json& field) {
  std::cout << "  " << std::left << std::setw(16) << field["name"].get<std::string>() << "  "
            << field["type"].get<std::string>();
  if (field.contains("dtype"))
    std::cout << ' ' << field["dtype"].get<std::string>() << ' ' << field["shape"].dump();
  std::cout << '\n';
  if (!field.contains("images")) return;
  const auto& images = field["images"];
  std::cout << "    " << images["jpeg"] << " JPEG, " << images["raw"] << " raw";
  for (const char* name : {"width", "height", "bytes"})
    if (!images[name].is_null()) std::cout << text(name, images[name]);
  std::cout << '\n';
  if (images["damaged"] != 0)
    std::cout << "    " << images["damaged"]
              << " damaged, the first: " << images["first_damage"].get<std::string>() << '\n';
}

void print_labels(const ordered_json& labels) {
  constexpr size_t max_lines = 100;
  const auto& histogram = labels["histogram"];
  const bool named = labels.contains("names");
  std::cout << "labels (" << labels["field"].get<std::string>()
            << "): " << labels["distinct"].get<size_t>() << (named ? " classes\n" : " values\n");
  size_t lines = 0;
  for (const auto& [label, count] : histogram.items()) {
    if (lines++ == max_lines) {
      std::cout << "  ... and " << histogram.size() - max_lines << " more: --json has all\n";
      break;
    }
    std::cout << "  " << std::right << std::setw(8) << label << "  " << count;
    if (named) std::cout << "  " << labels["names"].at(std::stoul(label)).get<std::string>();
    std::cout << (count == 1 && !labels["single"].empty() ? "  <- one sample\n" : "\n");
  }
  Words single;
  for (const auto& one : labels["single"])
    single.push_back(one.is_string() ? one.get<std::string>() : std::to_string(one.get<int64_t>()));
  if (!single.empty())
    std::cout << "classes with one sample, perhaps mistyped labels: " << first_few(single) << '\n';
}

/// The range and the mean of each value of the targets.
ordered_json describe_values(const Source& source) {
  const auto names = source.value_names();
  std::vector<float> row(names.size());
  std::vector<Spread<float>> spreads(names.size());
  for (int64_t i = 0; i < source.size(); ++i) {
    source.read_values(i, row);
    for (size_t k = 0; k < row.size(); ++k) spreads[k].add(row[k]);
  }
  auto values = ordered_json::object();
  for (size_t k = 0; k < names.size() && source.size() > 0; ++k)
    values[names[k]] = spreads[k].json();
  return values;
}

/// Describes class folders, shards or a list.
ordered_json info_of(const OpenedSet& set, const std::string& path) {
  const Source& source = *set.source;
  ordered_json json{{"path", path}, {"samples", source.size()}};
  if (source.paged_bytes() > 0) json["bytes"] = source.paged_bytes();
  if (source.num_values() > 0) {
    json["values"] = describe_values(source);
    return json;
  }
  std::map<int64_t, int64_t> counts;
  for (int64_t i = 0; i < source.size(); ++i) ++counts[label_of(source, i)];
  json["labels"] = describe_labels("label", counts, set.class_names);
  return json;
}

/// Opens local class folders, those of train/ if present; the source is null for any other path.
OpenedSet open_folders(const std::string& path) {
  std::error_code error;
  if (is_remote(path) || !std::filesystem::is_directory(path, error)) return {};
  FolderParams params;
  params.datadir = path;
  auto names = folder_classes(path);
  if (names.empty()) return {};
  return {open_class_folders(params, OnBadSample::skip), std::ssize(names), std::move(names)};
}

/// UserError with advice when the path is evidently no .beton file.
void refuse_other_files(const std::string& path) {
  std::error_code error;
  if (is_remote(path) || !std::filesystem::exists(path, error)) return;
  if (std::filesystem::is_directory(path, error))
    throw UserError(path + ": is a folder without tar files, MDS shards or class folders" +
                    compressed_tars_hint(path) +
                    "; composer data verify looks through images in folders");
  const auto name = lower_case(path);
  if (name.ends_with(".gz") || name.ends_with(".tgz"))
    throw UserError(path + ": is compressed; unpack it, tar files are read by ranges");
  if (name.ends_with(".json"))
    throw UserError(path + ": a list of JSON objects is .jsonl, one object a line");
}

void print_set(const ordered_json& info) {
  std::cout << info["path"].get<std::string>() << ": " << info["samples"] << " samples";
  if (info.contains("bytes")) std::cout << ", " << info["bytes"] << " bytes";
  std::cout << '\n';
  if (info.contains("labels")) return print_labels(info["labels"]);
  for (const auto& [name, spread] : info["values"].items())
    std::cout << "  " << name << ": " << spread["min"].get<double>() << ".."
              << spread["max"].get<double>() << " (mean " << spread["mean"].get<double>() << ")\n";
}

void print_beton(const ordered_json& info, const std::string& path) {
  std::cout << path << ": " << info["samples"] << " samples, " << info["bytes"]
            << " bytes, pages of " << info["page_size"] << " bytes\nfields:\n";
  for (const auto& field : info["fields"]) print_field(field);
  if (!info["labels"].is_null()) print_labels(info["labels"]);
}

}  // namespace

int data_info_command(const Words& words) {
  CLI::App app("Shows what a .beton file, class folders, shards or a list of images hold.",
               "data info");
  std::string path;
  app.add_option("file", path,
                 "a .beton file, local or remote; a tar file of WebDataset's, several by braces or "
                 "a folder of them; a "
                 "folder of\nMDS shards or of class folders; a list of images (.csv, .tsv, "
                 ".jsonl)")
      ->required();
  ShardColumns columns;
  add_shard_columns(app, columns);
  const auto& json = add_json(app);
  if (!parse(app, words)) return 0;

  auto set = open_shards(path, /*is_train=*/true, columns);
  if (!set.source) set = open_folders(path);
  if (!set.source) refuse_other_files(path);
  const auto info = set.source ? info_of(set, shown_path(path)) : info_of(BetonFile(path));
  if (json)
    std::cout << json_line(info) << '\n';
  else if (set.source)
    print_set(info);
  else
    print_beton(info, shown_path(path));
  return 0;
}

int data_command(const Words& words) { return dispatch("data", actions, words); }

}  // namespace composer
