#include "composer/checkpoint/dcp.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/error.h"
#include "base/files/atomic_file.h"
#include "base/params/foreign_json.h"

namespace composer {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* sharding_info = "DCP_SHARDING_INFO";
constexpr const char* number_of_shards = "composer_shards";

struct Shard {
  at::Tensor tensor;
  std::vector<int64_t> begin;
  std::string file;
};
using Shards = std::map<std::string, std::vector<Shard>>;

std::vector<fs::path> files_of(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (entry.path().extension() == ".safetensors") files.push_back(entry.path());
  std::ranges::sort(files);
  return files;
}

/// The offsets of the tensor's shard, from the file's metadata.
std::vector<int64_t> begin_of(const json& info, const std::string& name, const at::Tensor& piece,
                              const fs::path& file) {
  if (info.is_null()) return std::vector<int64_t>(static_cast<size_t>(piece.dim()), 0);
  try {
    auto begin = info.at(name).at("saved_offsets").get<std::vector<int64_t>>();
    int64_t end;
    bool good = std::ssize(begin) == piece.dim();
    for (size_t d = 0; good && d < begin.size(); ++d)
      good = begin[d] >= 0 && !__builtin_add_overflow(begin[d], piece.size(d), &end);
    if (good) return begin;
  } catch (const json::exception&) {
  }
  throw UserError(file.string() + ": " + sharding_info + " does not say where its piece of '" +
                  name + "' begins");
}

/// UserError if the names and metadata of the files show that some are missing.
void check_files(const std::vector<fs::path>& files) {
  std::map<std::string, std::pair<size_t, size_t>> series;  // how many are there, and should be
  const auto count = [&](const std::string& name, size_t wanted) {
    auto& [there, of_all] = series[name];
    ++there;
    of_all = wanted;
  };
  for (const auto& file : files) {
    const auto name = file.filename().string();
    unsigned number, of;
    char rest;
    if (std::sscanf(name.c_str(), "model-%5u-of-%5u.safetensors%c", &number, &of, &rest) == 2)
      count("model-*-of-" + std::to_string(of), of);
    const auto metadata = read_safetensors_metadata(file);
    if (const auto shards = metadata.find(number_of_shards); shards != metadata.end())
      count("shard-*-of-" + shards->second, std::strtoul(shards->second.c_str(), nullptr, 10));
  }
  for (const auto& [name, counts] : series)
    if (counts.first != counts.second)
      throw UserError(files[0].parent_path().string() + ": " + std::to_string(counts.first) +
                      " of " + std::to_string(counts.second) + " files are there (" + name +
                      ".safetensors)");
}

void add_pieces(Shards& all, const fs::path& file) {
  const auto metadata = read_safetensors_metadata(file);
  json info;
  if (const auto found = metadata.find(sharding_info); found != metadata.end()) {
    info = parse_foreign<json>(found->second);
    if (!info.is_object())
      throw UserError(file.string() + ": its metadata " + sharding_info + " are no JSON object");
  }
  for (auto& [name, tensor] : read_safetensors(file)) {
    auto begin = begin_of(info, name, tensor, file);
    auto& pieces = all[name];
    if (info.is_null() && !pieces.empty())
      throw UserError("'" + name + "' stands in " + pieces[0].file + " and in " + file.string());
    const auto same = [&begin, &tensor = tensor](const Shard& piece) {
      return piece.begin == begin && piece.tensor.sizes() == tensor.sizes() &&
             piece.tensor.scalar_type() == tensor.scalar_type();
    };
    std::erase_if(pieces, same);
    pieces.push_back({std::move(tensor), std::move(begin), file.string()});
  }
}

bool overlap(const Shard& a, const Shard& b) {
  for (size_t d = 0; d < a.begin.size(); ++d) {
    const auto dim = static_cast<int64_t>(d);
    if (a.begin[d] + a.tensor.size(dim) <= b.begin[d] ||
        b.begin[d] + b.tensor.size(dim) <= a.begin[d])
      return false;
  }
  return a.tensor.numel() > 0 && b.tensor.numel() > 0;
}

at::Tensor joined_shards(const std::string& name, const std::vector<Shard>& pieces) {
  const auto& first = pieces[0];
  if (pieces.size() == 1 && std::ranges::all_of(first.begin, [](auto at) { return at == 0; }))
    return first.tensor;
  const auto wrong = [&](const std::string& what) {
    return UserError(first.file + ": '" + name + "': " + what);
  };
  std::vector<int64_t> sizes(first.begin.size());
  int64_t there = 0;
  for (const auto& piece : pieces) {
    if (piece.begin.size() != sizes.size() ||
        piece.tensor.scalar_type() != first.tensor.scalar_type())
      throw wrong("its piece in " + piece.file + " has another type or number of dimensions");
    for (size_t d = 0; d < sizes.size(); ++d)
      sizes[d] = std::max(sizes[d], piece.begin[d] + piece.tensor.size(static_cast<int64_t>(d)));
    there += piece.tensor.numel();
  }
  for (size_t i = 0; i < pieces.size(); ++i)
    for (size_t k = 0; k < i; ++k)
      if (overlap(pieces[i], pieces[k]))
        throw wrong("its pieces in " + pieces[k].file + " and " + pieces[i].file + " overlap");
  int64_t all = 1;
  bool fits = true, empty = false;
  for (const int64_t size : sizes) {
    empty |= size == 0;
    fits = fits && !__builtin_mul_overflow(all, std::max<int64_t>(size, 1), &all);
  }
  if (!fits || (empty ? 0 : all) != there)
    throw wrong("pieces are missing: is a file of the checkpoint?");
  auto whole = at::empty(sizes, first.tensor.options());
  for (const auto& piece : pieces) {
    auto place = whole;
    for (size_t d = 0; d < sizes.size(); ++d)
      place = place.narrow(static_cast<int64_t>(d), piece.begin[d],
                           piece.tensor.size(static_cast<int64_t>(d)));
    place.copy_(piece.tensor);
  }
  return whole;
}

/// The name of a shard's file: "shard-00002-model-00001-of-00001.safetensors"; a single shard's is
/// "model-00001-of-00001.safetensors".
std::string file_name(int64_t shard, int64_t shards) {
  constexpr const char* whole = "model-00001-of-00001.safetensors";
  if (shards == 1) return whole;
  char text[64];
  std::snprintf(text, sizeof text, "shard-%05lld-%s", static_cast<long long>(shard + 1), whole);
  return text;
}

void write_index(const fs::path& folder, const TensorMap& tensors) {
  json files = json::object();
  size_t bytes = 0;
  for (const auto& [name, tensor] : tensors) {
    files[name] = file_name(0, 1);
    bytes += tensor.nbytes();
  }
  const json index{{"metadata", {{"total_size", bytes}}}, {"weight_map", files}};
  write_whole(folder / "model.safetensors.index.json", index.dump(2) + "\n");
}

void write_shard(const fs::path& folder, const TensorMap& tensors, int64_t shard, int64_t shards) {
  TensorMap pieces;
  json info = json::object();
  for (const auto& [name, tensor] : tensors) {
    std::vector<int64_t> begin(static_cast<size_t>(tensor.dim()), 0);
    at::Tensor piece = tensor;
    if (tensor.dim() == 0 && shard > 0) continue;
    if (tensor.dim() > 0 && shards > 1) {
      const int64_t rows = tensor.size(0), chunk = (rows + shards - 1) / shards;
      begin[0] = shard * chunk;
      if (begin[0] >= rows && shard > 0) continue;
      piece = tensor.narrow(0, begin[0], std::min(chunk, rows - begin[0]));
    }
    info[name] = {{"saved_offsets", begin}};
    pieces.emplace(name, piece);
  }
  std::map<std::string, std::string> metadata{{"format", "pt"}};
  if (shards > 1)
    metadata.insert({{sharding_info, info.dump()},
                     {"DCP_VERSION", "1.0"},
                     {number_of_shards, std::to_string(shards)}});
  write_safetensors(folder / file_name(shard, shards), pieces, metadata);
}

}  // namespace

