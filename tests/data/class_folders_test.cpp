#include "data/samples/class_folders.h"

#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <thread>

#include "base/error.h"
#include "base/files/system_files.h"
#include "base/text.h"
#include "data/datasets/image_folder.h"
#include "data/index/index_location.h"
#include "tests/data/errors.h"
#include "tests/files.h"

namespace composer::class_folders_test {

using namespace composer::test;
using Catch::Matchers::Contains;

namespace {

/// Paths of the images and their classes, found one folder after the other.
void collect(const fs::path& folder, std::vector<fs::path> above, std::vector<std::string>& all) {
  const auto real = fs::canonical(folder);
  if (std::find(above.begin(), above.end(), real) != above.end()) return;
  above.push_back(real);
  for (const auto& entry : fs::directory_iterator(folder)) {
    std::error_code error;
    if (entry.is_directory(error))
      collect(entry.path(), above, all);
    else if (is_meant_as_image(entry.path()))
      all.push_back(entry.path().string());
  }
}

std::vector<std::string> expected_of(const fs::path& folder) {
  std::vector<std::string> classes, all;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const auto name = entry.path().filename().string();
    if (entry.is_directory() && !name.starts_with('.')) classes.push_back(name);
  }
  std::sort(classes.begin(), classes.end());
  for (size_t i = 0; i < classes.size(); ++i) {
    std::vector<std::string> images;
    collect(folder / classes[i], {}, images);
    std::sort(images.begin(), images.end());
    for (const auto& image : images) all.push_back(image + " " + std::to_string(i));
  }
  return all;
}

std::vector<std::string> names_of(const Source& source) {
  std::vector<std::string> all;
  for (int64_t i = 0; i < source.size(); ++i)
    all.push_back(source.name(i) + " " + std::to_string(source.label(i)));
  return all;
}

FolderParams folder_at(const std::string& folder) {
  FolderParams params;
  params.datadir = folder;
  return params;
}

std::shared_ptr<Source> opened(const std::string& folder,
                               OnBadSample on_bad_sample = OnBadSample::skip) {
  return open_class_folders(folder_at(folder), on_bad_sample);
}

/// What is left of `many` class folders.
std::vector<std::string> names_in(const std::string& folder) { return names_of(*opened(folder)); }

}  // namespace

TEST_CASE("class folders are listed in the order of their paths, whatever lies in them", "[data]") {
  const TemporaryFolder folder, elsewhere;
  const fs::path root = folder / "train";
  for (int i = 0; i < 40; ++i) {
    const std::string name = "class " + std::to_string(i * 7 % 40);
    for (int k = 0; k < 5; ++k) write_file(root / name / (std::to_string(k * 3 % 5) + ".JpG"), "");
  }
  for (const char* file :
       {"class 1/a/b/c.png", "class 1/a b.png", "class 1/a.png", "class 1/a/0.webp",
        "class 1/.hidden.jpg", "class 1/.hidden/x.jpg", "class 1/x.txt", "class 1/jpg",
        "class 1/.jpg", "class 1/x.heic", "class 1/\xff.jpg", "class 1/new\nline.gif",
        ".hidden/x.jpg", "loose.jpg"})
    write_file(root / file, "");
  write_file(elsewhere / "deep/far.jpg", "");
  fs::create_directory_symlink(elsewhere.path(), root / "class 2/linked");
  fs::create_directory_symlink(elsewhere.path(), root / "class linked");
  fs::create_directory_symlink(root / "class 3", root / "class 3/loop");
  fs::create_directory_symlink(root, root / "class 4/up");
  fs::create_symlink("/no/such.jpg", root / "class 5/broken.jpg");
  fs::create_symlink("/no/such", root / "class 5/broken");
  fs::create_symlink(elsewhere / "deep/far.jpg", root / "class 5/far.jpg");

  const auto expected = expected_of(root);
  REQUIRE(expected.size() > 200);
  CHECK(names_in(folder.path()) == expected);
  CHECK(names_in(folder.path()) == expected);
  CHECK_THROWS_WITH(opened(folder.path(), OnBadSample::error),
                    Contains("class 1/x.heic: only ") && Contains("there are 2 such files"));

  // However the folder is named, its files are named by that.
  const auto slashes = names_in(root.string() + "//");
  REQUIRE(slashes.size() == expected.size());
  CHECK(slashes[0] == root.string() + "//" + expected[0].substr(root.string().size() + 1));
  const auto here = fs::current_path();
  fs::current_path(folder.path());
  const auto relative = names_in("train");
  fs::current_path(here);
  CHECK(relative[0] == expected[0].substr(folder.path().string().size() + 1));
}

