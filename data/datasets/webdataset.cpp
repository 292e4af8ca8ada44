#include "data/datasets/webdataset.h"

#include "data/shards/part_source.h"
#include "data/shards/shard_files.h"
#include "data/shards/webdataset.h"

namespace composer {

namespace {

const std::string kExpected = "train/ and val/ with .tar files, or these files themselves";

}  // namespace

std::string WebDatasetParams::folder() const {
  return is_remote(datadir) ? remote_part(datadir, is_train, "", ffcv.remote)
                            : part_folder(datadir, is_train, kExpected).string();
}

std::string WebDatasetParams::location() const {
  return shards.empty() ? folder() : path_below(datadir, shards);
}

OpenedSet WebDatasetParams::open(const std::string& index_dir) const {
  ShardFiles files;
  if (!shards.empty()) {
    if (!datadir.empty() && !is_remote(datadir)) checked_datadir(datadir, "the shards");
    files = named_shards(shards, datadir, "shards", ffcv.remote);
  } else {
    const auto part = folder();
    files = shards_in(part, ".tar", ffcv.remote);
    if (files.names.empty())
      throw UserError("datadir: '" + shown_path(part) + "' has no .tar files" +
                      compressed_tars_hint(part) + "; expected " + kExpected);
  }
  const auto table = kept_table(
      shard_table_file(files, "webdataset " + image + ' ' + label + targets_text(ffcv.targets),
                       index_dir),
      {.does = "reads the headers of the shards in " + files.root, .root = files.root, .make = [&] {
         return std::optional(webdataset_table(files, {image, label, ffcv.targets}));
       }});
  return {std::make_shared<PartSource>(table, files, 3), table->classes()};
}

}  // namespace composer