bool is_dcp_folder(const fs::path& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error) || fs::exists(folder / "manifest.json", error)) return false;
  const auto files = files_of(folder);
  const auto is_of_a_run = [](const fs::path& file) {
    const auto name = file.filename().string();
    return name.starts_with("optimizer-") || name.starts_with("state-");
  };
  return !files.empty() && std::ranges::none_of(files, is_of_a_run);
}

bool is_dcp_shard(const fs::path& file) {
  if (file.extension() != ".safetensors") return false;
  const auto metadata = read_safetensors_metadata(file);
  const auto shards = metadata.find(number_of_shards);
  if (shards != metadata.end()) return shards->second != "1";
  const auto found = metadata.find(sharding_info);
  if (found == metadata.end()) return false;
  const auto info = parse_foreign<json>(found->second);
  return info.is_object() && std::ranges::any_of(info, [](const json& piece) {
           const auto begin = piece.is_object() ? piece.value("saved_offsets", json()) : json();
           return begin.is_array() && std::ranges::any_of(begin, [](const json& at) {
                    return at.is_number_integer() && at != 0;
                  });
         });
}

TensorMap read_dcp(const fs::path& folder) {
  const auto files = files_of(folder);
  check_files(files);
  Shards all;
  for (const auto& file : files) add_pieces(all, file);
  if (all.empty()) throw UserError(folder.string() + ": holds no tensors in safetensors files");
  TensorMap tensors;
  for (auto& [name, pieces] : all) {
    tensors.emplace(name, joined_shards(name, pieces));
    pieces.clear();
  }
  return tensors;
}

void write_dcp(const fs::path& folder, const TensorMap& tensors, int64_t shards) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (!fs::is_directory(folder))
    throw RunError(cannot_be_written(folder, error ? error.value() : ENOTDIR));
  if (const auto files = files_of(folder); !files.empty())
    throw UserError(folder.string() + ": holds " + files[0].filename().string() +
                    " already; name a new folder");
  try {
    for (int64_t shard = 0; shard < shards; ++shard) write_shard(folder, tensors, shard, shards);
    if (shards == 1) write_index(folder, tensors);
  } catch (const json::exception&) {
    throw UserError(folder.string() + ": names of tensors are not in UTF-8");
  }
  flush_folder(folder);
}

}  // namespace composer