TEST_CASE("a class folder whose name is not UTF-8 is refused by name", "[data]") {
  for (const std::string part : {"", "train/"}) {
    const TemporaryFolder folder;
    for (const char* name : {"dog", "k\xE4t"}) fs::create_directories(folder / (part + name));
    CHECK_THROWS_WITH(folder_classes(folder.path().string()),
                      Contains("'k?t', whose name is not UTF-8"));
  }
}

TEST_CASE("images beside class folders are told of", "[data]") {
  const TemporaryFolder folder;
  for (const char* file :
       {"train/a/1.jpg", "train/1.jpg", "train/2.png", "train/notes.txt", "train/._1.jpg", "3.jpg"})
    write_file(folder / file, "");
  Errors errors(folder / "errors");
  CHECK(opened(folder.path())->size() == 1);
  CHECK_THAT(errors.text(), Contains("/train' has 2 images beside its class folders"));
}

TEST_CASE("what systems leave in folders is neither image nor class", "[data]") {
  const TemporaryFolder folder;
  for (const char* file :
       {"train/cat/1.jpg", "train/dog/2.jpg", "train/cat/._1.jpg", "train/cat/@eaDir/1.jpg/t.jpg",
        "train/cat/.ipynb_checkpoints/1-checkpoint.jpg", "train/cat/Thumbs.db",
        "train/@eaDir/cat/t.jpg", "train/__MACOSX/cat/._1.jpg", "train/$RECYCLE.BIN/x.jpg",
        "train/lost+found/y.jpg", "train/#recycle/z.jpg", "train/System Volume Information/i.txt",
        "val/__MACOSX/cat/1.jpg", "val/dog/3.jpg"})
    write_file(folder / file, "");
  Errors errors(folder / "errors");
  const std::string root = folder.path().string();
  CHECK(names_in(folder.path()) ==
        std::vector<std::string>{root + "/train/cat/1.jpg 0", root + "/train/dog/2.jpg 1"});
  CHECK(folder_classes(folder.path()) == std::vector<std::string>{"cat", "dog"});
  FolderParams val = folder_at(folder.path());
  val.is_train = false;
  CHECK(names_of(*open_class_folders(val)) == std::vector<std::string>{root + "/val/dog/3.jpg 1"});
  CHECK_THAT(errors.text(), !Contains("left out"));
}

TEST_CASE("systems' files and folders are known by their names", "[data]") {
  for (const char* name : {"._a.jpg", "@EADIR", "$Recycle.Bin", "thumbs.db", ".Trash-1000",
                           ".DS_Store", "Icon\r", "@Recycle", "#snapshot"})
    CHECK(is_system_file(name));
  for (const char* name : {"", "a.jpg", ".a.jpg", "_", "recycled", "trash", "@", "eaDir"})
    CHECK_FALSE(is_system_file(name));
  CHECK(is_in_system_folder("a/@eaDir/b.jpg"));
  CHECK(is_in_system_folder("a/._b.jpg"));
  CHECK_FALSE(is_in_system_folder("/a//b.jpg"));
  CHECK(file_kind_of("a/._b.jpg") == FileKind::other);
}

