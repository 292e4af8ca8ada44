#include "data/datasets/image_list.h"

#include "base/remote/remote_path.h"
#include "base/text.h"
#include "data/samples/list_file.h"
#include "data/shards/shard_files.h"

namespace composer {

namespace fs = std::filesystem;

OpenedSet ImageListParams::open(const std::string& index_dir, OnBadSample on_bad_sample,
                                const std::vector<std::string>& class_names) const {
  if (file.empty()) throw UserError("file: missing; it must name a list of images and classes");
  for (const auto& [key, value] : {std::pair("file", &file), std::pair("images_dir", &images_dir),
                                   std::pair("classes", &classes)})
    if (is_remote(*value))
      throw UserError(std::string(key) + ": '" + shown_path(*value) +
                      "' is remote; lists are read from a disk");
  if (!is_list_file(file))
    throw UserError("file: '" + file + "' ends in none of .csv, .tsv and .jsonl");
  if (!datadir.empty()) checked_datadir(datadir, "the list");
  std::vector<std::string> problems;
  const auto found = [&](const std::string& name, const std::string& key, bool folder = false) {
    const fs::path whole = fs::absolute(fs::path(datadir) / name).lexically_normal();
    std::error_code error;
    if (!(folder ? fs::is_directory(whole, error) : fs::is_regular_file(whole, error)))
      problems.push_back(key + ": there is no " + (folder ? "folder" : "file") + " '" +
                         whole.string() + "'" + slash_hint(name));
    return whole;
  };
  const fs::path list = found(file, "file");
  const fs::path names = classes.empty() ? fs::path() : found(classes, "classes");
  const fs::path images =
      images_dir.empty() ? list.parent_path() : found(images_dir, "images_dir", /*folder=*/true);
  if (!problems.empty()) throw UserError(problems);
  const ListColumns columns{path, label, ffcv.targets};
  const std::string root = (images / "").string();
  const auto make = [&]() -> std::optional<std::vector<uint8_t>> {
    std::vector<std::pair<std::string, PathStamp>> watched;
    for (const auto& one : {list, names}) {
      if (one.empty()) continue;
      watched.emplace_back(one.string(), settled_stamp_of(one.string()));
    }
    std::optional<std::vector<std::string>> known;
    if (!names.empty()) known = listed_classes(names, columns);
    auto writer =
        list_table(list, columns, known,
                   ListedFiles{.root = root, .required = on_bad_sample == OnBadSample::error});
    for (const auto& [one, stamp] : watched) writer.watch(one, stamp);
    return writer.bytes();
  };
  const auto table = kept_table(
      shard_table_file(
          {root, {(images_dir.empty() ? list.filename() : list).string(), names.string()}},
          "list3 " + path + ' ' + label + targets_text(ffcv.targets), index_dir),
      {.does = "reads the list " + list.string(), .root = root, .make = make});
  auto source = std::make_shared<FileSource>(table, root, 3);
  source->index_below(root);
  source->are_rows_of(list.string());
  if (!class_names.empty()) source->set_labels(indices_of(table->class_names(), class_names));
  return {source, table->classes(), table->class_names()};
}

std::string ImageListParams::location() const { return (fs::path(datadir) / file).string(); }

std::vector<std::string> ImageListParams::number_names() const {
  return listed_columns(fs::path(datadir) / file, {path, label});
}

}  // namespace composer
