#include "data/datasets/mds.h"

#include "base/log.h"
#include "base/remote/cache_folder.h"
#include "data/index/index_location.h"
#include "data/shards/part_source.h"
#include "data/shards/shard_files.h"

namespace composer {

namespace fs = std::filesystem;

namespace {

/// Warns, once for each set, where the cache lacks room for all unpacked shards: a shard is then
/// fetched and unpacked whole for a single image.
void warn_of_little_room(const ShardFiles& files) {
  uint64_t unpacked = 0;
  for (const auto& packed : files.packed) unpacked += packed ? packed->bytes : 0;
  if (unpacked == 0) return;
  const uint64_t limit = files.remote.cache_limit,
                 room = CacheFolder::get(files.remote)->most_bytes();
  if (unpacked <= room) return;
  static std::mutex lock;
  static std::set<std::string> warned;
  const std::lock_guard guard(lock);
  if (!warned.insert(files.root).second) return;
  const bool by_limit = limit > 0 && room >= limit;
  log::warn(
      std::string(by_limit ? "remote.cache_limit" : "remote.cache_dir") +
      ": the compressed shards of " + files.root + " hold " + std::to_string(unpacked / 1'000'000) +
      " MB, of which " + std::to_string(room / 1'000'000) +
      " MB have room: shards are fetched and unpacked again for single images; " +
      (by_limit ? "allow more" : "free the disk, or name a folder on a larger one") +
      ", or put the shards uncompressed beside them in the store, where those are read first");
}

}  // namespace

std::string MdsParams::folder() const {
  const std::string expected =
      "train/ and val/ with an index.json and its shards, or these files themselves";
  if (is_remote(datadir)) return remote_part(datadir, is_train, "index.json", ffcv.remote);
  const fs::path part = part_folder(datadir, is_train, expected);
  std::error_code error;
  if (!fs::is_regular_file(part / "index.json", error))
    throw UserError("datadir: '" + part.string() + "' has no index.json; expected " + expected);
  return part.string();
}

fs::path MdsParams::unpack_folder() const {
  if (is_remote(datadir)) return {};
  return cache_file_of(folder(), local_dir, ".mds");
}

std::vector<std::string> MdsParams::number_names() const {
  return mds_number_columns(folder(), ffcv.remote);
}

MdsOptions MdsParams::options() const {
  return {.image = image,
          .label = label,
          .targets = ffcv.targets,
          .unpack_to = unpack_folder(),
          .remote = ffcv.remote};
}

WrongFiles MdsParams::wrong_hashes() const {
  return wrong_mds_hashes(folder(), unpack_folder(), ffcv.remote);
}

std::shared_ptr<Source> MdsParams::open_readable(WrongFiles& unreadable) const {
  auto tolerant = options();
  tolerant.unreadable = &unreadable;
  const std::string files = folder();
  auto table = std::make_shared<const SampleTable>(mds_table(files, tolerant));
  if (table->size() == 0) return nullptr;
  return std::make_shared<PartSource>(std::move(table),
                                      mds_files(files, ffcv.remote, /*without_missing=*/true), 3);
}

OpenedSet MdsParams::open(const std::string& index_dir) const {
  const std::string files = folder();
  const ShardFiles index = mds_files(files, ffcv.remote);
  warn_of_little_room(index);
  const auto table = kept_table(
      shard_table_file(index,
                       "mds " + image + ' ' + label + ' ' + local_dir + targets_text(ffcv.targets),
                       index_dir),
      {.does = "reads the shards in " + shown_path(files), .root = index.root, .make = [&] {
         return std::optional(mds_table(files, options()));
       }});
  return {std::make_shared<PartSource>(table, index, 3), table->classes()};
}

}  // namespace composer