TEST_CASE("parts of a set are not taken for classes", "[data]") {
  using Names = std::vector<std::string>;
  for (const Names& parts : {Names{"Testing", "Training"}, Names{"Test", "Train"},
                             Names{"seg_test", "seg_train"}, Names{"dev", "test", "validation"}}) {
    const TemporaryFolder folder;
    for (const auto& part : parts) write_file(folder / part / "cat/1.jpg", "");
    CHECK_THROWS_WITH(opened(folder.path()), Contains("has the folders " + joined(parts)) &&
                                                 Contains("rename them train/ and val/"));
    CHECK(opened(folder / parts[0])->size() == 1);
  }
  const TemporaryFolder flat, one, other;
  for (const char* file : {"test/1.jpg", "training/2.jpg"}) write_file(flat / file, "");
  CHECK(opened(flat.path())->size() == 2);
  write_file(one / "Train/cat/1.jpg", "");
  CHECK(opened(one.path())->size() == 1);
  for (const char* file : {"test/a/1.jpg", "ship/2.jpg"}) write_file(other / file, "");
  CHECK(opened(other.path())->size() == 2);
}

TEST_CASE("files in class folders that are no images are told of", "[data]") {
  const TemporaryFolder folder;
  for (const char* file : {"train/a/1.jfif", "train/a/notes.txt", "train/b/deep/labels.csv",
                           "train/b/2.pbm", "train/b/.hidden.txt"})
    write_file(folder / file, "");
  Errors errors(folder / "errors");
  CHECK(opened(folder.path())->size() == 2);
  CHECK_THAT(errors.text(),
             Contains("/train' has 2 files in its class folders without an image's ending, left "
                      "out, such as a/notes.txt"));
}

TEST_CASE("class folders that cannot be read, or hold no images, are named together", "[data]") {
  const TemporaryFolder folder;
  write_file(folder / "train/a/1.jpg", "");
  write_file(folder / "train/b/1.heic", "");
  write_file(folder / "train/c/1.txt", "");
  fs::create_directories(folder / "train/d");
  const auto problems = [&] {
    try {
      opened(folder.path(), OnBadSample::error);
      return std::vector<std::string>();
    } catch (const UserError& error) {
      return error.problems();
    }
  };
  const auto all = problems();
  REQUIRE(all.size() == 3);
  CHECK_THAT(all[0], Contains("train/c: a class folder without images (.jpg, "));
  CHECK_THAT(all[1], Contains("train/d: a class folder without images"));
  CHECK_THAT(all[2], Contains("train/b/1.heic: only ") && Contains("convert them"));
  if (::getuid() == 0) {
    WARN("skipped: nothing is kept from root");
    return;
  }
  fs::permissions(folder / "train/d", fs::perms::none);
  CHECK_THROWS_WITH(opened(folder.path()), Contains("train/d: cannot be read: Permission denied"));
  fs::permissions(folder / "train/d", fs::perms::owner_all);
}

TEST_CASE("a class folder that looks like the folder of the classes is told of", "[data]") {
  const TemporaryFolder folder;
  const auto told = [&](const std::string& name, const std::vector<std::string>& files) {
    for (const auto& file : files) write_file(folder / (name + "/" + file), "");
    Errors errors(folder / "errors");
    opened(folder / name);
    return errors.text();
  };
  CHECK_THAT(told("one", {"photos/cat/1.jpg", "photos/dog/2.jpg"}),
             Contains("one' has the class 'photos' with the folders cat, dog in it") &&
                 Contains("datadir is the folder 'photos'"));
  CHECK_THAT(told("two", {"cat/1.jpg", "dog/2.jpg", "two/cat/1.jpg", "two/dog/2.jpg"}),
             Contains("two' has the class 'two' with the folders cat, dog in it") &&
                 Contains("is the set there once more?"));
  for (const auto& files : {std::vector<std::string>{"cat/1.jpg"},
                            {"cat/a/1.jpg", "dog/a/2.jpg"},
                            {"1/1/1.jpg", "2/1/2.jpg", "3/1/3.jpg"}})
    CHECK_THAT(told("set " + files[0].substr(0, 3), files), !Contains("in it"));
}

TEST_CASE("an evaluation's folders may lack classes, or images of some", "[data]") {
  const TemporaryFolder folder;
  for (const char* file : {"train/cat/1.jpg", "train/dog/2.jpg", "train/owl/3.jpg", "val/owl/4.jpg",
                           "test/owl/5.jpg", "test/cat/6.jpg"})
    write_file(folder / file, "");
  for (const char* empty : {"val/dog", "test/dog"}) fs::create_directories(folder / empty);
  Errors errors(folder / "errors");
  FolderParams val = folder_at(folder.path());
  val.is_train = false;
  const std::string root = folder.path().string();
  CHECK(names_of(*open_class_folders(val)) == std::vector<std::string>{root + "/val/owl/4.jpg 2"});
  const auto test = folder_at(folder / "test");
  CHECK(names_of(*open_class_folders(test, OnBadSample::error, {}, {"owl", "dog", "ape", "cat"})) ==
        std::vector<std::string>{root + "/test/cat/6.jpg 3", root + "/test/owl/5.jpg 0"});
  CHECK_THROWS_WITH(open_class_folders(test), Contains("test/dog: a class folder without images"));
  fs::remove(folder / "val/owl/4.jpg");
  CHECK_THROWS_WITH(open_class_folders(val), Contains("val/owl: a class folder without images"));
  const auto told = errors.text();
  for (const char* part : {"/val", "/test"})
    CHECK_THAT(told, Contains(part + std::string("' has class folders without images, dog: ")));
}

TEST_CASE("the list of class folders is kept, until one of them changes", "[data][slow]") {
  const TemporaryFolder folder, cache, elsewhere;
  for (const char* file : {"a/1.jpg", "a/deep/2.jpg", "b/3.jpg"}) write_file(folder / file, "");
  write_file(elsewhere / "deep/4.jpg", "");
  fs::create_directory_symlink(elsewhere.path(), folder / "b/linked");
  fs::create_symlink(elsewhere / "later", folder / "b/later");

  const auto file = cache_file_of(folder.path(), cache.path(), ".table");
  const auto open = [&] {
    return names_of(*open_class_folders(folder_at(folder.path()), OnBadSample::skip, cache.path()));
  };
  /// Once the folders' times are old enough to be trusted.
  const auto is_kept = [&] {
    for (int i = 0; i < 1000; ++i) {
      const auto before = path_stamp_of(file.string());
      CHECK(open() == expected_of(folder.path()));
      if (path_stamp_of(file.string()) == before) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return false;
  };
  REQUIRE(is_kept());
  const auto changes = [&](const auto& change) {
    const auto before = open();
    change();
    const auto after = open();
    CHECK(after == expected_of(folder.path()));
    return after != before;
  };
  CHECK(changes([&] { write_file(folder / "a/deep/5.jpg", ""); }));
  CHECK(changes([&] { fs::remove(folder / "a/1.jpg"); }));
  CHECK(changes([&] { write_file(elsewhere / "deep/6.jpg", ""); }));
  CHECK(changes([&] { write_file(elsewhere / "later/7.jpg", ""); }));
  CHECK(changes([&] { write_file(folder / "c/8.jpg", ""); }));
  CHECK(changes([&] { fs::rename(folder / "c", folder / "d"); }));
  REQUIRE(is_kept());

  // A time that was set back does not hide a change.
  const auto time = fs::last_write_time(folder / "d");
  CHECK(changes([&] {
    write_file(folder / "d/9.jpg", "");
    fs::last_write_time(folder / "d", time);
  }));
}

TEST_CASE("the endings of names say what files are", "[data]") {
  for (const char* name : {"a.jpg", "A.JPEG", "a.b.png", ".a.webp", " .gif", "a.TiF", "\xff.ppm",
                           "a.jfif", "a.JPE", "a.pbm", "a.pnm"})
    CHECK(file_kind_of(name) == FileKind::image);
  for (const char* name : {"a.heic", "x.AVIF"})
    CHECK(file_kind_of(name) == FileKind::unreadable_image);
  for (const char* name : {"a", ".jpg", "jpg", "a.", "a.jpg.txt", "", "a.jp"})
    CHECK(file_kind_of(name) == FileKind::other);
}

}  // namespace composer::class_folders_test
